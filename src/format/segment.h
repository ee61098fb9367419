/* segment.h: the live segment: the memory that the recorder (the code inside the profiled
 * processes) and the writer (the process that writes the traces) of one session share. A session is
 * one recording with all of its processes.
 *
 * 1. Overview
 *
 * The segment is one sparse file. It is in /dev/shm if there is room, otherwise in the folder of
 * the output. The writer and every process of the session map it. The recorder writes events into
 * chunks; the writer copies them into trace files and returns the chunks. The file outlives every
 * process: if a process or the writer is killed, the file still contains all events that were
 * committed before the kill, and `allogram check` writes them into the traces. A forked child
 * inherits the mapping and needs no system call to continue.
 *
 *     offset                 what                                   size
 *     0                      struct ag_segment_header               4 KiB
 *     header.slots_offset    struct ag_process_slot x n_slots       8 KiB each
 *     header.controls_offset struct ag_chunk_control x n_chunks     64 B each
 *     header.trees_offset    stack tree x n_trees                   tree_bytes each, sparse,
 *                                                                   one of four sizes
 *     header.chunks_offset   chunk x n_chunks                       64 KiB each, to the end
 *
 * A slot describes one process, and a control the state of one chunk. A stack tree contains the
 * call stacks of a process and of its forks (base/stack_tree.h).
 *
 * 2. Trust
 *
 * Each side treats data that the other side wrote as untrusted: the writer copies data, checks the
 * copy, then uses the copy. The segment contains no pointers.
 *
 * 3. Streams, chunks, commit
 *
 * Each thread of each process has a stream of events, which is identified by the process' slot and
 * a number. The thread owns one ACTIVE chunk and appends 64-bit words to it. The words before
 * control.used_words are complete (committed), because they are written before the release store of
 * used_words. They do not change until the writer returns the chunk. When a chunk is full, the
 * recorder marks it FULL and takes another chunk, with the next control.sequence (from 0). The
 * ACTIVE chunks of a dead process are read up to used_words, like FULL ones.
 *
 * 4. Unpopulated memory
 *
 * A write to a hole of a mapped file raises SIGBUS if the disk is full. So no process touches a
 * page before a system call has allocated (populated) it; this call can fail without a signal
 * (ag_populate in base/). Who populates which pages:
 *
 *     header, first controls    by the creator of the file
 *     slot                      by its process, before it counts the slot (n_slots_used)
 *     further page of controls  by the recorder, before it counts the first chunk there
 *                               (n_chunks_touched), or by the writer (n_chunks_ready)
 *     chunk                     by the recorder before its first use (control.populated), or by
 *                               the writer (n_chunks_ready)
 *     slice of a tree           by each process before it uses the slice (stack_tree.h, `ready`)
 *
 * For `allogram attach`, the creator also populates what the first process uses when it joins.
 *
 * The writer reads only memory that is known to be populated: slots below n_slots_used, controls
 * below n_chunks_touched, chunks that are not FREE, and nodes to which an event refers.
 *
 * 5. Time
 *
 * A stamp is a word with the time of the events that follow in its stream: a raw value of the
 * session's clock (header.clock_kind). ag_segment_ns converts it to nanoseconds since the session
 * began. The writer increments header.tick about every millisecond. A thread writes a stamp when it
 * sees a new value of tick, after header.stamp_every events, before the record of a map or unmap,
 * and at the start of each chunk. An event happened after the last stamp before it in its stream.
 *
 * 6. Identity and liveness
 *
 * A process is identified by slot.identity. It is a random number that its recorder makes when it
 * starts, or, in a forked child, a hash of the parent's identity and of the number and generation
 * of the child's slot. Its pid is only a hint: pids mean different things in different PID
 * namespaces, and the kernel does not let every process translate them.
 *
 * A process holds a file lock while it lives. The kernel releases the lock when the memory of the
 * process is unmapped: at exit, exec or SIGKILL. The lock is an open file description lock, which
 * belongs to a file description (not to a process); a mapping keeps its file description open after
 * the descriptor was closed. There are two file descriptions:
 *
 *     description A   maps the segment; forked children inherit it. A process that opened the file
 *                     and the forks of this process are a family. Its lock, at an offset of the
 *                     family, is held while a process of the family lives.
 *     description B   maps one page that no child inherits (MADV_DONTFORK). Its lock, at an offset
 *                     of this process, is held while the process lives.
 *
 * A forked child has no description B of its own, because a sandbox may forbid it to open files. So
 * the writer knows that a forked child has ended, at the latest, when its family's lock is
 * released. The offsets of the locked bytes are computed from identities (ag_life_lock_place), and
 * are far beyond the file's end. If the file system does not support such locks (has_locks is 0),
 * the writer checks pids instead.
 *
 * 7. Function counters
 *
 * Chunks of the state COUNTERS contain no events, but counters that the program increments for
 * calls of its functions (counter_set.h). These chunks belong to their process until its trace is
 * completed (sealed). n_chunks_in_use does not include them, because the recorder waits for the
 * writer when n_chunks_in_use is too large. */
