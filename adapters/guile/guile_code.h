/* guile_code.h: finds the Scheme procedure and the line of an address in Guile's bytecode. */
#ifndef AG_GUILE_CODE_H
#define AG_GUILE_CODE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

struct ag_guile_place {
    uint32_t function, line; /* as in struct ag_managed_frame; function 0: no Scheme code */
};
/* PC: an address in bytecode; for a caller, the last byte of its call. FRAME: the FP of the frame
 * that executes it. The result of a pc is found once, and then kept. */
struct ag_guile_place ag_guile_place_of(uintptr_t pc, uintptr_t frame);

bool ag_guile_code_start(void);

#endif
