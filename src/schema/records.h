/* records.h: the contents of a trace: events, and records of all other kinds, whose structs are
 * generated from record_fields.def. Three components fill these structs: the recorder, the writer
 * and the decoder. The recorder is inside the profiled program and writes records into the live
 * segment (shared memory). The writer is the process that writes the trace. */
#ifndef AG_RECORDS_H
#define AG_RECORDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ag_record_kind {
#define AG_EVENT(number, NAME, name) AG_RECORD_##NAME = number,
#define AG_RECORD(number, NAME, name, type, source) AG_RECORD_##NAME = number,
#define AG_BATCH(number, NAME, name, type, source) AG_RECORD_##NAME = number,
#define AG_FIELD(NAME, type, TYPE, field)
#define AG_END(NAME)
#include "record_fields.def"
};
/* The name of a kind, such as "alloc"; NULL: unknown. */
const char *ag_record_kind_name(enum ag_record_kind kind);
/* The name of an enum ag_lost_cause (segment.h), such as "ring_full"; "unknown" for others. */
const char *ag_lost_cause_name(uint32_t cause);

enum ag_chunk_kind { AG_CHUNK_KIND_EVENTS = 1, AG_CHUNK_KIND_RECORDS = 2, AG_CHUNK_KIND_INDEX = 3 };

struct ag_bytes { /* a string without a terminating NUL */
    const char *data;
    uint32_t length;
};

struct ag_event {     /* 24 bytes; the events of a chunk (a compressed part of the trace) are
                       * decoded to an array */
    uint64_t address; /* bits 48 to 63: the address space, see AG_EVENT_SPACE */
    /* ALLOC, BLOCK_TYPE: requested bytes; MOVE: the new address; STAMP: ns since the recording
     * began */
    uint64_t size;
    /* the id of a stack, which is the id of the stack's innermost node (frame) in the tree of all
     * stacks. In an ALLOC or BLOCK_TYPE it is the stack of the block. In a FREE or REALLOC_FREE it
     * is the stack that called free or realloc; 0 means unknown. */
    uint32_t stack;
    /* enum ag_record_kind: ALLOC FREE REALLOC_FREE UNDO_FREE STAMP RESET; for heaps with a garbage
     * collector also MOVE PROMOTE COLLECT BLOCK_TYPE */
    uint8_t kind;
    uint8_t via; /* number of the allocation function */
    uint16_t reserved;
};

/* AG_EVENT_SPACE: the address space of an event's address. 0 is the memory of the process; another
 * value is the number of a heap with its own address space. AG_EVENT_PLACE: the address in this
 * address space. */
#define AG_EVENT_SPACE(address) ((uint32_t)((address) >> 48))
#define AG_EVENT_PLACE(address) ((address) & ((UINT64_C(1) << 48) - 1))

/* ---- records ---- */

#define AG_FIELD_C_U8 uint8_t
#define AG_FIELD_C_U32 uint32_t
#define AG_FIELD_C_U64 uint64_t
#define AG_FIELD_C_ADDRESS uint64_t
#define AG_FIELD_C_STACK uint32_t
#define AG_FIELD_C_TEXT struct ag_bytes
#define AG_FIELD_C_TEXTS struct ag_bytes
#define AG_FIELD_C_BYTES struct ag_bytes

/* A struct for each kind of record. A batch is a record that contains an array of such structs,
 * which are called rows. */
#define AG_EVENT(number, NAME, name)
#define AG_RECORD(number, NAME, name, type, source) struct type {
#define AG_BATCH(number, NAME, name, type, source) struct type {
#define AG_FIELD(NAME, type, TYPE, field) AG_FIELD_C_##TYPE field;
#define AG_END(NAME) \
    }                \
    ;
#include "record_fields.def"

struct ag_record { /* one record, of any kind that is not an event */
    enum ag_record_kind kind;
    uint32_t stream; /* number of the stream (thread) of the chunk from which the record was read */
    /* time of the last STAMP event before the record; in chunks without events: the chunk's
     * first_time_ns */
    uint64_t time_ns;
    union {
        struct { /* for a batch: an array of `count` structs in `data`; see ag_rows_next
                  * (format/decode.h) */
            uint32_t count;
            struct ag_bytes data;
        } rows;
#define AG_EVENT(number, NAME, name)
#define AG_RECORD(number, NAME, name, type, source) struct type name;
#define AG_BATCH(number, NAME, name, type, source)
#define AG_FIELD(NAME, type, TYPE, field)
#define AG_END(NAME)
#include "record_fields.def"
    } u;
};