#ifndef AG_SEGMENT_H
#define AG_SEGMENT_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/block_filter.h"
#include "base/compiler.h"
#include "base/stack_tree.h"

enum {
    AG_SEGMENT_VERSION = 16,
    AG_SEGMENT_HEADER_BYTES = 4096,
    AG_SLOT_BYTES = 8192,
    /* small enough that a few active chunks stay in the L2 cache, and that 300 idle threads take 19
     * MiB */
    AG_CHUNK_BYTES = 64 * 1024,
    AG_CHUNK_WORDS = AG_CHUNK_BYTES / 8,
    AG_SLOT_TEXT_BYTES = 6144,
};
#define AG_SEGMENT_MAGIC UINT64_C(0x3145564947414c41) /* "ALAGIVE1" as little-endian bytes */

/* A live file is the file of a segment. The path of each live file contains this text: the name of
 * the file's folder consists of this text, without the slash, and the session's number. */
#define AG_LIVE_FOLDER_MARK "/.allogram-live."

/* ---- header ---- */
enum ag_mode { AG_MODE_EXACT = 0, AG_MODE_SAMPLE = 1 };
enum ag_clock_kind { AG_CLOCK_TSC = 0, AG_CLOCK_MONOTONIC = 1 };

enum ag_pause {
    AG_PAUSE_NONE = 0,
    /* no allocation is recorded. Frees are recorded, so that blocks that were allocated before the
     * pause end at the right time */
    AG_PAUSE_BIRTHS = 1,
    /* neither allocations nor frees are recorded: before or after the recording */
    AG_PAUSE_ALL = 2,
    AG_PAUSE_OVER = 3, /* like AG_PAUSE_ALL, but permanent: recording was stopped */
};

/* The process that made the session and waits for its end. */
enum ag_keeper {
    AG_KEEPER_NONE = 0, /* the program records itself: no other process waits */
    AG_KEEPER_RUN = 1,  /* `allogram run`: ends when the program ends */
    /* `allogram attach PID`: on SIGTERM it unloads allogram's library from the program */
    AG_KEEPER_ATTACH = 2,
    /* `allogram attach NODE`: records a virtual machine that has a name; `allogram control` sends
     * requests to that machine */
    AG_KEEPER_LINK = 3,
};
struct ag_segment_header {
    uint64_t magic;
    uint32_t version;
    uint32_t header_bytes;
    uint64_t file_bytes;
    uint64_t session; /* random, never 0: identifies the session in the traces */
    uint32_t n_slots, n_trees, n_chunks;
    /* stack node ids in each tree are less than this; depends on the available memory */
    uint32_t node_limit;
    uint64_t slots_offset, controls_offset, trees_offset, chunks_offset, tree_bytes;

