/* readable_range.c: finds out which pages can be read, for the walks of stack_walker.c.
 *
 * The probe: rt_sigprocmask copies the new signal mask from user memory (EFAULT if it cannot)
 * before it checks `how` (EINVAL for an unknown one). So with a wrong `how` it changes nothing and
 * shows whether 8 bytes can be read. It takes 70 ns, and only pages never seen before need it.
 * mincore is no alternative: it reports a guard page as resident.
 *
 * Readable memory may be unmapped later without notice (a coroutine's stack). So a range is only a
 * second safeguard, besides section 3 of stack_walker.c, which limits what a walk reads: the range
 * stops walks that wrong rules lead astray. */
#include "unwind/readable_range.h"

#include <errno.h>
#include <string.h>

#include "base/pages.h"
#include "base/raw_syscall.h"

enum {
    KERNEL_SIGSET_BYTES = 8,
    INVALID_HOW = 0x5afe,
    /* The largest distance at which a page counts as part of the same stack, if all pages between
     * are readable. A frame with a large array is thus crossed (256 probes, once), but a stack
     * elsewhere is not searched for. */
    GAP_PAGES_MAX = 256,
};

static bool page_is_readable(uintptr_t page) {
    return ag_syscall6(SYS_rt_sigprocmask, INVALID_HOW, (long)page, 0, KERNEL_SIGSET_BYTES, 0, 0) ==
           -EINVAL;
}

/* Whether all pages of [from, to) are readable, and there are not too many. */
static bool gap_is_readable(uintptr_t from, uintptr_t to) {
    if ((to - from) / AG_PAGE_BYTES > GAP_PAGES_MAX) {
        return false;
    }
    for (uintptr_t page = from; page < to; page += AG_PAGE_BYTES) {
        if (!page_is_readable(page)) {
            return false;
        }
    }
    return true;
}

AG_COLD enum ag_readable_result ag_readable_range_enter(struct ag_readable_range *range,
                                                        uintptr_t address) {
    const uintptr_t page = ag_page_of(address);
    if (page < range->low && gap_is_readable(page + AG_PAGE_BYTES, range->low)) {
        range->low = page;
        return AG_READABLE_EXTENDED;
    }
    if (page >= range->high && range->high > range->low && gap_is_readable(range->high, page)) {
        range->high = page + AG_PAGE_BYTES;
        return AG_READABLE_EXTENDED;
    }
    *range = (struct ag_readable_range){.low = page, .high = page + AG_PAGE_BYTES};
    return AG_READABLE_MOVED;
}

AG_COLD enum ag_readable_result ag_readable_range_extend(struct ag_readable_range *range,
                                                         uintptr_t address) {
    const uintptr_t page = ag_page_of(address);
    return address % 8 == 0 && page_is_readable(page) ? ag_readable_range_enter(range, address)
                                                      : AG_READABLE_NOT;
}

bool ag_readable_word(uintptr_t address) {
    return address % sizeof(uintptr_t) == 0 && page_is_readable(ag_page_of(address));
}

bool ag_readable_copy(void *destination, uintptr_t source, size_t bytes) {
    const uintptr_t first = ag_page_of(source);
    for (uintptr_t page = first; page < source + bytes; page += AG_PAGE_BYTES) {
        if (!page_is_readable(page)) {
            return false;
        }
    }
    memcpy(destination, (const void *)source, bytes);
    return true;
}
