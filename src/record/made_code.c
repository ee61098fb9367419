/* made_code.c: keeps the ranges of code that a JIT compiler made, and the pcs in them that occur in
 * stacks (made_code.h). Both are arrays that only grow, in memory that is mapped in advance and
 * takes physical memory only when it is used. A range is published when the count of ranges is
 * increased. The ranges are searched from the newest to the oldest, because new pcs are usually in
 * new ranges. Each pc is written once, at its own index. A pc is rarely looked up twice, because
 * the unwinder caches the result, so long lists cost little. */
#include "made_code.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/pages.h"
#include "recorder.h"

enum { PLACES_AT_ONCE = 1 << 16 };

static struct ag_made_code *ranges; /* an array of AG_MADE_MOST ranges, mapped by made_code_map */
static _Atomic uint32_t n_ranges;
/* an array of AG_MADE_PCS_MOST pcs, mapped by made_code_map */
static _Atomic(_Atomic uintptr_t *) pcs;
static _Atomic uint32_t n_pcs;
static struct {
    struct ag_cfi_place *at;
    size_t n_left;
} places; /* mapped memory that is not used yet: ag_made_code_add copies the member `places` of a
           * range to it */

static bool made_code_map(void) {
    if (!ranges) {
        ranges = ag_pages_map(AG_MADE_MOST * sizeof(*ranges));
    }
    if (!atomic_load_explicit(&pcs, memory_order_relaxed)) {
        atomic_store_explicit(&pcs, ag_pages_map(AG_MADE_PCS_MOST * sizeof(uintptr_t)),
                              memory_order_release);
    }
    return ranges && atomic_load_explicit(&pcs, memory_order_relaxed);
}

static struct ag_cfi_place *copy_places(const struct ag_cfi_place *from, size_t n) {
    if (n > places.n_left) {
        const size_t n_mapped = n > PLACES_AT_ONCE ? n : PLACES_AT_ONCE;
        struct ag_cfi_place *mapped = ag_pages_map(n_mapped * sizeof(*mapped));
        if (!mapped) {
            return NULL;
        }
        places.at = mapped;
        places.n_left = n_mapped;
    }
    struct ag_cfi_place *copy = places.at;
    memcpy(copy, from, n * sizeof(*copy));
    places.at += n;
    places.n_left -= n;
    return copy;
}

int ag_made_code_add(const struct ag_made_code *code) {
    const uint32_t count = atomic_load_explicit(&n_ranges, memory_order_relaxed);
    if (count == AG_MADE_MOST) {
        return -ENOSPC;
    }
    struct ag_cfi_place *copy = made_code_map() ? copy_places(code->places, code->n_places) : NULL;
    if (!copy) {
        return -ENOMEM;
    }
    ranges[count] = *code;
    ranges[count].places = copy;
    /* release: pairs with the acquire in ag_made_code_find, so that the range is complete */
    atomic_store_explicit(&n_ranges, count + 1, memory_order_release);
    return 0;
}

static void made_code_note(uintptr_t pc) {
    _Atomic uintptr_t *list = atomic_load_explicit(&pcs, memory_order_acquire);
    const uint32_t number = atomic_fetch_add_explicit(&n_pcs, 1, memory_order_relaxed);
    if (number < AG_MADE_PCS_MOST) {
        atomic_store_explicit(&list[number], pc, memory_order_release);
    } else {
        atomic_fetch_sub_explicit(&n_pcs, 1, memory_order_relaxed);
    }
}

bool ag_made_code_find(uintptr_t pc, struct ag_unwind_image *ret_image) {
    for (uint32_t i = atomic_load_explicit(&n_ranges, memory_order_acquire); i-- > 0;) {
        const struct ag_made_code *range = &ranges[i];
        if (pc - range->low < range->high - range->low) {
            *ret_image = (struct ag_unwind_image){.low = range->low,
                                                  .high = range->high,
                                                  .tables_low = range->tables_low,
                                                  .tables_high = range->tables_high,
                                                  .places = range->places,
                                                  .n_places = range->n_places};
            made_code_note(pc + 1); /* the unwinder looks up the byte before the return address */
            return true;
        }
    }
    return false;
}

uint32_t ag_made_code_count(void) {
    const uint32_t count = atomic_load_explicit(&n_pcs, memory_order_relaxed);
    return count < AG_MADE_PCS_MOST ? count : (uint32_t)AG_MADE_PCS_MOST;
}

uintptr_t ag_made_code_pc(uint32_t number) {
    return atomic_load_explicit(&atomic_load_explicit(&pcs, memory_order_acquire)[number],
                                memory_order_acquire);
}

void ag_record_code(uintptr_t pc, const struct ag_made_place *frames, uint32_t n_places) {
    for (uint32_t i = 0; i < n_places; i++) {
        const struct ag_record record = {.kind = AG_RECORD_CODE,
                                         .u.code = {.pc = pc,
                                                    .place = i,
                                                    .n_places = n_places,
                                                    .frame = frames[i].function,
                                                    .line = frames[i].line}};
        ag_recorder_append(&record);
    }
}
