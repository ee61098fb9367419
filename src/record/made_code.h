/* made_code.h: code that a JIT compiler made in this process, for the unwinder and the trace: how
 * to unwind its frames, and which of its addresses occur in stacks.
 *
 * The adapter that gets the compiler's frame descriptions adds them here before the code can run.
 * From time to time it fetches the pcs that are new and reports their names to the trace: no other
 * component can find these names, and they are lost when the process ends. */
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
    const struct ag_cfi_place
        *places;     /* sorted by pc; pcs count from low, entries from tables_low; copied */
    size_t n_places; /* at least 1 */
};
enum { AG_MADE_MOST = 1 << 17, AG_MADE_PCS_MOST = 1 << 19 };

/* From now on stacks can be unwound through this code. It is never removed. 0, -ENOSPC or -ENOMEM.
 * Can be called from any thread; callers serialize by a lock of their own. */
int ag_made_code_add(const struct ag_made_code *code);
/* Finds the range that contains pc, and remembers pc for ag_made_code_count. Async-signal-safe. */
bool ag_made_code_find(uintptr_t pc, struct ag_unwind_image *ret_image);

/* The number of remembered pcs (return addresses). Each pc occurs at least once; entry 0: not
 * written yet. */
uint32_t ag_made_code_count(void);
uintptr_t ag_made_code_pc(uint32_t number);

/* The function and line at a pc, innermost first; function: id of a FRAME record. */
struct ag_made_place {
    uint32_t function, line;
};
void ag_record_code(uintptr_t pc, const struct ag_made_place *places, uint32_t n_places);

#endif
