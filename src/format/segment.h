/* segment.h: the live segment, shared memory between the recorder and the writer of one session.
 *
 * 1. Overview
 *
 * The segment is one sparse file, in /dev/shm if that has room, otherwise in the output's folder.
 * The writer and every process of the session map it. The recorder writes events into chunks; the
 * writer copies them into trace files and returns the chunks. The file outlives every process: all
 * that was committed before a process or the writer was killed is still there, and `allogram check`
 * completes the traces with it. A forked child inherits the mapping and needs no system call to
 * continue.
 *
 *     offset                 what                                   size
 *     0                      struct ag_segment_header               4 KiB
 *     header.slots_offset    struct ag_process_slot x n_slots       8 KiB each
 *     header.controls_offset struct ag_chunk_control x n_chunks     64 B each
 *     header.trees_offset    stack tree x n_trees                   tree_bytes each, sparse,
 *                                                                   one of four sizes
 *     header.chunks_offset   chunk x n_chunks                       64 KiB each, to the end
 *
 * 2. Trust
 *
 * Each side treats what the other one wrote as untrusted data: the writer copies, checks, then uses
 * it. The segment contains no pointers.
 *
 * 3. Streams, chunks, commit
 *
 * Each thread of each process has a stream, which is identified by the process' slot and a number.
 * The thread owns one ACTIVE chunk and appends 64-bit words to it. The words before
 * control.used_words are complete (written before the release store of used_words) and never change
 * until the writer returns the chunk. When a chunk is full the recorder marks it FULL and takes
 * another, with the next control.sequence (from 0). The ACTIVE chunks of a dead process are read up
 * to used_words, like FULL ones.
 *
 * 4. Unpopulated memory
 *
 * Touching a hole in a file on a full disk raises SIGBUS. So no process touches a page that has not
 * been populated by a system call that can fail instead (ag_populate in base/):
 *
 *     header, first controls    by the creator of the file
 *     slot                      by its process, before it counts the slot (n_slots_used)
 *     further page of controls  by the recorder, before it counts the first chunk there
 *                               (n_chunks_touched)
 *     chunk                     by the recorder before its first use (control.populated), or by
 *                               the writer (n_chunks_ready)
 *     slice of a tree           by each process before it uses the slice (stack_tree.h, `ready`)
 *
 * The writer reads only memory that is known to be populated: slots and controls below these
 * counts, chunks that are not FREE, and nodes to which an event refers.
 *
 * 5. Time
 *
 * Stamps are raw values of the session's clock (header.clock_kind); ag_segment_ns converts them to
 * nanoseconds since the session began. The writer increments header.tick about every millisecond. A
 * stream writes a stamp when it sees a new tick, after header.stamp_every events, and at the start
 * of each chunk. An event happened after the stamp before it in its stream.
 *
 * 6. Identity and liveness
 *
 * A process is identified by a random number, slot.identity, which its recorder makes when it
 * starts and in each forked child. Its pid is only a hint: pids mean different things in different
 * PID namespaces, and the kernel does not let every process translate them.
 *
 * A lock shows that a process lives. The kernel releases it when the memory of the process goes:
 * at exit, exec or SIGKILL. An open file description lock belongs to the description, and a mapping
 * keeps its description open after the descriptor was closed:
 *
 *     description A   maps the segment; forked children inherit it. Its lock, at the family's
 *                     place, is held while the process that opened it or any of its forks lives.
 *     description B   maps one page that no child inherits (MADV_DONTFORK). Its lock, at the
 *                     process' own place, is held while this one process lives.
 *
 * A forked child may not be allowed to open files, so it has no description of its own: it has
 * ended at the latest when its family's lock is released. The places are offsets that are computed
 * from identities, far beyond the file's end. If the file system does not support this (has_locks
 * is 0), pids are used.
 *
 * 7. Function counters
 *
 * Chunks of the state COUNTERS are no streams: the program counts calls of its functions in them,
 * in place (counter_set.h). They belong to their process until it is sealed, and are not counted in
 * n_chunks_in_use, so that they cause no back pressure. */
#ifndef AG_SEGMENT_H
#define AG_SEGMENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/block_filter.h"
#include "base/compiler.h"
#include "base/stack_tree.h"

