/* recorder.h: the part of allogram inside of a recorded process: the functions that adapters call,
 * and the state of the one recorder of a process.
 *
 * Life: an adapter calls ag_recorder_start with the path of the session's live segment, announces
 * its heaps and vias (the allocation functions), and then reports events through event_fast.h. From
 * then on the recorder allocates no host memory, takes no lock that the host may hold, leaves errno
 * alone, and keeps no descriptor open. A forked child begins its own recording (process.c). This
 * module knows no runtime. */
#ifndef AG_RECORDER_H
#define AG_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "call_marks.h"
#include "format/segment.h"
#include "schema/records.h"
#include "unwind/stack_walker.h"

struct ag_thread;

enum ag_recorder_state {
    AG_RECORDER_UNBORN = 0, /* not started */
    AG_RECORDER_ACTIVE = 1, /* records every event */
    /* until another start: no free slot, a damaged segment, a child not followed, or left */
    AG_RECORDER_OFF = 2,
    AG_RECORDER_SAMPLING = 3, /* records the events of sampled blocks (sampler.c) */
    AG_RECORDER_RECORDS = 1,  /* this bit is set in each state that records */
};

/* Definitions that a forked child announces again, because it has its own trace. */
struct ag_heap_definition {
    uint32_t heap, domain, is_backing;
    const char *name, *allocator, *runtime; /* static strings */
};
struct ag_via_definition {
    uint32_t via, heap;
    const char *name; /* static string */
};
struct ag_runtime_definition {
    const char *name, *version, *note; /* static strings */
    bool is_hooked;
    /* objects by the runtime's own count, and those in the trace (told); 0, 0: no count */
    uint64_t told, counted;
};
typedef void ag_report_fn(void); /* reports to the trace by ag_recorder_append */
struct ag_announcement {         /* one per adapter; static, never freed */
    const struct ag_heap_definition *heaps;
    const struct ag_via_definition *vias;
    const struct ag_runtime_definition *runtime;
    size_t n_heaps, n_vias;
    ag_report_fn *report_more; /* reports what became known later; or NULL */
};

enum {
    AG_MAX_ANNOUNCEMENTS = 8,
    AG_WINDOW_CHUNKS = 1024, /* 64 MiB: the soft limit of a session fits into the first window */
    AG_WINDOW_BYTES = AG_WINDOW_CHUNKS * AG_CHUNK_BYTES,
    AG_MAX_WINDOWS = 64, /* 4 GiB */
};

/* All global variables of the recorder. They are written once before state becomes ACTIVE
 * (release), unless a comment says otherwise. */
