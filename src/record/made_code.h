/* made_code.h: code that a compiler made in this process, as the unwinder and the trace need
 * it: what its frames look like, and which places in it stand in stacks.
 *
 * Whoever knows the compiler's frame descriptions tells them before the code can run, and asks from
 * time to time which places are new, to tell the trace what stands there: their names are known to
 * nobody else, and gone with the process. */
#ifndef AG_MADE_CODE_H
#define AG_MADE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "unwind/eh_frame.h"
#include "unwind/stack_walker.h"

struct ag_made_code {
    uintptr_t low, high;               /* of the code */
    uintptr_t tables_low, tables_high; /* readable: .eh_frame entries */
    const struct ag_cfi_place
        *places;     /* sorted, pcs from low, entries from tables_low; is copied */
    size_t n_places; /* at least 1 */
};
enum { AG_MADE_MOST = 1 << 17, AG_MADE_PCS_MOST = 1 << 19 };

/* From here on stacks go through it. It stays for good. 0, -ENOSPC or -ENOMEM. Any thread; callers
 * take turns by a lock of their own. */
int ag_made_code_add(const struct ag_made_code *code);
/* Async-signal-safe. Notes pc. */
bool ag_made_code_find(uintptr_t pc, struct ag_unwind_image *ret_image);

/* The pcs (return addresses) that were met, by number from 0, each at least once; 0: not written
 * yet. */
uint32_t ag_made_code_count(void);
uintptr_t ag_made_code_pc(uint32_t number);

/* What stands at a pc, innermost first; function: of a FRAME record. */
struct ag_made_place {
    uint32_t function, line;
};
void ag_record_code(uintptr_t pc, const struct ag_made_place *places, uint32_t n_places);

#endif
