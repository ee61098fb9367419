/* julia_libc_entries.c: defines stat64, lstat64 and fstat64 for liballogram-julia. glibc exports
 * these names only since 2.33. Julia 1.5.3 is in Debian 11, whose glibc is older, and
 * liballogram-julia has to load there even if it was built on a newer system. On x86-64 the struct
 * of the kernel and that of the C library are the same. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "base/raw_syscall.h"

int stat64(const char *path, struct stat64 *ret_status) AG_HIDDEN;
int lstat64(const char *path, struct stat64 *ret_status) AG_HIDDEN;
int fstat64(int fd, struct stat64 *ret_status) AG_HIDDEN;

static int answer(long r) {
    if (ag_syscall_failed(r)) {
        errno = (int)-r;
        return -1;
    }
    return 0;
}

int stat64(const char *path, struct stat64 *ret_status) {
    return answer(ag_syscall2(SYS_stat, (long)path, (long)ret_status));
}

int lstat64(const char *path, struct stat64 *ret_status) {
    return answer(ag_syscall2(SYS_lstat, (long)path, (long)ret_status));
}

int fstat64(int fd, struct stat64 *ret_status) {
    return answer(ag_syscall2(SYS_fstat, fd, (long)ret_status));
}
