/* decode.h: decodes the bytes of a trace to records. Input is untrusted: every length is checked,
 * nothing is asserted.
 *
 * Threads: a decoder belongs to one thread; several threads may decode different chunks at once.
 * Memory: a decoder owns its tables; a record's strings point into the decoded chunk and live until
 * the next start; its rows (nodes, sums) live until the next call of next. */
#ifndef AG_DECODE_H
#define AG_DECODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ag_record_kind {
#define AG_RECORD(number, NAME, name) AG_RECORD_##NAME = number,
#include "records.def"
#undef AG_RECORD
};
const char *ag_record_kind_name(enum ag_record_kind kind); /* "alloc"; NULL when unknown */
const char *ag_lost_cause_name(
    uint32_t cause); /* enum ag_lost_cause of segment.h: "ring_full"; "unknown" otherwise */

enum ag_chunk_kind { AG_CHUNK_KIND_EVENTS = 1, AG_CHUNK_KIND_RECORDS = 2, AG_CHUNK_KIND_INDEX = 3 };

enum {
    AG_TRACE_VERSION = 1,
    AG_CHUNK_MAX_BYTES =
        16 << 20, /* of a decoded chunk: a reader must be able to hold it, per thread */
};

enum ag_decode_code { /* pinned numbers, never reused */
                      AG_DECODE_OK = 0,
                      AG_DECODE_EMPTY = 10,       /* the file has no bytes */
                      AG_DECODE_NOT_A_TRACE = 11, /* no magic number */
                      AG_DECODE_NEWER = 12,       /* a version this reader does not know */
                      AG_DECODE_LIVE = 13, /* a live segment, not a sealed trace: seal it first */
                      AG_DECODE_NOT_REGULAR =
                          14, /* a pipe, a device, a socket: only regular files are opened */
                      AG_DECODE_CUT = 20, /* the file, a chunk or a record ends in its middle */
                      AG_DECODE_CHECKSUM = 21,
                      /* an inconsistent header, or one beyond its limits */
                      AG_DECODE_BAD_CHUNK = 22,
                      AG_DECODE_BAD_RECORD = 23,
                      /* whole chunks, but no index: the recording was killed or still runs */
                      AG_DECODE_UNSEALED = 24,
                      AG_DECODE_NO_MEMORY = 30,
                      AG_DECODE_IO = 31, /* see errno */
};
struct ag_decode_error {
    enum ag_decode_code code;
    uint64_t offset;      /* in the file, bytes; inside a chunk: of the chunk's header */
    uint64_t body_offset; /* inside a chunk: bytes into its decoded body */
    uint32_t record;      /* kind of the record, 0 when outside of one */
};
const char *ag_decode_code_text(enum ag_decode_code code); /* "cut short", for messages */

struct ag_bytes { /* a string without a terminating NUL */
    const char *data;
    uint32_t length;
};

struct ag_event {     /* 24 bytes; the events of a chunk are decoded to arrays of these */
    uint64_t address; /* bits 48 to 63: the space, see AG_EVENT_SPACE */
    uint64_t size;    /* ALLOC, BLOCK_TYPE: bytes asked for; MOVE: the new address; STAMP: ns since
                         the session began */
    uint32_t stack;   /* node id; of a FREE or REALLOC_FREE: the stack of the caller, 0: unknown */
    /* enum ag_record_kind: ALLOC FREE REALLOC_FREE UNDO_FREE STAMP RESET, and MOVE PROMOTE COLLECT
     * BLOCK_TYPE of collected heaps */
    uint8_t kind;
    uint8_t via;
    uint16_t reserved;
};

/* 0: the memory of the process. Otherwise the number of a heap with its own address space. */
#define AG_EVENT_SPACE(address) ((uint32_t)((address) >> 48))
#define AG_EVENT_PLACE(address) ((address) & ((UINT64_C(1) << 48) - 1))

/* one node of the stack tree; ids are in any order, parents come before children */
struct ag_node {
    uint32_t id;
    uint32_t parent; /* a node, or an enum ag_root below AG_NODE_FIRST */
    uint64_t pc;     /* return address, or the exact pc where the caller was interrupted */
    uint32_t image;  /* 0: unknown; AG_IMAGE_MANAGED: pc is the ag_managed_pc of a frame */
};

/* A managed frame in a stack: not code of an image, but a function that a FRAME record defines, and
 * the line that was executed in it. The bits fit in the 48 that the recorder keeps of a pc. */
#define AG_IMAGE_MANAGED UINT32_MAX
enum { AG_FRAME_BITS = 24, AG_FRAME_MOST = (1 << AG_FRAME_BITS) - 1 };
enum { AG_FRAME_NOT_KEPT = 0 }; /* used by readers for AG_ROOT_NOT_KEPT */
/* frame: 1 to AG_FRAME_MOST. line 0: that of the FRAME record; a line above 2^24 - 1 is stored as
 * 0. */
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

