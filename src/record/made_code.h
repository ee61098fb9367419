/* made_code.h: code that a JIT compiler made in this process, for the unwinder and the trace: how
 * to unwind its frames, and which of its addresses occur in stacks.
 *
 * An adapter (the code for one runtime) gets the compiler's frame descriptions and passes them to
 * ag_made_code_add before the code can run. From time to time the adapter gets the new pcs and
 * records the names of their functions in the trace. No other component can find these names, and
 * they are lost when the process ends. */
#ifndef AG_MADE_CODE_H
#define AG_MADE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/eh_frame.h"
#include "unwind/stack_walker.h"

struct ag_made_code {
    uintptr_t low, high;               /* the code's addresses */
    uintptr_t tables_low, tables_high; /* readable memory with .eh_frame entries */
    /* sorted by pc; pcs are relative to `low`, entries to `tables_low`; ag_made_code_add copies the
     * array */
    const struct ag_cfi_place *places;
    size_t n_places; /* at least 1 */
};
enum { AG_MADE_MOST = 1 << 17, AG_MADE_PCS_MOST = 1 << 19 };

/* Adds code; from then on stacks can be unwound through it. The code is never removed. Returns 0,
 * -ENOSPC or -ENOMEM. Any thread may call this function, but the callers must hold a common
 * lock. */
int ag_made_code_add(const struct ag_made_code *code);
/* Finds the range that contains pc, which is the pc of a frame minus 1, and remembers the pc of the
 * frame for ag_made_code_pc. Async-signal-safe. */
bool ag_made_code_find(uintptr_t pc, struct ag_unwind_image *ret_image);

/* ag_made_code_count: the number of remembered pcs (return addresses). ag_made_code_pc: the pc with
 * this number, from 0; the result 0 means that it is not written yet. A pc may occur several
 * times. */
uint32_t ag_made_code_count(void);
uintptr_t ag_made_code_pc(uint32_t number);

/* A function (id of a FRAME record) and line at a pc. ag_record_code records all functions and
 * lines at one pc, the innermost inlined function first. */
struct ag_made_place {
    uint32_t function, line;
};
void ag_record_code(uintptr_t pc, const struct ag_made_place *places, uint32_t n_places);

#endif