    /* The next members are the configuration, which is written before any process maps the file. */
    uint32_t mode;  /* enum ag_mode */
    uint32_t depth; /* maximum number of frames of a stack */
    uint32_t follow_children;
    uint32_t stamp_every; /* events between two stamps of a stream; 1 = every event */
    /* While the writer lives, a thread takes a chunk that was never used only if fewer chunks are
     * in use than soft_chunks + the number of thread states of its process (those of ended threads
     * count, too); otherwise it waits for a free chunk. */
    uint32_t soft_chunks;
    uint32_t clock_kind;   /* enum ag_clock_kind */
    uint64_t clock_origin; /* raw clock value at the session's start */
    uint64_t clock_origin_realtime_ns;
    /* factor for raw clock values: ns = (raw - clock_origin) * clock_ns_per_2_32 >> 32; the writer
     * refines it */
    _Atomic uint64_t clock_ns_per_2_32;
    uint64_t adapters;        /* reserved */
    char trace_pattern[1024]; /* absolute path pattern of the trace files, unexpanded */
    uint64_t max_trace_bytes; /* limit of a trace's size, for the writer; 0: none */
    /* the pid namespace of `allogram run`; see pid_namespace of struct ag_process_slot */
    uint64_t pid_namespace;
    uint32_t free_stacks; /* 1: the event of a free has the stack of the caller of free */
    uint32_t reserved2;
    uint64_t seed;                           /* seed of the samplers, in mode SAMPLE */
    char filter[AG_BLOCK_FILTER_TEXT_BYTES]; /* which blocks are recorded; "": all */
    uint32_t keeper, keeper_pid; /* enum ag_keeper; pid of the keeper in pid_namespace */
    /* The process that `allogram run` starts or `allogram attach` records: its pid namespace and
     * its pid in that namespace; 0: unknown. */
    uint64_t first_namespace;
    uint32_t first_pid;
    uint32_t has_locks; /* 1: processes hold locks on the file while they live, see section 6 */
    /* Written by `allogram attach`: when it found that the jump at the start of a hooked function
     * is not there any more (ns since the session began); 0: never. */
    _Atomic uint64_t code_changed_ns;
    char reserved1[320];

    /* The next members are read by every thread, but are written only by the writer, by commands
     * such as `allogram control`, and rarely by a thread (ag_record_cut_windows). So they have a
     * cache line of their own. */
    /* The writer increments it about every millisecond. Without a writer, it changes only when
     * ag_record_cut_windows is called. */
    AG_CACHE_ALIGNED _Atomic uint64_t tick;
    _Atomic uint32_t writer_pid; /* 0: none */
    /* 1: recording has ended for the whole session (the disk was full, or the user requested it) */
    _Atomic uint32_t stop;
    /* enum ag_pause; a thread sees a change at its next event after a tick */
    _Atomic uint32_t paused;
    /* Number of requests to begin reports anew. After a change, each process records a RESET word
     * after its next stamp. */
    _Atomic uint32_t n_resets;
    /* mode SAMPLE: mean bytes between samples, 1 to AG_INTERVAL_MAX_BYTES; a thread adopts a new
     * value after its next sample */
    _Atomic uint64_t interval_bytes;
    _Atomic uint64_t reset_raw; /* clock value of the last request that n_resets counts; 0: none */

    /* A request to the writer for a dump, a trace of the recording so far
     * (writer/session_control.c). Only a process that holds a file lock on the first byte of
     * dump_slot may write a request, so there is one request at a time. The process increments
     * n_dumps_asked last. */
    AG_CACHE_ALIGNED uint32_t dump_slot;
    uint32_t dump_generation; /* generation of the slot */
    _Atomic uint32_t n_dumps_asked;
    _Atomic uint32_t n_dumps_done; /* set to n_dumps_asked when done */
    /* answer of the writer: the number in the name of the dump's file; 0: the dump failed */
    uint32_t dump_number;

    /* The chunk allocator, which is used only when a chunk is taken or returned. free_head is
     * tag:32 | (chunk index + 1):32; the tag changes with each operation, so that a
     * compare-and-swap fails if another thread has changed the list meanwhile. The list is LIFO, so
     * that the chunk that was used last, which is probably in a cache, is reused. */
    AG_CACHE_ALIGNED _Atomic uint64_t free_head;
    /* chunks [0, n_chunks_touched) have been populated and used */
    _Atomic uint32_t n_chunks_touched;
    /* chunks that were taken and not returned, without those of the state COUNTERS */
    _Atomic uint32_t n_chunks_in_use;
    _Atomic uint32_t n_slots_used; /* only slots and trees [0, n_slots_used) have ever been used */
    /* processes that could not be recorded, mostly because all slots were in use */
    _Atomic uint32_t n_refused_processes;
    /* Chunks [0, n_chunks_ready) and their controls have been populated. The writer populates some
     * chunks in advance, so that a recorder needs no system call to take a new chunk. */
    _Atomic uint32_t n_chunks_ready;
};

_Static_assert(sizeof(struct ag_segment_header) <= AG_SEGMENT_HEADER_BYTES,
               "the header fits into its page");

