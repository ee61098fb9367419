/* remote_memory.c: copies memory of another process by process_vm_readv, which does not stop the
 * process and takes 0.8 us for a page.
 *
 * If a page cannot be read, process_vm_readv returns the number of bytes before this page, and an
 * error only if there are none. So the number is compared with the number that was requested. */
#include "remote_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    PAGE_BYTES = 4096,
    PIECES_AT_ONCE = 256, /* the kernel accepts 1024; 256 need 8 KiB of this thread's stack */
};

ssize_t ag_remote_memory_read_some(pid_t pid, uint64_t address, void *ret_bytes, size_t n_bytes) {
    const struct iovec here = {ret_bytes, n_bytes};
    const struct iovec there = {(void *)(uintptr_t)address, n_bytes};
    const ssize_t n = process_vm_readv(pid, &here, 1, &there, 1, 0);
    return n < 0 ? -errno : n;
}

int ag_remote_memory_read(pid_t pid, uint64_t address, void *ret_bytes, size_t n_bytes) {
    const ssize_t n = ag_remote_memory_read_some(pid, address, ret_bytes, n_bytes);
    if (n < 0) {
        return (int)n;
    }
    return (size_t)n == n_bytes ? 0 : -EFAULT;
}

int ag_remote_memory_read_pieces(pid_t pid, const struct ag_remote_piece *pieces, size_t n_pieces) {
    while (n_pieces > 0) {
        struct iovec here[PIECES_AT_ONCE], there[PIECES_AT_ONCE];
        const size_t n = n_pieces < PIECES_AT_ONCE ? n_pieces : PIECES_AT_ONCE;
        size_t wanted = 0;
        for (size_t i = 0; i < n; i++) {
            here[i] = (struct iovec){pieces[i].bytes, pieces[i].n_bytes};
            there[i] = (struct iovec){(void *)(uintptr_t)pieces[i].address, pieces[i].n_bytes};
            wanted += pieces[i].n_bytes;
        }
        const ssize_t got = process_vm_readv(pid, here, n, there, n, 0);
        if (got < 0) {
            return -errno;
        }
        if ((size_t)got != wanted) {
            return -EFAULT;
        }
        pieces += n;
        n_pieces -= n;
    }
    return 0;
}

int ag_remote_memory_read_text(pid_t pid, uint64_t address, char *ret_text, size_t limit) {
    size_t filled = 0;
    /* each read stays inside of one page, because the next page may be unmapped */
    while (filled < limit - 1) {
        const uint64_t at = address + filled;
        size_t n = PAGE_BYTES - at % PAGE_BYTES;
        n = n < limit - 1 - filled ? n : limit - 1 - filled;
        const int r = ag_remote_memory_read(pid, at, ret_text + filled, n);
        if (r < 0) {
            ret_text[0] = '\0';
            return r;
        }
        if (memchr(ret_text + filled, '\0', n) != NULL) {
            return 0;
        }
        filled += n;
    }
    ret_text[filled] = '\0';
    return 0;
}

uint64_t ag_remote_memory_resident(pid_t pid, uint64_t low, uint64_t high) {
    enum { ENTRIES_AT_ONCE = 2048 };
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    uint64_t entries[ENTRIES_AT_ONCE], n_present = 0;
    if (fd < 0) {
        return 0;
    }
    for (uint64_t page = low / PAGE_BYTES, end = (high + PAGE_BYTES - 1) / PAGE_BYTES;
         page < end;) {
        const uint64_t wanted = end - page < ENTRIES_AT_ONCE ? end - page : ENTRIES_AT_ONCE;
        const ssize_t got =
            pread(fd, entries, wanted * sizeof entries[0], (off_t)(page * sizeof entries[0]));
        if (got <= 0) {
            break;
        }
        const uint64_t n = (uint64_t)got / sizeof entries[0];
        for (uint64_t i = 0; i < n; i++) {
            n_present += entries[i] >> 63; /* bit 63: the page is present */
        }
        page += n;
    }
    close(fd);
    return n_present * PAGE_BYTES;
}