/* How the blocks of a heap end. */
enum ag_heap_kind { AG_HEAP_MALLOC = 0, AG_HEAP_MOVING = 1, AG_HEAP_NON_MOVING = 2 };

struct ag_call_path { /* function counters of one path through the calls of a thread or process */
    uint32_t tree, snapshot; /* to which it belongs */
    uint32_t node, parent;   /* numbered within the tree, from 1; parent 0: the outermost call */
    uint32_t frame;          /* number of a FRAME record */
    uint32_t reserved;
    uint64_t calls, own_words, own_ns; /* of this path alone, without its callees */
};
struct ag_cpu_sample { /* a thread that used the CPU at a moment, observed from outside */
    uint64_t time_ns;
    uint64_t weight_ns; /* CPU time that the sample represents */
    uint32_t stack, thread_id;
};
enum ag_gc_known {                            /* which fields of a collection are valid */
                   AG_GC_KNOWN_END = 1,       /* the collection ended after pause_ns */
                   AG_GC_KNOWN_HEAP = 2,      /* heap_before_bytes and heap_after_bytes */
                   AG_GC_KNOWN_NEED = 4,      /* needed_bytes: the request that started it */
                   AG_GC_KNOWN_PROMOTED = 8,  /* promoted_bytes: moved to an older generation */
                   AG_GC_KNOWN_ALLOCATED = 16 /* allocated_bytes and weight_bytes */
};

enum ag_memory_known { /* which fields of a heap's memory are valid */
                       /* reserved, committed, and the part that was allocated by malloc */
                       AG_MEMORY_SIZES = 1,
                       AG_MEMORY_FREE = 2,      /* the part that holds no block */
                       AG_MEMORY_IN_MALLOC = 4, /* each of its blocks is allocated by malloc */
                       /* The blocks in malloc were recorded as malloc blocks, too. */
                       AG_MEMORY_TOLD_TWICE = 8
};

struct ag_stack_sum { /* per stack and via, in the index: enough for every unfiltered view */
    uint32_t stack, via;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
    uint64_t peak_blocks, peak_bytes; /* live when the process' use was highest */
    uint64_t temporary_blocks;        /* freed before the thread's next allocation */
};
struct ag_timeline_point {
    uint64_t time_ns, in_use_bytes, in_use_blocks, allocated_bytes, rss_bytes;
};
struct ag_thread_sum {
    uint32_t stream, thread_id;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks,
        freed_bytes; /* freed_*: freed by this thread, whichever thread allocated */
};
struct ag_thread_pair {
    uint32_t allocated_by, freed_by; /* streams */
    uint64_t blocks, bytes;
};
struct ag_heap_sum {
    uint32_t heap, reserved;
    uint64_t allocated_blocks, allocated_bytes, in_use_bytes, in_use_blocks, peak_bytes,
        mapped_bytes;
    /* events reported by garbage collectors */
    uint64_t moved_blocks, promoted_blocks, collected_blocks;
};
struct ag_summary {
    uint64_t duration_ns, time_resolution_ns;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
    uint64_t in_use_blocks, in_use_bytes; /* at the end */
    uint64_t peak_blocks, peak_bytes, peak_time_ns;
    uint64_t peak_low_bytes, peak_high_bytes; /* equal when the order of events is known */
    uint64_t temporary_blocks, ghost_frees, unique_stacks, truncated_stacks, incomplete_stacks,
        threads;
    /* pairs of events that were reordered because allocs and frees alternate per address */
    uint64_t order_repairs;
    uint64_t rss_peak_bytes;
    uint64_t events;
    uint64_t reset_ns;    /* when the program last reset the reports; 0: never */
    uint64_t lost_stacks; /* allocated blocks whose stack is AG_ROOT_NOT_KEPT */
    /* Freed blocks whose frees were not recorded, seen by their address being allocated again.
     * Counted by a pass over the events, not part of the record. */
    uint64_t buried_blocks;
};

