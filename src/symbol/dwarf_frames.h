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

/* Most frames of an address. If more functions are inlined at an address, outer frames are omitted,
 * except for the outermost. */
enum { AG_FRAMES_PER_ADDRESS = 128 };

/* Writes the frames at ADDRESS, innermost first, and returns their number, 0 to
 * AG_FRAMES_PER_ADDRESS. Unknown members are NULL or 0; `function` and `linkage` are NULL for code
 * that has only lines. NAMES owns the texts. */
size_t ag_dwarf_frames(struct ag_dwarf_units *units, uint64_t address, struct ag_names *names,
                       struct ag_symbol_frame ret_frames[AG_FRAMES_PER_ADDRESS]);

#endif