/* Converts raw clock units to ns, by a value of header.clock_ns_per_2_32. */
static inline uint64_t ag_clock_ns(uint64_t ns_per_2_32, uint64_t raw) {
    return (uint64_t)((unsigned __int128)raw * ns_per_2_32 >> 32);
}
/* Converts a raw clock value since clock_origin to the time in ns since the session began, by the
 * current value of header.clock_ns_per_2_32. */
static inline uint64_t ag_segment_ns(const struct ag_segment_header *header, uint64_t raw) {
    return ag_clock_ns(atomic_load_explicit(&header->clock_ns_per_2_32, memory_order_relaxed), raw);
}

/* ---- processes ---- */

/* The offset of the byte of the file that a process locks: for itself, or for its family (section
 * 6). */
enum ag_life_lock { AG_LOCK_OWN = 0, AG_LOCK_FAMILY = 1 };
static inline int64_t ag_life_lock_place(uint64_t identity, enum ag_life_lock which) {
    return (int64_t)((uint64_t)which << 62 | identity >> 2);
}

enum ag_slot_state {
    AG_SLOT_FREE = 0,
    AG_SLOT_CLAIMED = 1, /* the process is filling the slot */
    AG_SLOT_LIVE = 2,    /* the slot is filled: the writer opens the process' trace */
    /* the process executed another program or left the session: its recording has ended */
    AG_SLOT_REPLACED = 3
};
enum ag_slot_exiting {
    AG_SLOT_STAYS = 0,
    /* the process called exit, _exit or quick_exit; or `allogram attach` saw that the process
     * executed another program */
    AG_SLOT_EXITS = 1,
    AG_SLOT_LEAVES = 2, /* the process left the session, and may continue without being recorded */
};
enum ag_slot_end {
    AG_END_NOT_KNOWN = 0, /* the process ended; its exit status is unknown */
    AG_END_EXIT = 1,
    AG_END_SIGNAL = 2,
    AG_END_DETACHED = 3, /* the process left the session, and may still run */
    AG_END_CUT = 4,      /* recording was stopped, or the trace reached its size limit */
};

/* Why an event is not in the trace; names in ag_lost_cause_name. */
enum ag_lost_cause {
    AG_LOST_RING_FULL = 0, /* the writer returned no chunk in time */
    AG_LOST_NO_MEMORY,     /* no memory for thread state, tree or segment pages */
    /* recording had stopped (disk full, --max-size), but the program continued */
    AG_LOST_STOPPED,
    /* damage that the writer found; or an image whose record the recorder could not write */
    AG_LOST_DAMAGED,
    AG_LOST_CAUSES,
};

/* How a process began to run its program. The record PROCESS of a trace contains this number and
 * the identity of another process, the parent. */
enum ag_process_origin {
    AG_ORIGIN_UNKNOWN = 0,
    AG_ORIGIN_FORKED = 1,   /* forked from the parent, with a copy of its memory */
    AG_ORIGIN_EXECUTED = 2, /* executed by the parent, which is an earlier program of the process */
    AG_ORIGIN_SPAWNED = 3,  /* executed in a child process of the parent */
};