enum {
    AG_SEGMENT_VERSION = 13,
    AG_SEGMENT_HEADER_BYTES = 4096,
    AG_SLOT_BYTES = 8192,
    AG_CHUNK_BYTES = 64 * 1024, /* a few hot chunks stay in L2; 300 idle threads cost 19 MiB */
    AG_CHUNK_WORDS = AG_CHUNK_BYTES / 8,
    AG_SLOT_TEXT_BYTES = 6144,
};
#define AG_SEGMENT_MAGIC UINT64_C(0x3145564947414c41) /* "ALAGIVE1" as little-endian bytes */

/* In the path of each live file: the beginning of the name of its folder, before the session's
 * number. */
#define AG_LIVE_FOLDER_MARK "/.allogram-live."

/* ---- header ---- */
enum ag_mode { AG_MODE_EXACT = 0, AG_MODE_SAMPLE = 1 };
enum ag_clock_kind { AG_CLOCK_TSC = 0, AG_CLOCK_MONOTONIC = 1 };

enum ag_pause {
    AG_PAUSE_NONE = 0,
    /* no allocation is recorded; frees are, so that existing blocks stay correct */
    AG_PAUSE_BIRTHS = 1,
    AG_PAUSE_ALL = 2,  /* no free is recorded either: before or after the recording */
    AG_PAUSE_OVER = 3, /* like ALL, permanently: recording was stopped */
};

/* The process that made the session and waits for its end. */
enum ag_keeper {
    AG_KEEPER_NONE = 0, /* the program records itself */
    AG_KEEPER_RUN = 1,  /* `allogram run`: ends when the program does */
    /* `allogram attach PID`: on SIGTERM it makes the agent leave the program */
    AG_KEEPER_ATTACH = 2,
    AG_KEEPER_LINK = 3, /* `allogram attach NODE`: the runtime itself accepts requests */
};
struct ag_segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t session; /* random, never 0: identifies the session in the traces */
    uint32_t n_slots, n_trees, n_chunks;
    uint32_t node_limit; /* upper limit of stack node ids in each tree, by available memory */
    uint64_t slots_offset, controls_offset, trees_offset, chunks_offset, tree_bytes;

    /* configuration, written before any process maps the file */
    uint32_t mode;  /* enum ag_mode */
    uint32_t depth; /* limit of the frames of a stack */
    uint32_t follow_children;
    uint32_t stamp_every;  /* events between two stamps of a stream; 1 = every event */
    uint32_t soft_chunks;  /* limit of chunks in use while the writer lives */
    uint32_t clock_kind;   /* enum ag_clock_kind */
    uint64_t clock_origin; /* raw clock value at the session's start */
    uint64_t clock_origin_realtime_ns;
    /* ns = (raw - clock_origin) * this >> 32; refined by the writer */
    _Atomic uint64_t clock_ns_per_2_32;
    uint64_t adapters;        /* reserved for the adapter mask */
    char trace_pattern[1024]; /* absolute path pattern of the trace files, unexpanded */
    uint64_t max_trace_bytes; /* limit of a trace's size, for the writer; 0: none */
    uint64_t pid_namespace;   /* of `run`; see the slot's field */
    uint32_t free_stacks;     /* 1: a free carries the stack of its caller */
    uint32_t reserved2;
    uint64_t seed;                           /* of the samplers: mode SAMPLE */
    char filter[AG_BLOCK_FILTER_TEXT_BYTES]; /* which blocks are recorded; "": all */
    uint32_t keeper, keeper_pid;             /* enum ag_keeper; its pid in pid_namespace */
    /* The process that `run` starts or `attach` records, by its own numbers; 0: unknown. */
    uint64_t first_namespace;
    uint32_t first_pid;
    uint32_t has_locks; /* 1: processes hold locks on the file while they live, see section 6 */
    char reserved1[328];

    /* written by the writer, read by every thread: a cache line of its own */
    /* about every millisecond; unchanged without a writer */
    AG_CACHE_ALIGNED _Atomic uint64_t tick;
    _Atomic uint32_t writer_pid; /* 0: none */
    _Atomic uint32_t stop;   /* 1: recording ended for the whole session (disk full, asked for) */
    _Atomic uint32_t paused; /* enum ag_pause; seen within a tick */
    /* Number of requests to restart reports; the next event of each process reports a change. */
    _Atomic uint32_t n_resets;
    /* mode SAMPLE: mean bytes between samples, 1 to AG_INTERVAL_MAX_BYTES; a thread adopts a new
     * value after its next sample */
    _Atomic uint64_t interval_bytes;
    _Atomic uint64_t reset_raw; /* clock of the last such request; 0: none */

    /* A request to the writer for a dump (writer/session_control.c): one at a time, by the process
     * that holds the lock on dump_slot's first byte. n_dumps_asked is incremented last. */
    AG_CACHE_ALIGNED uint32_t dump_slot;
    uint32_t dump_generation; /* of the slot */
    _Atomic uint32_t n_dumps_asked;
    _Atomic uint32_t n_dumps_done; /* set to n_dumps_asked when done */
    uint32_t dump_number;          /* number in the file's name; 0: the dump failed */

    /* The chunk allocator, contended only when a chunk is taken or returned. free_head is tag:32 |
     * (chunk index + 1):32; the list is LIFO, so that the hottest chunk is reused. */
    AG_CACHE_ALIGNED _Atomic uint64_t free_head;
    _Atomic uint32_t n_chunks_touched;    /* chunks [0, this) have been populated and used */
    _Atomic uint32_t n_chunks_in_use;     /* taken and not returned, without COUNTERS */
    _Atomic uint32_t n_slots_used;        /* only slots and trees [0, this) have ever been used */
    _Atomic uint32_t n_refused_processes; /* found all slots or trees taken */
    /* Set by the writer, which keeps some chunks ahead: chunks [0, this) and their controls have
     * been populated, so a recorder needs no system call to take a fresh one. */
    _Atomic uint32_t n_chunks_ready;
};