struct ag_recorder {
    /* enum ag_recorder_state; the first member, because entry stubs in assembly read it */
    _Atomic uint32_t state;
    uint32_t pid;
    uint64_t pid_namespace; /* as in the slot, like the next three */
    bool namespace_is_inherited;
    char first_name[16]; /* of the thread that starts the recorder, during the start; else empty */
    uint64_t identity, family; /* 0 before the first start */
    void *lock_page;           /* holds the process' own lock (segment.h, 6); NULL: there is none */
    struct ag_segment_header *header;
    struct ag_process_slot *slot;
    uint32_t slot_index, slot_generation;
    uint32_t n_slots; /* this and other sizes are copies: the file's may change at any time */
    struct ag_chunk_control *controls;
    /* windows of chunks, mapped as needed, the first one at the start (chunk_supply.c) */
    _Atomic(unsigned char *) windows[AG_MAX_WINDOWS];
    uint32_t n_chunks; /* that the windows can reach */
    unsigned char *slots;
    void *tree; /* AG_TREE_BASE_BYTES of the tree are mapped */
    int tree_size;
    uint32_t node_limit; /* node ids are less than this */
    /* bytes mapped at header; bytes of each tree, which follow the controls */
    uint64_t control_bytes, tree_bytes;
    uint64_t chunks_offset;
    /* the tree in use and its generation; inherited across fork */
    uint32_t tree_index, tree_generation;
    struct ag_unwind_space *space;
    size_t walker_bytes;
    uint32_t depth, stamp_words;
    bool has_free_stacks;                /* a free carries the stack of its caller */
    _Atomic(struct ag_thread *) threads; /* all thread states of this process, newest first */
    struct ag_announcement announcements[AG_MAX_ANNOUNCEMENTS];
    _Atomic uint32_t n_announcements;
    uint32_t recording; /* number of starts */
    /* number of the process among relatives by fork: each forked child has another one */
    uint32_t process_number;
    /* enum ag_pause, for this process alone, in addition to the session's */
    _Atomic uint32_t paused;
    _Atomic uint32_t n_resets;      /* the value of header.n_resets that has been recorded */
    _Atomic uint64_t private_bytes; /* mapped bytes of thread states and tables */
    /* thread states: at most this many threads have a chunk at the same time */
    _Atomic uint32_t n_states;
};
extern struct ag_recorder ag_recorder AG_HIDDEN;
_Static_assert(offsetof(struct ag_recorder, state) == 0 && AG_RECORDER_OFF == 2 &&
                   AG_RECORDER_ACTIVE < AG_RECORDER_OFF && AG_RECORDER_SAMPLING > AG_RECORDER_OFF,
               "as the entry stubs have it");

/* Whether the recorder records, all events or samples. */
AG_FAST bool ag_recorder_is_active(void) {
    return atomic_load_explicit(&ag_recorder.state, memory_order_relaxed) & AG_RECORDER_RECORDS;
}

AG_FAST bool ag_recorder_is_sampling(void) {
    return atomic_load_explicit(&ag_recorder.state, memory_order_relaxed) == AG_RECORDER_SAMPLING;
}

/* Maps the segment, claims a slot, starts recording. Returns 0, or a negative errno; the process
 * then runs unrecorded. Called from one thread, before any event or after leave. */
int ag_recorder_start(const char *session_path);

/* Ends this process' part in the session: the writer seals its slot, and nothing more is recorded.
 * Events of other threads in progress complete in memory that stays mapped (about half a GiB of
 * address space, not of memory, permanently). Afterwards the recorder may be started again. */
void ag_recorder_leave(void);

/* Unmaps all memory of a recorder that has left, or could not start; it may not be started again.
 * Call it only when no other thread of the process is in an event or can ever begin one. */
void ag_recorder_unmap(void);
/* Frees the memory of the last recording, if there is any; no event may be in progress. Called
 * before the next start by programs that start often. */
void ag_recorder_forget_left(void);

/* Announces an adapter's heaps and vias to the trace. They are remembered for forked children. */
void ag_recorder_announce(const struct ag_announcement *announcement);

/* Records a runtime's definition again; the last record for a name is valid. */
void ag_record_runtime(const struct ag_runtime_definition *runtime);

/* Pauses the events of all adapters, in this process alone (AG_PAUSE_ALL), or continues them
 * (AG_PAUSE_NONE). It takes effect at once for the calling thread, and for others within one tick
 * of the writer. */
void ag_recorder_pause(enum ag_pause pause);
/* The path of this process' trace. false: the writer has not published it (yet). */
bool ag_recorder_trace(char *ret_path, size_t capacity);

/* Called when exit is called: a death after this is not attributed to a signal. */
void ag_recorder_exiting(void);
/* Called when _exit or quick_exit is called: as above, and the calling thread records nothing more.
 * If it has another event, the caller of _exit was a child of vfork. */
void ag_recorder_exits_now(void);

/* Counts a program that this process, or a child that shares its memory, is about to execute. */
void ag_recorder_executes(void);
/* Takes that back: the program was not executed. */
void ag_recorder_has_not_executed(void);

/* Called first in a forked child, by the code that detects the fork (the hook of fork, or the first
 * event). */
