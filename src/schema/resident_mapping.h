/* resident_mapping.h: the resident memory of a process, mapping by mapping, as the kernel counts
 * it. The writer reads it (writer/resident_look.h), and the model divides it into classes
 * (model/answers/resident_classes.h). */
#ifndef AG_RESIDENT_MAPPING_H
#define AG_RESIDENT_MAPPING_H

#include <stddef.h>
#include <stdint.h>

/* An arena of glibc's malloc, except the main arena, consists of areas of at most this size
 * (HEAP_MAX_SIZE of 64-bit programs). Each area begins at a multiple of this size. */
#define AG_ARENA_BYTES (UINT64_C(64) << 20)

enum ag_resident_flags {
    AG_RESIDENT_WRITE = 1,
    AG_RESIDENT_EXECUTE = 2,
    AG_RESIDENT_SHARED = 4, /* MAP_SHARED: other processes see the changes */
    AG_RESIDENT_FILE = 8,   /* a file, a memfd or shared memory; not set: anonymous memory */
    /* the stack of a thread: the kernel's own mapping [stack], or a mapping that looks like a
     * stack from a thread library */
    AG_RESIDENT_STACK = 16,
    /* anonymous memory that begins where the writable segment of a loaded file ends: its
     * zero-initialized data (.bss) */
    AG_RESIDENT_STATIC_DATA = 32,
    AG_RESIDENT_HEAP = 64,       /* [heap] (brk), or the arena of a thread of glibc's malloc */
    AG_RESIDENT_NORESERVE = 128, /* mapped with MAP_NORESERVE */
};
struct ag_resident_mapping {
    uint64_t low, high;       /* [low, high) */
    uint64_t rss_bytes;       /* Rss in /proc/PID/smaps */
    uint64_t anonymous_bytes; /* the part of rss_bytes that is not shared with a file */
    uint32_t flags;           /* enum ag_resident_flags */
    const char *path;         /* "" for anonymous memory; may be a name such as "[vdso]"; for static
                               * data, the path of the file to which the data belongs */
    /* which pages are resident, encoded as in the field `pages` of the record resident_mapping
     * (record_fields.def); NULL: not known */
    const uint8_t *pages;
    size_t pages_length;
};
/* Thread control blocks and thread-local storage. low == high: the storage is the whole block of
 * malloc at this address; its size is not known here. */
struct ag_storage_range {
    uint64_t low, high; /* [low, high) */
};
struct ag_resident_look {                 /* one reading; all zero: empty */
    struct ag_resident_mapping *mappings; /* those with resident pages, in the order of addresses */
    size_t n_mappings;
    uint64_t page_bytes;
    uint64_t rss_bytes; /* sum over the mappings */
    /* not in rss_bytes: page tables; pages of hugetlbfs; memory that was swapped out */
    uint64_t page_table_bytes, hugetlb_bytes, swap_bytes;
    struct ag_storage_range *storage; /* in the order of addresses */
    size_t n_storage;
};

#endif