_Static_assert(sizeof(struct ag_segment_header) <= AG_SEGMENT_HEADER_BYTES, "a page");

/* Converts raw clock units to ns, by a value of header.clock_ns_per_2_32. */
static inline uint64_t ag_clock_ns(uint64_t ns_per_2_32, uint64_t raw) {
    return (uint64_t)((unsigned __int128)raw * ns_per_2_32 >> 32);
}
/* The same by the current value. A raw clock value since clock_origin becomes the time since the
 * session began. */
static inline uint64_t ag_segment_ns(const struct ag_segment_header *header, uint64_t raw) {
    return ag_clock_ns(atomic_load_explicit(&header->clock_ns_per_2_32, memory_order_relaxed), raw);
}

/* ---- processes ---- */

/* Which byte of the file a process locks (section 6). */
enum ag_life_lock { AG_LOCK_OWN = 0, AG_LOCK_FAMILY = 1 };
static inline int64_t ag_life_lock_place(uint64_t identity, enum ag_life_lock which) {
    return (int64_t)((uint64_t)which << 62 | identity >> 2);
}

enum ag_slot_state {
    AG_SLOT_FREE = 0,
    AG_SLOT_CLAIMED = 1, /* being filled */
    AG_SLOT_LIVE = 2,    /* filled: the writer opens its trace */
    AG_SLOT_REPLACED = 3 /* executed another program or left the session: the recording has ended */
};
enum ag_slot_exiting {
    AG_SLOT_STAYS = 0,
    AG_SLOT_EXITS = 1,  /* the process called exit, _exit or quick_exit */
    AG_SLOT_LEAVES = 2, /* it left the session, and may continue unrecorded */
};
enum ag_slot_end {
    AG_END_NOT_KNOWN = 0, /* it ended, but how is unknown */
    AG_END_EXIT = 1,
    AG_END_SIGNAL = 2,
    AG_END_DETACHED = 3,
    AG_END_CUT = 4,
};

/* Why an event is not in the trace; names in ag_lost_cause_name. */
enum ag_lost_cause {
    AG_LOST_RING_FULL = 0, /* no chunk was available in time */
    AG_LOST_NO_MEMORY,     /* no memory for thread state, tree or segment pages */
    /* recording had stopped (disk full, --max-size), the program continued */
    AG_LOST_STOPPED,
    AG_LOST_DAMAGED, /* damage found by the writer or a reader */
    AG_LOST_CAUSES,
};

