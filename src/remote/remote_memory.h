/* remote_memory.h: copies memory of another process. The data is untrusted, and nothing is
 * written. */
#ifndef AG_REMOTE_MEMORY_H
#define AG_REMOTE_MEMORY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ag_remote_piece {
    uint64_t address;
    void *bytes;
    size_t n_bytes;
};

/* Read all bytes, of one range or of several pieces, or fail. Return 0; -EFAULT: some of the memory
 * is not mapped; -ESRCH: the process is gone; or -EPERM. */
int ag_remote_memory_read(pid_t pid, uint64_t address, void *ret_bytes, size_t n_bytes);
int ag_remote_memory_read_pieces(pid_t pid, const struct ag_remote_piece *pieces, size_t n_pieces);
/* Reads as much as is mapped from ADDRESS on. Returns the number of bytes, or a negative errno. */
ssize_t ag_remote_memory_read_some(pid_t pid, uint64_t address, void *ret_bytes, size_t n_bytes);
/* Reads the text at ADDRESS up to its zero or LIMIT - 1 bytes; always terminated. */
int ag_remote_memory_read_text(pid_t pid, uint64_t address, char *ret_text, size_t limit);
/* Returns the size of the pages in [low, high) that are present; 0 if unknown. Takes 2 ns a page, a
 * twentieth of what smaps takes, and locks nothing of the process. */
uint64_t ag_remote_memory_resident(pid_t pid, uint64_t low, uint64_t high);

#endif