struct ag_process_slot {
    /* enum ag_slot_state; stored last, with release, when the slot is filled */
    _Atomic uint32_t state;
    /* in the pid namespace of the process; 0: unknown. A seccomp filter may refuse getpid; then the
     * writer finds out the pid and stores it here. */
    uint32_t pid, parent_pid;
    /* Index of the process' stack tree: that of this slot, or, for a forked child, the tree that
     * its parent uses; parent and child share it. A slot is not reused while another process uses
     * the tree of this slot. */
    _Atomic uint32_t tree;
    uint32_t parent_slot; /* slot of the process that forked this process, or UINT32_MAX */
    /* incremented when the slot becomes free: a chunk whose slot_generation differs belongs to an
     * earlier process */
    _Atomic uint32_t generation;
    uint64_t start_raw;         /* raw clock value when the process filled the slot */
    _Atomic uint32_t n_streams; /* streams [0, n_streams) exist */
    _Atomic uint32_t exiting;   /* enum ag_slot_exiting */
    /* the status of wait(2): set by `allogram run`, or by the writer if it can determine the
     * status */
    _Atomic uint32_t wait_status;
    _Atomic uint32_t wait_status_known;
    /* Number of image ids that the processes sharing this slot's tree have assigned; used only in
     * the slot whose index is that of the tree. */
    _Atomic uint32_t n_images;
    _Atomic uint32_t max_rss_kib;   /* set by `allogram run`: ru_maxrss of wait4(2), in KiB */
    _Atomic uint32_t trace_created; /* set by the writer: the trace file of the process exists */
    /* The generation of the tree with this slot's number; the writer increments it before it clears
     * the tree. A forked child first stores in its slot that it uses the tree, and then compares
     * tree_generation with the value that its parent knew. If they are equal, the writer will see
     * that the child uses the tree, and will not clear the tree (record/process.c). */
    _Atomic uint32_t tree_generation;
    _Atomic uint64_t lost[AG_LOST_CAUSES];
    /* debug mode: number of compared stacks (stack_checks), and of those that differ from the stack
     * of the reference unwinder */
    _Atomic uint64_t failed_stack_checks;
    _Atomic uint64_t stack_checks;
    /* mode SAMPLE: raw clock units that all threads spent on samples */
    _Atomic uint64_t sampler_raw;
    /* how long all threads waited in total for the writer to return a chunk, and how often */
    _Atomic uint64_t waited_ns;
    _Atomic uint64_t n_waits;
    /* bytes of the recorder's private memory in this process, without the segment */
    uint64_t profiler_private_bytes;
    /* Inode of the pid namespace to which `pid` belongs, as in /proc/self/ns/pid. 0: unknown (there
     * is no /proc); then the writer assumes the namespace of `allogram run`. */
    uint64_t pid_namespace;
    /* 1: this is a forked child, which copied pid_namespace from its parent. The namespace of the
     * child may be another one, which the parent selected for its children (unshare, setns). */
    uint64_t namespace_is_inherited;
    uint64_t identity; /* never 0; see section 6 */
    /* identity of the process that opened the mapping of the segment which this process uses */
    uint64_t family;
    /* identity of the process that forked this process; 0: the process was not forked from a
     * recorded process, it has executed a program */
    uint64_t forked_from;
    /* 1: the process holds a lock of its own in addition to that of its family */
    uint32_t has_own_lock;
    uint32_t text_bytes; /* used bytes of `text`, at most AG_SLOT_TEXT_BYTES */
    /* Number of programs that this process executed, in itself or in a child that it started by
     * vfork, posix_spawn, system or popen. The recorder of each of these programs claims a slot, or
     * fails to do so. */
    _Atomic uint32_t n_executions;
    /* Offsets in `text` of NUL-terminated strings; the command consists of n_arguments consecutive
     * strings. */
    uint32_t cwd_offset, exe_offset, command_offset, n_arguments;
    /* 1: an adapter (the part of the recorder for one runtime) has removed its hooks for the time
     * of a pause; a resume waits until the adapter has set them again */
    _Atomic uint32_t resting;
    char note[256]; /* one line that says why an adapter does not record its runtime, or "" */
    char text[AG_SLOT_TEXT_BYTES];
};

/* Path of the trace of a slot's process, so that another writer that continues the recording finds
 * the trace, and the process can report the path. The path is stored after the slot, in the part of
 * the slot's 8 KiB that the recorder never writes. It is complete when trace_created is set. The
 * path is untrusted: a file is accepted only if its header has the session, the pid and the number
 * of this process. */
enum { AG_SLOT_TRACE_OFFSET = 7168 };
_Static_assert(sizeof(struct ag_process_slot) <= AG_SLOT_TRACE_OFFSET,
               "the path is stored after the slot");
struct ag_slot_trace {
    uint32_t generation; /* that of the slot when the writer stored the path */
    char path[1020];
};
_Static_assert(AG_SLOT_TRACE_OFFSET + sizeof(struct ag_slot_trace) <= AG_SLOT_BYTES,
               "a slot with its path fits into AG_SLOT_BYTES");

/* ---- chunks ---- */
/* Flag in thread_id: this is the second stream of a thread, which signal handlers use if they
 * interrupt the recording of an event. No tid contains this bit, because kernel tids are below
 * 2^22. */
#define AG_THREAD_NESTED (UINT32_C(1) << 31)

enum ag_chunk_state {
    AG_CHUNK_FREE = 0,
    AG_CHUNK_ACTIVE = 1,
    AG_CHUNK_FULL = 2,
    AG_CHUNK_COUNTERS = 3, /* section 7 */
};

/* The state of one chunk. It fills one cache line, which the owning thread writes at each event and
 * the writer reads. */