struct ag_process_slot {
    _Atomic uint32_t state;   /* enum ag_slot_state; released last */
    uint32_t pid, parent_pid; /* in the pid namespace of the process */
    /* Index of its stack tree: the slot's own, or, for a forked child, its parent's tree, which
     * they share. A slot is not reused while a relative uses its tree. */
    _Atomic uint32_t tree;
    uint32_t parent_slot; /* slot of the process it was forked from, or UINT32_MAX */
    /* incremented at reuse: a chunk with another generation is stale */
    _Atomic uint32_t generation;
    uint64_t start_raw;           /* clock at registration */
    _Atomic uint32_t n_streams;   /* streams [0, this) exist */
    _Atomic uint32_t exiting;     /* enum ag_slot_exiting */
    _Atomic uint32_t wait_status; /* by `run`: the status of wait(2) */
    _Atomic uint32_t wait_status_known;
    /* Image ids assigned in this slot's fork family; used in the slot that owns the tree. */
    _Atomic uint32_t n_images;
    _Atomic uint32_t max_rss_kib;   /* set by `run`: ru_maxrss */
    _Atomic uint32_t trace_created; /* set by the writer: its trace file exists */
    /* Of the tree with this slot's number; incremented by the writer before it clears the tree. A
     * process that announces in its slot that it uses the tree, and then finds the generation
     * unchanged, was seen by the writer (record/process.c). */
    _Atomic uint32_t tree_generation;
    _Atomic uint64_t lost[AG_LOST_CAUSES];
    /* debug mode: stacks that differ from those of the reference unwinder */
    _Atomic uint64_t failed_stack_checks;
    _Atomic uint64_t stack_checks;
    _Atomic uint64_t sampler_raw; /* clock time spent in samples, by all threads: mode SAMPLE */
    /* the recorder's private memory in this process, without the segment */
    uint64_t profiler_private_bytes;
    /* Inode of the pid namespace in which pid counts, as in /proc/self/ns/pid. 0: unknown (no
     * /proc); then it is assumed to be that of `run`. */
    uint64_t pid_namespace;
    /* 1: set in a forked child, which did not look: its namespace is its parent's, or one that the
     * parent chose for its children (unshare, setns). */
    uint64_t namespace_is_inherited;
    uint64_t identity;     /* random, never 0: section 6 */
    uint64_t family;       /* identity of the process from which this one inherited its mappings */
    uint32_t has_own_lock; /* 1: it holds its own lock besides its family's */
    uint32_t text_bytes;   /* of text, at most AG_SLOT_TEXT_BYTES */
    /* Programs that this process executed, in itself or in a child that it started by vfork,
     * posix_spawn, system or popen. The recorder of each of them claims a slot (or fails to). */
    _Atomic uint32_t n_executions;
    /* Offsets in text of NUL-terminated strings; the command is n_arguments of them in a row. */
    uint32_t cwd_offset, exe_offset, command_offset, n_arguments;
    char note[256]; /* one line: why an adapter refused; or empty */
    char text[AG_SLOT_TEXT_BYTES];
};

/* Path of the trace of a slot's process, so that the next writer finds it and the process can
 * report it. It is behind the slot, in the part of its 8 KiB that the recorder never writes.
 * Complete when trace_created is set. Untrusted like the rest: a file is accepted only by the
 * identity in its header. */
enum { AG_SLOT_TRACE_OFFSET = 7168 };
_Static_assert(sizeof(struct ag_process_slot) <= AG_SLOT_TRACE_OFFSET,
               "the path is behind the slot");
struct ag_slot_trace {
    uint32_t generation;
    char path[1020];
};
_Static_assert(AG_SLOT_TRACE_OFFSET + sizeof(struct ag_slot_trace) <= AG_SLOT_BYTES,
               "a slot fits its place");

/* ---- chunks ---- */
/* A second stream of a thread, for signal handlers that interrupted the writing of an event. Kernel
 * tids stay below 2^22. */
#define AG_THREAD_NESTED (UINT32_C(1) << 31)

enum ag_chunk_state {
    AG_CHUNK_FREE = 0,
    AG_CHUNK_ACTIVE = 1,
    AG_CHUNK_FULL = 2,
    AG_CHUNK_COUNTERS = 3, /* section 7 */
};

/* One cache line: written by the owning thread at each event, read by the writer. */
struct ag_chunk_control {
    /* Number of committed words; release, pairs with the writer's acquire. */
    AG_CACHE_ALIGNED _Atomic uint32_t used_words;
    _Atomic uint32_t state; /* enum ag_chunk_state */
    uint32_t slot, slot_generation;
    uint32_t stream; /* number of the stream in its process, from 0; enum ag_counter_chunk */
    /* kernel tid; with AG_THREAD_NESTED for the stream of its signal handlers */
    uint32_t thread_id;
    uint64_t sequence;          /* of this chunk in its stream, from 0 */
    _Atomic uint32_t next_free; /* index + 1 of the next in the free list */
    _Atomic uint32_t populated;
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct ag_chunk_control) == 64, "controls are scanned: one line each");

