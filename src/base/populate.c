/* populate.c: MADV_POPULATE_WRITE (Linux 5.14), or on an older kernel, and where a seccomp filter
 * refuses madvise, one system call per page that writes nothing new.
 *
 * That call has to write (a read would map the shared zero page of a hole), must not change the
 * page, even if a relative changes it at the same moment, and must answer EFAULT where a plain
 * store raises SIGBUS. FUTEX_WAKE_OP does just that: before it wakes anybody it performs an atomic
 * operation on a word of ours, here `word |= 0`. */
#include "base/populate.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>

#include "base/raw_syscall.h"

enum {
    PAGE_BYTES = 4096,
    POPULATE_WRITE = 23, /* MADV_POPULATE_WRITE, absent from older headers */
};

static bool touch_page(uintptr_t page) {
    const long or_zero = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
    long result;
    do {
        result = ag_syscall6(SYS_futex, (long)page, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG,
                             /* n_wake= */ 0, /* n_wake2= */ 0, (long)page, or_zero);
    } while (result == -EINTR);
    return !ag_syscall_failed(result);
}

bool ag_populate_slow(void *address, size_t bytes) {
    const uintptr_t end = (uintptr_t)address + bytes;
    for (uintptr_t page = (uintptr_t)address & ~(uintptr_t)(PAGE_BYTES - 1); page < end;
         page += PAGE_BYTES) {
        if (!touch_page(page)) {
            return false;
        }
    }
    return true;
}

/* Did the call itself fail, and say nothing about the memory? */
static bool is_refused(long result) {
    return result == -EINVAL || result == -EPERM || result == -EACCES || result == -ENOSYS;
}

bool ag_populate(void *address, size_t bytes) {
    const uintptr_t first = (uintptr_t)address & ~(uintptr_t)(PAGE_BYTES - 1);
    const uintptr_t end =
        ((uintptr_t)address + bytes + PAGE_BYTES - 1) & ~(uintptr_t)(PAGE_BYTES - 1);
    long result;
    do {
        result = ag_syscall3(SYS_madvise, (long)first, (long)(end - first), POPULATE_WRITE);
    } while (result == -EINTR);
    return is_refused(result) ? ag_populate_slow(address, bytes) : result == 0;
}
