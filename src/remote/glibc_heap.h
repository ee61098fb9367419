/* glibc_heap.h: what the main heap of a process holds, read from the chunks of glibc's malloc. */
#ifndef AG_GLIBC_HEAP_H
#define AG_GLIBC_HEAP_H

#include <stdint.h>
#include <sys/types.h>

enum { AG_GLIBC_HEAP_CLASSES = 40 }; /* class n: chunks of (2^(n - 1), 2^n] bytes */
struct ag_glibc_heap {
    uint64_t n_blocks, bytes, free_bytes;        /* with malloc's 8 bytes a block */
    uint64_t class_bytes[AG_GLIBC_HEAP_CLASSES]; /* of bytes */
};

/* Walks from LOW to HIGH, the mapping that the kernel calls [heap], while the process runs. What
 * threads keep for their next malloc (some KiB each) counts as in use: only they know. Blocks of
 * other arenas and mappings of their own are not there. 0; -ESTALE: a chunk does not fit to its
 * neighbours, because it is in use elsewhere at the moment or is none of glibc's; -E2BIG: over 1
 * GiB; or another negative errno of reading. */
int ag_glibc_heap_read(pid_t pid, uint64_t low, uint64_t high, struct ag_glibc_heap *ret_heap);

#endif
