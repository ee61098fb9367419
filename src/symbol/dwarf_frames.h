/* dwarf_frames.h: finds the functions, files and lines that the compiler recorded for an
 * address. */
#ifndef AG_DWARF_FRAMES_H
#define AG_DWARF_FRAMES_H

#include <elfutils/libdw.h>
#include <stddef.h>
#include <stdint.h>

#include "dwarf_units.h"
#include "names.h"
#include "symbol.h"

enum {
    AG_FRAMES_PER_ADDRESS = 128
}; /* deeper inlining loses its outer levels except
                                       * the outermost */

/* Fills frames, innermost first. Unknown fields are NULL or 0: function and linkage for code that
 * only has lines. Returns how many, 0 to AG_FRAMES_PER_ADDRESS; texts are kept in NAMES. */
size_t ag_dwarf_frames(struct ag_dwarf_units *units, uint64_t address, struct ag_names *names,
                       struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]);

#endif
