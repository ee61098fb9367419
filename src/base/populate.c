/* populate.c: allocates the pages of a shared mapping before they are used, with one system call,
 * FUTEX_WAKE_OP, for each page.
 *
 * The system call has to write to the page. On tmpfs, a read of a hole through a mapping allocates
 * a page, too. But on a file system on a disk, such as ext4, it only fills a page of the page
 * cache, and no block of the disk is allocated before the first write (seen on Linux 6.18).
 * The write must not change the contents, even if another process changes them at the same moment.
 * And the call must return EFAULT where a plain store raises SIGBUS. FUTEX_WAKE_OP meets all three
 * conditions: before it wakes any thread, it performs an atomic operation on a word of the caller's
 * choice, here `word |= 0`.
 *
 * MADV_POPULATE_WRITE (Linux 5.14) allocates all pages with one call, and takes 45 us for 64 KiB
 * instead of 57 us. But some sandboxes permit only those values of `advice` in madvise that
 * allocators use. Firefox reports any other value as a violation; other sandboxes kill the process.
 * Futexes are allowed in all programs with threads. So madvise is used only if futexes are
 * refused. */
#include "base/populate.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>

#include "base/pages.h"
#include "base/raw_syscall.h"

enum {
    POPULATE_WRITE = 23, /* MADV_POPULATE_WRITE, absent from older headers */
};

static long touch_page(uintptr_t page) {
    const long or_zero = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
    long result;
    do {
        result = ag_syscall6(SYS_futex, (long)page, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,
                             /* n_wake= */ 0, /* n_wake2= */ 0, (long)page, or_zero);
    } while (result == -EINTR);
    return result;
}

/* Whether the kernel or a sandbox refused the system call itself, so that its result says nothing
 * about the memory. */
static bool is_refused(long result) {
    return result == -EINVAL || result == -EPERM || result == -EACCES || result == -ENOSYS;
}

bool ag_populate_at_once(void *address, size_t bytes) {
    const uintptr_t first = ag_page_of((uintptr_t)address);
    const uintptr_t end = ag_page_after((uintptr_t)address + bytes);
    long result;
    do {
        result = ag_syscall3(SYS_madvise, (long)first, (long)(end - first), POPULATE_WRITE);
    } while (result == -EINTR);
    return result == 0;
}

bool ag_populate(void *address, size_t bytes) {
    const uintptr_t end = (uintptr_t)address + bytes;
    for (uintptr_t page = ag_page_of((uintptr_t)address); page < end; page += AG_PAGE_BYTES) {
        const long result = touch_page(page);
        if (is_refused(result)) {
            return ag_populate_at_once(address, bytes);
        }
        if (ag_syscall_failed(result)) {
            return false;
        }
    }
    return true;
}
