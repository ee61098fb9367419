/* residency.c: bit 63 of each entry of /proc/PID/pagemap. */
#include "residency.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096, ENTRIES_AT_ONCE = 2048 };

uint64_t ag_residency_bytes(pid_t pid, uint64_t low, uint64_t high) {
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
            n_present += entries[i] >> 63;
        }
        page += n;
    }
    close(fd);
    return n_present * PAGE_BYTES;
}
