/* readable_range.c: determines which pages can be read, for the walks of stack_walker.c.
 *
 * A page is tested by a system call. rt_sigprocmask copies the new signal mask from user memory
 * (and fails with EFAULT if the memory cannot be read) before it checks `how` (and fails with
 * EINVAL if `how` is unknown). So with an invalid `how` the call changes nothing, and its error
 * shows whether 8 bytes can be read. The call takes 70 ns, and is needed only for pages that were
 * never read before. mincore is no alternative, because it reports a guard page as resident.
 *
 * Valgrind, which checks the system calls of the program that it runs, prints a line about each
 * invalid `how`. Under Valgrind, process_vm_readv reads the word instead, which takes longer.
 *
 * Readable memory may be unmapped later without notice (a coroutine's stack). So a range cannot
 * guarantee that memory is readable. The guarantee is that a walk reads only words of live frames
 * (section 3 of stack_walker.c); the range stops walks that follow wrong rules to other memory. */
#include "unwind/readable_range.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "base/pages.h"
#include "base/raw_syscall.h"

enum {
    KERNEL_SIGSET_BYTES = 8,
    INVALID_HOW = 0x5afe,
    /* The largest distance at which a page counts as part of the same stack, if all pages between
     * are readable. So the range can be extended over a frame with a large array (by at most 256
     * system calls, once), but not to another stack far away. */
    GAP_PAGES_MAX = 256,
};

static bool is_under_valgrind;

void ag_readable_under_valgrind(void) {
    is_under_valgrind = true;
}

static bool word_can_be_copied(uintptr_t address) {
    uintptr_t word;
    struct iovec to = {&word, sizeof(word)}, from = {(void *)address, sizeof(word)};
    const long pid = ag_syscall2(SYS_getpid, 0, 0);
    return ag_syscall6(SYS_process_vm_readv, pid, (long)&to, 1, (long)&from, 1, 0) == sizeof(word);
}

static bool page_is_readable(uintptr_t page) {
    if (AG_UNLIKELY(is_under_valgrind)) {
        return word_can_be_copied(page);
    }
    return ag_syscall6(SYS_rt_sigprocmask, INVALID_HOW, (long)page, 0, KERNEL_SIGSET_BYTES, 0, 0) ==
           -EINVAL;
}

/* Whether all pages of [from, to) are readable, and there are at most GAP_PAGES_MAX. */
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