struct ag_chunk_control {
    /* Number of committed words; stored with release, which pairs with the acquire load of the
     * writer. */
    AG_CACHE_ALIGNED _Atomic uint32_t used_words;
    _Atomic uint32_t state; /* enum ag_chunk_state */
    uint32_t slot, slot_generation;
    /* number of the stream in its process, from 0; for state COUNTERS: enum ag_counter_chunk */
    uint32_t stream;
    /* kernel tid; with AG_THREAD_NESTED for the stream of its signal handlers */
    uint32_t thread_id;
    uint64_t sequence;          /* number of the chunk in its stream, from 0 */
    _Atomic uint32_t next_free; /* index + 1 of the next chunk in the free list; 0: none */
    _Atomic uint32_t populated;
    uint64_t reserved[2];
};
_Static_assert(sizeof(struct ag_chunk_control) == 64,
               "a control has one cache line, because all controls are scanned");

/* ---- words ----
 *
 *     word 0   | address or value : 48 | via : 8 | reserved : 4 | kind : 4 |     (bit 63 .. bit 0)
 *     ALLOC    word 1 = stack : 32 | size : 32
 *     BIG      word 1 = stack : 32 | 0 : 32, word 2 = size         (sizes of 4 GiB and more)
 *     FREE     word 0 alone
 *     REALLOC_FREE   the free in a realloc; the ALLOC of the new block follows in the same stream
 *     FREE_FROM, REALLOC_FREE_FROM   FREE, REALLOC_FREE with word 1 = caller's stack : 32 | 0 : 32
 *     COLLECT  a garbage collector found the block dead: a free without a caller
 *     PROMOTE  a garbage collector moved the block to an older generation
 *     MOVE     the block got a new address: word 1 = the new address, encoded as in word 0
 *     TYPED    the type of a block: word 1 = stack : 32 | 0 : 32, word 2 = size of the block;
 *              the innermost node of the stack is the type
 *     RESET    a reset of the reports: they count only the events after this word
 *     UNDO     the realloc that freed this address failed: the block lives on unchanged
 *     STAMP    word 0 = raw clock since clock_origin : 56 | kind : 8
 *     RECORD   word 0 = bytes of body : 32 | enum ag_record_kind : 16 | 0 : 12 | kind : 4,
 *              then the body as in a trace (record_body.h), padded to a multiple of 8 bytes
 *
 * Example: malloc(24) = 0x7f12_3456_78a0 with stack 77 through via 0:
 *     0x7f12345678a0_00_01  0x0000004d_00000018 */
/* A via is the number of the allocation function that was called. Vias below AG_VIA_HOST belong to
 * the adapters: their blocks lie in the memory of the process, one block per address. A via from
 * AG_VIA_HOST on is the number of a heap that the program registered. The blocks of such a heap may
 * be parts of another heap's blocks, or have addresses that no CPU can access. So each registered
 * heap is an address space of its own, with one block per address. */
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
/* The address, with the address space of its via (AG_VIA_SPACE) in bits 48 to 63. */
#define AG_WORD_ADDRESS(word) ((uint64_t)(word) >> 16 | AG_VIA_SPACE(AG_WORD_VIA(word)) << 48)
#define AG_WORD_STAMP_RAW(word) ((uint64_t)(word) >> 8)
#define AG_WORD_RECORD_HEAD(kind, bytes) \
    ((uint64_t)(bytes) << 32 | (uint64_t)(kind) << 16 | AG_WORD_RECORD)
#define AG_WORD_RECORD_BYTES(word) ((uint32_t)((word) >> 32))
#define AG_WORD_RECORD_KIND(word) ((uint32_t)((word) >> 16 & 0xffff))

enum {
    /* limits of the body and of the rows of a record in the live segment, because the writer copies
     * each record into a buffer before it checks the record */
    AG_WORD_RECORD_MOST_BYTES = 16 * 1024,
    AG_WORD_RECORD_MOST_ROWS = 128,
};

enum ag_sampling_method {
    AG_SAMPLING_POISSON_BYTES = 1,
    /* a runtime's own sampler, which selects each word of 8 bytes, including the header of each
     * block, with the same probability */
    AG_SAMPLING_WORDS = 2,
};
/* Number of bytes that the sampling method adds to the size of each block when it counts the bytes
 * up to the next sample. */
static inline uint32_t ag_sampling_extra_bytes(uint32_t method) {
    return method == AG_SAMPLING_WORDS ? 8 : 1;
}

#endif
