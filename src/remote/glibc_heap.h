/* glibc_heap.h: the contents of a process' main heap, read from the chunks of glibc's malloc. */
#ifndef AG_GLIBC_HEAP_H
#define AG_GLIBC_HEAP_H

#include <stdint.h>
#include <sys/types.h>

enum { AG_GLIBC_HEAP_CLASSES = 40 }; /* class n: chunks of (2^(n - 1), 2^n] bytes */
struct ag_glibc_heap {
    uint64_t n_blocks, bytes, free_bytes;        /* bytes include malloc's 8 bytes per block */
    uint64_t class_bytes[AG_GLIBC_HEAP_CLASSES]; /* the part of `bytes` in each class */
};

/* Walks from LOW to HIGH, the mapping that the kernel calls [heap], while the process runs. Chunks
 * in threads' caches (some KiB per thread) count as in use, because the heap does not show that
 * they are free. Blocks of other arenas and separate mappings are not included. Returns 0; -ESTALE:
 * a chunk does not fit its neighbors, because the process is changing the chunk or the memory does
 * not belong to glibc; -E2BIG: the mapping is larger than 1 GiB; or the negative errno of a failed
 * read. */
int ag_glibc_heap_read(pid_t pid, uint64_t low, uint64_t high, struct ag_glibc_heap *ret_heap);

#endif