void ag_recorder_child_start(void);
/* The same, called by a hook of fork in the child. parent_tid: the result of
 * ag_thread_tid_in_memory before the fork. */
void ag_recorder_forked(uint32_t parent_tid);
/* Drops the lock that shows that this process is recorded. */
void ag_recorder_unlock(void);

/* Called when dlclose has returned: the code of the removed objects is gone. Not needed if the
 * loader's notices are installed. */
void ag_recorder_images_changed(void);
/* From now on the loader reports each change of its list, by a detour of its function for debuggers
 * (hook/loader_notice.h). Only for an agent that removes its detours before it is unloaded. */
void ag_recorder_watch_images(void);

/* Appends a rare record, of a kind that record_fields.def assigns to the recorder; a batch (a
 * table) is given by u.rows, at most AG_WORD_RECORD_MOST_ROWS rows. Can be called from any thread
 * and signal handler. */
void ag_recorder_append(const struct ag_record *record);
/* The same for something that happens now: a stamp is written before it. */
void ag_recorder_append_moment(const struct ag_record *record);
/* A string of a record: at most `most` bytes of TEXT, which may be NULL. */
static inline struct ag_bytes ag_bytes_of(const char *text, size_t most) {
    return (struct ag_bytes){.data = text, .length = text ? (uint32_t)strnlen(text, most) : 0};
}

/* The site that represents a type or a label in stacks of this session (AG_IMAGE_TYPE or _LABEL);
 * 0: no memory for it. For a known number it takes about 10 ns. */
uint32_t ag_record_leaf_site(uint32_t number, uint32_t image);
/* All blocks that this thread allocates from now on, in any heap, get this leaf in their stacks; 0:
 * none. Every event of a thread with a label takes the slow path. */
void ag_record_set_label_site(uint32_t site);
struct ag_managed_frame; /* managed_frames.h */
struct ag_typed_place {
    uint32_t site; /* of the block's type, or 0 */
    /* address in the calling function where the block was allocated; 0: at the call */
    uintptr_t pc;
    const struct ag_managed_frame *frames; /* of the block's own stack, innermost first */
    uint32_t n_frames;
    struct ag_block_site *ret_site; /* filled if the block is recorded; NULL: not wanted */
    /* in a sampled recording: the caller has selected the block with this interval; 0: not selected
     * yet */
    uint64_t chosen_interval_bytes;
};
struct ag_block_site {
    uint32_t stack;
    uint64_t interval_bytes; /* AG_INTERVAL_UNKNOWN: not a sample */
};
#define AG_INTERVAL_UNKNOWN UINT64_MAX
/* As ag_record_alloc_fast. */
void ag_record_alloc_typed(const uintptr_t *sp, uintptr_t rbp, uintptr_t address, size_t bytes,
                           uint32_t via, const struct ag_typed_place *place);

/* A block that another component selected and whose stack is known already (joined_stacks.c): for
 * runtimes that sample themselves, or that report all their blocks. */
struct ag_reported_block {
    uint32_t stack, via;
    uintptr_t address;
    size_t bytes;
    /* in a sampled recording: the interval that the block was selected with */
    uint64_t interval_bytes;
    /* true: the recorder's sampler selected it, by bytes; false: the runtime's own, by words */
    bool is_by_bytes;
};
void ag_record_reported_alloc(const struct ag_reported_block *block);
void ag_record_reported_free(uintptr_t address, uint32_t via);
/* The runtime moved such a block to an older generation. */
void ag_record_reported_promote(uintptr_t address, uint32_t via);
/* The last record of this thread, if it is an allocation of so many bytes: for callers that learn
 * only afterwards what the block is (ag_record_block_type). false: it is another record. */
struct ag_newest_alloc {
    uintptr_t address;
    uint32_t via;
    struct ag_block_site told;
};
bool ag_record_newest_alloc(size_t bytes, struct ag_newest_alloc *ret_newest);