/* ---- words ----
 *
 *     word 0   | address or value : 48 | via : 8 | reserved : 4 | kind : 4 |     (bit 63 .. bit 0)
 *     ALLOC    word 1 = stack : 32 | size : 32
 *     BIG      word 1 = stack : 32 | 0 : 32, word 2 = size         (sizes of 4 GiB and more)
 *     FREE     -
 *     REALLOC_FREE   the first half of a realloc: its ALLOC follows in the same stream
 *     FREE_FROM, REALLOC_FREE_FROM   the same with a word 1 = stack of the caller : 32 | 0 : 32
 *     COLLECT  a garbage collector found the block dead: a free without a caller
 *     PROMOTE  a garbage collector moved the block to an older generation
 *     MOVE     word 1 = the new address, as in word 0: it is the same block
 *     TYPED    word 1 = stack with the type as its leaf : 32 | 0 : 32, word 2 = size of the block
 *     RESET    reports begin here
 *     UNDO     the realloc that freed this address failed: the block lives on unchanged
 *     STAMP    word 0 = raw clock since clock_origin : 56 | kind : 8
 *     RECORD   word 0 = bytes of body : 32 | enum ag_record_kind : 16 | 0 : 12 | kind : 4,
 *              then the body, padded to 8: that of the record in a trace (record_body.h)
 *
 * Example: malloc(24) = 0x7f12_3456_78a0 with stack 77 through via 0:
 *     0x7f12345678a0_00_01  0x0000004d_00000018 */
/* Vias below AG_VIA_HOST belong to the adapters: their blocks lie in the memory of the process, one
 * block per address. A via from AG_VIA_HOST on belongs to a heap that the program registered, and
 * has the heap's number. Such a heap may hand out parts of another heap's blocks, or addresses that
 * no CPU knows: so each is an address space of its own, with one block per address. */
enum { AG_VIA_HOST = 64, AG_VIAS_MOST = 256 };
#define AG_VIA_SPACE(via) ((uint64_t)(via) & -(uint64_t)((via) >= AG_VIA_HOST))

enum ag_word_kind {
    AG_WORD_ALLOC = 1,
    AG_WORD_ALLOC_BIG = 2,
    AG_WORD_FREE = 3,
    AG_WORD_REALLOC_FREE = 4,
    AG_WORD_UNDO_FREE = 5,
    AG_WORD_STAMP = 6,
    AG_WORD_RECORD = 7,
    AG_WORD_FREE_FROM = 8,
    AG_WORD_REALLOC_FREE_FROM = 9,
    AG_WORD_COLLECT = 10,
    AG_WORD_PROMOTE = 11,
    AG_WORD_MOVE = 12,
    AG_WORD_TYPED = 13,
    AG_WORD_RESET = 14,
};
#define AG_WORD_KIND(word) ((uint32_t)(15 & (word)))
#define AG_WORD_VIA(word) ((uint32_t)((word) >> 8 & 255))
/* The address with the space of its via in bits 48 to 63. */
#define AG_WORD_ADDRESS(word) ((uint64_t)(word) >> 16 | AG_VIA_SPACE(AG_WORD_VIA(word)) << 48)
#define AG_WORD_STAMP_RAW(word) ((uint64_t)(word) >> 8)
#define AG_WORD_RECORD_HEAD(kind, bytes) \
    ((uint64_t)(bytes) << 32 | (uint64_t)(kind) << 16 | AG_WORD_RECORD)
#define AG_WORD_RECORD_BYTES(word) ((uint32_t)((word) >> 32))
#define AG_WORD_RECORD_KIND(word) ((uint32_t)((word) >> 16 & 0xffff))

enum {
    /* limits of a record in the live segment; the writer copies it before it looks at it */
    AG_WORD_RECORD_MOST_BYTES = 16 * 1024,
    AG_WORD_RECORD_MOST_ROWS = 128,
};

enum ag_sampling_method {
    AG_SAMPLING_POISSON_BYTES = 1,
    /* a runtime's own sampler: each word of 8 bytes and the header of each block */
    AG_SAMPLING_WORDS = 2,
};
/* Bytes that a block counts in addition to its size. */
static inline uint32_t ag_sampling_extra_bytes(uint32_t method) {
    return method == AG_SAMPLING_WORDS ? 8 : 1;
}

#endif