struct ag_record { /* one decoded record of the other kinds */
    enum ag_record_kind kind;
    uint64_t time_ns; /* of the stamp before it; outside EVENTS chunks the chunk's first time */
    uint32_t stream;
    union {
        struct {
            uint32_t stack; /* of the frees that follow in the chunk; it is also in their events */
        } free_stack;
        struct {
            uint32_t pid, parent_pid, mode, depth, n_arguments;
            uint64_t start_realtime_ns, session, start_ns; /* start_ns: since the session began */
            /* command: n_arguments strings, each terminated by NUL */
            struct ag_bytes exe, cwd, command;
            /* of the live segment, from which a killed session is sealed */
            struct ag_bytes live_path;
        } process;
        struct {
            uint32_t image;
            uint64_t bias, low, high;
            struct ag_bytes build_id, path;
        } image_load;
        struct {
            uint32_t image;
        } image_unload;
        struct {
            uint32_t stream, thread_id;
            struct ag_bytes name;
        } thread;
        struct {
            uint32_t heap, domain, is_backing;
            uint32_t kind;                                  /* enum ag_heap_kind */
            struct ag_bytes name, allocator, runtime, unit; /* unit: "": bytes */
        } heap;
        struct {
            uint32_t via, heap;
            struct ag_bytes name;
        } via;
        struct {
            uint32_t hooked;
            struct ag_bytes name, version, note;
            uint64_t told, counted; /* 0, 0: the runtime keeps no counts of its own */
        } runtime;
        struct {
            uint64_t interval_bytes, seed;
            uint32_t method; /* enum ag_sampling_method of segment.h */
        } sampling;
        struct {
            uint32_t count; /* iterate with ag_nodes_next */
            struct ag_bytes data;
        } nodes;
        struct {
            uint64_t address, bytes;
            uint32_t stack, via, protection, flags;
        } map; /* for MAP and UNMAP */
        struct {
            uint64_t time_ns, bytes;
        } resident;
        struct {
            uint32_t frame; /* 1 to AG_FRAME_MOST */
            uint32_t line;
            struct ag_bytes runtime, function, file;
        } frame;
        struct {
            uint32_t tree, snapshot, epoch;
            uint32_t n_calls; /* rows of CALLS that complete this snapshot */
            uint32_t word_bytes, thread_id;
            uint64_t time_ns;
            uint64_t messages, message_words, spawns, spawn_words, profiler_events, profiler_words;
            struct ag_bytes runtime, process, initial_call;
        } functions;
        struct {
            uint32_t known; /* flags of enum ag_gc_known */
            uint32_t stack, thread_id, frame;
            uint64_t start_ns, pause_ns, heap_before_bytes, heap_after_bytes, needed_bytes;
            uint64_t promoted_bytes;
            uint64_t allocated_bytes, weight_bytes;
            struct ag_bytes runtime, kind, process;
        } gc;
        struct {
            uint32_t type;
            struct ag_bytes name, runtime;
        } type;
        struct { /* returned as events: see ag_chunk_decoder_next */
            uint64_t address, to;
        } move;
        struct {
            uint64_t address, size;
            uint32_t stack;
        } block; /* PROMOTE, COLLECT; BLOCK_TYPE uses all fields */
        struct {
            uint32_t reserved; /* 0 */
        } reset;               /* also returned as an event */
        struct {
            uint32_t heap, known; /* known: flags of enum ag_memory_known */
            uint64_t time_ns;     /* when it was measured */
            uint64_t reserved_bytes, committed_bytes, free_bytes, of_malloc_bytes;
        } memory;
        struct {
            uint32_t stack, type;
        } stack_type;
        struct {
            uint64_t pc;
            uint32_t place, n_places, frame, line;
        } code;
        struct {
            struct ag_bytes expression; /* base/block_filter.h */
        } filter;
        struct {
            uint32_t via;
        } undecided;
        struct {
            uint32_t label;
            struct ag_bytes name;
        } label;
        struct {
            struct ag_bytes name;
        } mark;
        struct {
            uint32_t cause; /* enum ag_lost_cause of segment.h */
            uint64_t events;
        } lost;
        struct {
            uint32_t how; /* enum ag_slot_end of segment.h */
            uint32_t wait_status, wait_status_known;
            uint64_t time_ns;
        } end;
        struct {
            uint64_t rss_bytes, cpu_ns, target_cpu_ns, stack_checks, failed_stack_checks;
        } profiler;
        struct {
            uint64_t cpu_ns; /* the part of target_cpu_ns that was spent on samples */
            /* limit for allogram's share of the processes' CPU time; 0: none */
            uint32_t budget_millionths;
            uint64_t least_interval_bytes, most_interval_bytes; /* range used */
        } sampler;
        struct {
            uint32_t rate_hz; /* per second of a thread's CPU time */
            uint64_t samples, lost, stale, complete_stacks;
            uint64_t target_cpu_ns;  /* used by the process meanwhile */
            uint64_t sample_cost_ns; /* per sample, to the interrupted thread */
            /* all collections; those in GC records may be a sample by bytes */
            uint64_t collections_seen;
        } observed;
        struct ag_summary summary;
        struct {
            uint32_t count; /* iterate with the ag_sums_next_* function of the kind */
            struct ag_bytes data;
        } sums; /* STACK_SUMS TIMELINE THREAD_SUMS THREAD_PAIRS HEAP_SUMS CHUNKS CALLS
                 CPU_SAMPLES */
    } u;
};