/* What a runtime did to a block, and a type that became known (block_facts.c). A sampled recording
 * records these for samples only. */
void ag_record_move(uintptr_t address, uintptr_t to, uint32_t via);
void ag_record_promote(uintptr_t address, uint32_t via);
/* told: as recorded at the allocation; site: of the block's type. */
void ag_record_block_type(uintptr_t address, uint32_t via, const struct ag_block_site *told,
                          size_t bytes, uint32_t site);
/* Marks in the trace that reports count from here on. */
void ag_record_reset(void);
/* Makes each thread stamp its next event: called when a collection begins or ends. */
void ag_record_cut_windows(void);

/* Stacks joined from walked frames and from a runtime's own (joined_stacks.c). */
bool ag_stack_top(uint32_t stack, uintptr_t *ret_pc, uint32_t *ret_caller);
/* A number that changes when caches of nodes and sites become invalid: by another recording, a
 * forked child, or unloaded images. Never 0. */
uint32_t ag_stacks_recording(void);
/* CALLER with one more frame inside of it; AG_ROOT_NOT_KEPT if there is no memory for the node, or
 * if CALLER is AG_ROOT_NOT_KEPT. */
uint32_t ag_stack_push(uint32_t caller, uintptr_t pc);
uint32_t ag_stack_push_data(uint32_t caller, uintptr_t address);

/* The stack of the caller; AG_ROOT_INCOMPLETE in a handler that interrupted a hook. */
uint32_t ag_record_stack(const uintptr_t *sp, uintptr_t rbp);
/* The outer part of the caller's stack: the innermost frames that CHOOSE rejects get no node, if
 * all frames are native. CHOOSE is not called if the stack cannot be walked. */
uint32_t ag_record_stack_outer(const uintptr_t *sp, uintptr_t rbp, ag_walk_choose *choose,
                               void *context);

/* Memory that the program mapped or unmapped, with the caller's stack. */
void ag_record_map(const uintptr_t *sp, uintptr_t rbp, uint32_t via, uintptr_t address,
                   size_t bytes, int protection, int flags);
void ag_record_unmap(uintptr_t address, size_t bytes);

/* The size of a heap as its own allocator counts it; the last record of a heap is valid. sizes in
 * bytes; known: flags of enum ag_memory_known (decode.h). Can be called from any thread, not from
 * signal handlers. */
struct ag_held_memory {
    uint32_t heap, known;
    uint64_t reserved_bytes, committed_bytes; /* address space; the part of it that is memory */
    uint64_t free_bytes;                      /* committed and not in a block */
    uint64_t of_malloc_bytes;                 /* committed and obtained from malloc */
};
void ag_record_memory(const struct ag_held_memory *memory);

/* Between suspend and resume no event of this thread is recorded: for an adapter that calls
 * functions of the host that may switch stacks, and that records the outcome itself. Nested
 * suspensions have no effect. resume takes the result of suspend. Must not be used around code that
 * may throw. Events of signal handlers are dropped as well; if those matter, use
 * ag_record_suspend_call. */
uintptr_t ag_record_suspend(void);
void ag_record_resume(uintptr_t suspended);

/* Between suspend_call and resume_call, events of calls that are made from the function whose frame
 * holds the mark are not recorded: the function calls the host, and records the outcome itself.
 * Handlers that interrupt the host's function are recorded. The host may throw, leave by longjmp,
 * or be cancelled. */
extern __thread ag_call_marks ag_suspended_calls __attribute__((tls_model("initial-exec")))
AG_HIDDEN;
void ag_record_suspend_call(struct ag_call_mark *mark);
void ag_record_resume_call(struct ag_call_mark *mark);
/* Whether a call with this stack pointer is made inside such a call. */
AG_FAST bool ag_record_is_suspended_call(uintptr_t sp) {
    return ag_call_is_inside(&ag_suspended_calls, sp);
}

/* Ends recording in this process, until another start. */
void ag_recorder_turn_off(void);

#endif