/* A node of the tree of stacks has an image (a loaded file) and a pc. A managed frame is a function
 * that a FRAME record defines, not code of an image. Its node has AG_IMAGE_MANAGED instead of an
 * image. Instead of a pc, this node has the frame's number and the executed line, which fit into
 * the 48 bits that the recorder stores of a pc. */
#define AG_IMAGE_MANAGED UINT32_MAX
enum { AG_FRAME_BITS = 24, AG_FRAME_MOST = (1 << AG_FRAME_BITS) - 1 };
/* A stack that could not be stored (AG_ROOT_NOT_KEPT) is shown as one frame with this number. */
enum { AG_FRAME_NOT_KEPT = 0 };
/* frame: 1 to AG_FRAME_MOST. line: 0 means the line of the FRAME record; a line above 2^24 - 1 is
 * stored as 0. */
static inline uint64_t ag_managed_pc(uint32_t frame, uint32_t line) {
    return (frame & AG_FRAME_MOST) |
           (line <= AG_FRAME_MOST ? (uint64_t)line << AG_FRAME_BITS : UINT64_C(0));
}
static inline uint32_t ag_managed_frame(uint64_t pc) {
    return (uint32_t)pc & AG_FRAME_MOST;
}
static inline uint32_t ag_managed_line(uint64_t pc) {
    return (uint32_t)(pc >> AG_FRAME_BITS) & AG_FRAME_MOST;
}

/* What ends the blocks of a heap: the program, a garbage collector that moves live blocks, or a
 * garbage collector that does not move them. */
enum ag_heap_kind { AG_HEAP_MALLOC = 0, AG_HEAP_MOVING = 1, AG_HEAP_NON_MOVING = 2 };

enum ag_gc_known {                       /* flags: which fields of a GC record are valid */
                   AG_GC_KNOWN_END = 1,  /* the collection ended after pause_ns */
                   AG_GC_KNOWN_HEAP = 2, /* heap_before_bytes and heap_after_bytes */
                   /* needed_bytes: the size of the request that caused the collection */
                   AG_GC_KNOWN_NEED = 4,
                   /* promoted_bytes: bytes that were moved to an older generation. The heap sizes
                    * are then those of the young generation, which promoted blocks leave. */
                   AG_GC_KNOWN_PROMOTED = 8,
                   AG_GC_KNOWN_ALLOCATED = 16 /* allocated_bytes and weight_bytes */
};

enum ag_memory_sample_known { /* flags: which fields of a MEMORY_SAMPLE record are valid */
                              AG_SAMPLE_PROCESS = 1, /* the sizes of the process */
                              AG_SAMPLE_CGROUP = 2,  /* cgroup_bytes */
                              AG_SAMPLE_LIMIT = 4,   /* cgroup_limit_bytes */
                              AG_SAMPLE_PARTS = 8    /* cgroup's anonymous, cache, shmem bytes */
};

/* Whether it is certain that the kernel killed the process for lack of memory. */
enum ag_kill_certainty { AG_KILL_PROBABLE = 1, AG_KILL_CERTAIN = 2 };
enum ag_kill_reason {
    AG_KILL_REASON_UNKNOWN = 0,
    AG_KILL_REASON_CGROUP = 1, /* a cgroup (control group) was at its limit */
    AG_KILL_REASON_MACHINE = 2 /* the machine had no free memory */
};

/* flags: which fields of a MEMORY record are valid, and facts about the heap */
enum ag_memory_known {
    /* reserved_bytes, committed_bytes and of_malloc_bytes */
    AG_MEMORY_SIZES = 1,
    AG_MEMORY_FREE = 2,      /* free_bytes: committed memory without blocks */
    AG_MEMORY_IN_MALLOC = 4, /* each block of the heap is allocated by malloc */
    /* the memory that the heap obtained from malloc was recorded as blocks of malloc, too */
    AG_MEMORY_RECORDED_TWICE = 8
};

#endif