/* ---- an open trace file ---- */
struct ag_chunk_entry {
    uint64_t offset; /* of the chunk header in the file */
    uint8_t kind, coding;
    uint32_t stream, thread_id, sequences, events, used_bytes, stored_bytes;
    uint64_t first_sequence, first_time_ns;
};
struct ag_trace_file; /* the file, open read-only, with its list of chunks and its damage */

/* Opens PATH, which must be a regular file. 0, or negative errno with *ret_error filled (code says
 * why). A file without a footer is walked: the readable part is opened, and damage() returns the
 * first damaged place. The caller closes it. The file is read with pread, never mapped: a file that
 * shrinks meanwhile gives an error, not a SIGBUS. */
int ag_trace_file_open(const char *path, struct ag_trace_file **ret_file,
                       struct ag_decode_error *ret_error);
struct ag_trace_file *ag_trace_file_close(struct ag_trace_file *file); /* returns NULL */
uint64_t ag_trace_file_bytes(const struct ag_trace_file *file);
uint32_t ag_trace_file_version(const struct ag_trace_file *file);
uint64_t ag_trace_file_session(const struct ag_trace_file *file);
bool ag_trace_file_has_index(
    const struct ag_trace_file *file); /* sealed by a writer that finished */
const struct ag_decode_error *ag_trace_file_damage(
    const struct ag_trace_file *file); /* NULL: undamaged as far as headers show */
/* All chunks in file order; those of kind INDEX come last. */
size_t ag_trace_file_chunks(const struct ag_trace_file *file,
                            const struct ag_chunk_entry **ret_entries);

/* ---- decoding a chunk ---- */
struct ag_chunk_decoder; /* tables and a decompression buffer, reused from chunk to chunk */
struct ag_chunk_decoder *ag_chunk_decoder_new(void); /* NULL: no memory */
struct ag_chunk_decoder *ag_chunk_decoder_free(struct ag_chunk_decoder *decoder);
/* Skips records of these kinds (bit k: kind k, which is below 64) from now on, like those of
 * unknown kinds, without looking at their bytes. At first none. */
void ag_chunk_decoder_pass_over(struct ag_chunk_decoder *decoder, uint64_t kinds);
/* Reads, checks, decompresses and starts a chunk. 0, or negative errno with *ret_error. */
int ag_chunk_decoder_start(struct ag_chunk_decoder *decoder, const struct ag_trace_file *file,
                           const struct ag_chunk_entry *entry, struct ag_decode_error *ret_error);
/* Moves the started chunk to a new, small decoder that cannot start another one; DECODER is as new.
 * For many chunks that are open side by side. NULL: no memory. */
struct ag_chunk_decoder *ag_chunk_decoder_split(struct ag_chunk_decoder *decoder);
/* Decodes up to `capacity` events (at least 1) of an EVENTS chunk, or one record of another kind:
 * then *ret_record is filled (kind != 0) and the next call continues after it. Returns the number
 * of events; 0 with a record; 0 with kind 0 at the chunk's end; negative errno at damage, after
 * everything before it has been returned. The records of collected blocks (MOVE, PROMOTE, COLLECT,
 * BLOCK_TYPE) among events are returned as events. RECORDS and INDEX chunks yield only records.
 * Records and chunks of unknown kinds are skipped. */
int ag_chunk_decoder_next(struct ag_chunk_decoder *decoder, struct ag_event *ret_events,
                          size_t capacity, struct ag_record *ret_record,
                          struct ag_decode_error *ret_error);

/* Has a chunk of events been returned completely, and was it undamaged? */
bool ag_chunk_decoder_is_at_end(const struct ag_chunk_decoder *decoder);

/* Iterators over batches; *cursor starts at 0. 1: a row; 0: the end; -EINVAL: the record is of
 * another kind. */
int ag_nodes_next(const struct ag_record *record, size_t *cursor, struct ag_node *ret_node);
int ag_calls_next(const struct ag_record *record, size_t *cursor, struct ag_call_path *ret_path);
int ag_cpu_samples_next(const struct ag_record *record, size_t *cursor,
                        struct ag_cpu_sample *ret_sample);
int ag_sums_next_stack(const struct ag_record *record, size_t *cursor,
                       struct ag_stack_sum *ret_sum);
int ag_sums_next_timeline(const struct ag_record *record, size_t *cursor,
                          struct ag_timeline_point *ret_point);
int ag_sums_next_thread(const struct ag_record *record, size_t *cursor,
                        struct ag_thread_sum *ret_sum);
int ag_sums_next_pair(const struct ag_record *record, size_t *cursor,
                      struct ag_thread_pair *ret_pair);
int ag_sums_next_heap(const struct ag_record *record, size_t *cursor, struct ag_heap_sum *ret_sum);
int ag_sums_next_chunk(const struct ag_record *record, size_t *cursor,
                       struct ag_chunk_entry *ret_entry);

#endif
