/* recorder.h: the in-process half of allogram: what an adapter calls, and the state of the one
 * recorder of a process.
 *
 * Life: an adapter calls ag_recorder_start with the path of the session's live segment, announces
 * its heaps and vias, and then reports events through event_fast.h. From then on nothing allocates,
 * locks what the host may hold, touches errno, or keeps a descriptor open. A forked child starts
 * over on its own (process.c). Nothing here knows a runtime. */
#ifndef AG_RECORDER_H
#define AG_RECORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "call_marks.h"
#include "format/segment.h"
#include "unwind/stack_walker.h"

struct ag_thread;

enum ag_recorder_state {
    AG_RECORDER_UNBORN = 0, /* nobody started it */
    AG_RECORDER_ACTIVE = 1, /* every event */
    AG_RECORDER_OFF = 2, /* for good: no session, no slot was free, the segment is damaged, a child
                            not to be followed */
    AG_RECORDER_SAMPLING = 3, /* the events of sampled blocks (sampler.c) */
    AG_RECORDER_RECORDS = 1,  /* a bit: something may have to be told */
};

/* What must be announced again in a forked child, because its trace is its own. */
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
    uint64_t told, counted; /* of what it counts itself, this much is in the trace; 0, 0: it does
                               not count */
};
typedef void ag_report_fn(void); /* tells the trace by ag_record_wide */
struct ag_announcement {         /* one per adapter; static, never freed */
    const struct ag_heap_definition *heaps;
    const struct ag_via_definition *vias;
    const struct ag_runtime_definition *runtime;
    size_t n_heaps, n_vias;
    ag_report_fn *report_more; /* what became known later; or NULL */
};

enum {
    AG_MAX_ANNOUNCEMENTS = 8,
    AG_WINDOW_CHUNKS = 1024, /* 64 MiB: the soft limit of a session fits into the first */
    AG_WINDOW_BYTES = AG_WINDOW_CHUNKS * AG_CHUNK_BYTES,
    AG_MAX_WINDOWS = 64, /* 4 GiB */
};

/* The recorder's globals, all of them. Written once before state becomes ACTIVE (release), but for
 * what says otherwise. */
struct ag_recorder {
    _Atomic uint32_t state; /* enum ag_recorder_state; first: entry stubs in assembly look at it */
    uint32_t pid;
    uint64_t pid_namespace; /* as in the slot, like the next three */
    bool namespace_is_inherited;
    char first_name[16]; /* of the thread that starts the recorder, while it does; else empty */
    uint64_t identity, family; /* 0 before the first start */
    void *lock_page;           /* keeps the own lock (segment.h, 6); NULL: there is none */
    struct ag_segment_header *header;
    struct ag_process_slot *slot;
    uint32_t slot_index, slot_generation;
    uint32_t n_slots; /* this and other sizes are ours: what the file says may change any time */
    struct ag_chunk_control *controls;
    _Atomic(unsigned char *) windows[AG_MAX_WINDOWS]; /* of chunks, mapped as needed, the first at
                                                         start (chunk_supply.c) */
    uint32_t n_chunks;                                /* that windows can reach */
    unsigned char *slots;
    void *tree; /* AG_TREE_BASE_BYTES of it */
    int tree_size;
    uint32_t node_limit;                /* ids of nodes are below it */
    uint64_t control_bytes, tree_bytes; /* mapped at header; of each tree: trees begin there */
    uint64_t chunks_offset;
    uint32_t tree_index, tree_generation; /* which, and since when: a fork inherits them */
    struct ag_unwind_space *space;
    size_t walker_bytes;
    uint32_t depth, stamp_words;
    bool has_free_stacks;                /* a free carries the stack of who freed */
    _Atomic(struct ag_thread *) threads; /* every thread state of this process, newest first */
    struct ag_announcement announcements[AG_MAX_ANNOUNCEMENTS];
    _Atomic uint32_t n_announcements;
    uint32_t recording;             /* how often it was started */
    uint32_t process_number;        /* of the family: a forked child has another one */
    _Atomic uint32_t paused;        /* enum ag_pause, of this process alone, beside the session's */
    _Atomic uint32_t n_resets;      /* header.n_resets, as far as told */
    _Atomic uint64_t private_bytes; /* thread states and tables, mapped, bytes */
    _Atomic uint32_t n_states;      /* of threads: so many have a chunk at once, at most */
};
extern struct ag_recorder ag_recorder AG_HIDDEN;
_Static_assert(offsetof(struct ag_recorder, state) == 0 && AG_RECORDER_OFF == 2 &&
                   AG_RECORDER_ACTIVE < AG_RECORDER_OFF && AG_RECORDER_SAMPLING > AG_RECORDER_OFF,
               "as the entry stubs have it");

/* It records, all or samples. */
AG_FAST bool ag_recorder_is_active(void) {
    return atomic_load_explicit(&ag_recorder.state, memory_order_relaxed) & AG_RECORDER_RECORDS;
}

AG_FAST bool ag_recorder_is_sampling(void) {
    return atomic_load_explicit(&ag_recorder.state, memory_order_relaxed) == AG_RECORDER_SAMPLING;
}

/* Maps the segment, claims a slot, starts recording. 0 or negative errno (then the process goes on
 * unrecorded). Called once, from one thread, before any event. */
int ag_recorder_start(const char *session_path);

/* Ends this process' part in the session: its slot is left to who seals it, and nothing more is
 * recorded. Events of other threads that are under way end in memory that stays mapped (some half a
 * GiB of addresses, not of memory, for good). Afterwards the recorder may be started again. */
void ag_recorder_leave(void);

/* Gives back every mapping of a recorder that has left, or could not start; it may not be started
 * again. Only where nobody else of the process can be in an event, or ever come to one. */
void ag_recorder_unmap(void);
/* Gives the memory of a recording back that was left, where there is one; no event is under way.
 * Before the next start, for who starts often. */
void ag_recorder_forget_left(void);

/* Tells the trace about an adapter's heaps and vias; remembered for forked children. */
void ag_recorder_announce(const struct ag_announcement *announcement);

/* Says anew what is known of a runtime; the last word of its name counts. */
void ag_record_runtime(const struct ag_runtime_definition *runtime);

/* Events of all adapters, in this process alone: AG_PAUSE_ALL, or AG_PAUSE_NONE again. Seen by the
 * calling thread at once and by others within a tick of the writer's. */
void ag_recorder_pause(enum ag_pause pause);
/* Where the writer writes this process' trace. false: it does not say so, or not yet. */
bool ag_recorder_trace(char *ret_path, size_t capacity);

/* exit was called: a death from here on is no signal's. */
void ag_recorder_exiting(void);
/* _exit or quick_exit was called: the same, and the calling thread records nothing more; if it
 * does, a child of vfork had called it. */
void ag_recorder_exits_now(void);

/* Called first thing in a forked child by whoever notices first (the fork hook, or the first
 * event). */
void ag_recorder_child_start(void);
/* The same by a hook of fork, in the child. parent_tid: what ag_thread_tid_in_memory said before
 * the fork. */
void ag_recorder_forked(uint32_t parent_tid);
/* Drops the lock that says that this process is recorded. */
void ag_recorder_unlock(void);

/* The loader dropped objects (dlclose returned): their code is gone. Where its own reports come,
 * this is known already. */
void ag_recorder_images_changed(void);
/* From here on the loader reports each change of its list, by a detour of its function for
 * debuggers (hook/loader_notice.h): for an agent that is not unloaded before its detours are taken
 * out. */
void ag_recorder_watch_images(void);

/* A rare record, from any thread and handler. */
struct ag_wide_part {
    const void *data;
    size_t bytes;
};
void ag_record_wide(enum ag_wide_kind kind, const struct ag_wide_part *parts, size_t n_parts);
/* The same of what happened now: a stamp stands before it. */
void ag_record_moment(enum ag_wide_kind kind, const struct ag_wide_part *parts, size_t n_parts);

/* The site that stands for a type or a label in stacks of this session (AG_IMAGE_TYPE or _LABEL);
 * 0: there is no memory for it. Known numbers cost some 10 ns. */
uint32_t ag_record_leaf_site(uint32_t number, uint32_t image);
/* What this thread allocates from here on, in whatever heap, stands under this leaf; 0: under none.
 * Every event of a thread with a label takes the slow path. */
void ag_record_set_label_site(uint32_t site);
struct ag_managed_frame; /* managed_frames.h */
struct ag_typed_place {
    uint32_t site; /* of the block's type, or 0 */
    uintptr_t pc;  /* where in the calling function it was allocated; 0: at the call */
    const struct ag_managed_frame *frames; /* of the block's own stack, innermost first */
    uint32_t n_frames;
    struct ag_block_site *ret_site; /* NULL: nobody asks. Filled where the block is recorded */
    uint64_t chosen_interval_bytes; /* sampled: it was chosen by who tells it; 0: nobody did yet */
};
struct ag_block_site {
    uint32_t stack;
    uint64_t interval_bytes; /* AG_INTERVAL_UNKNOWN: it is no sample */
};
#define AG_INTERVAL_UNKNOWN UINT64_MAX
/* As ag_record_alloc_fast. */
void ag_record_alloc_typed(const uintptr_t *sp, uintptr_t rbp, uintptr_t address, size_t bytes,
                           uint32_t via, const struct ag_typed_place *place);

/* A block that somebody else chose, whose stack is known already (joined_stacks.c): of a runtime
 * that samples itself, or tells of all its blocks. */
struct ag_reported_block {
    uint32_t stack, via;
    uintptr_t address;
    size_t bytes;
    uint64_t interval_bytes; /* of a sampled recording: that it was chosen with ... */
    bool is_by_bytes; /* ... by the recorder's own sampler; else by the runtime's, by words */
};
void ag_record_reported_alloc(const struct ag_reported_block *block);
void ag_record_reported_free(uintptr_t address, uint32_t via);
/* Of such a block: its writer put it where it lives longer. */
void ag_record_reported_promote(uintptr_t address, uint32_t via);
/* What this thread recorded last, where that is an allocation of so many bytes: for who knows only
 * behind it what the block is (ag_record_block_type). false: it is something else. */
struct ag_newest_alloc {
    uintptr_t address;
    uint32_t via;
    struct ag_block_site told;
};
bool ag_record_newest_alloc(size_t bytes, struct ag_newest_alloc *ret_newest);

/* What a writer did to a block, and a type that became known (block_facts.c). In a sampled
 * recording only of samples. */
void ag_record_move(uintptr_t address, uintptr_t to, uint32_t via);
void ag_record_promote(uintptr_t address, uint32_t via);
/* told: as it was allocated; site: of its type. */
void ag_record_block_type(uintptr_t address, uint32_t via, const struct ag_block_site *told,
                          size_t bytes, uint32_t site);
/* What was counted so far is dropped: who reads the trace begins here. */
void ag_record_reset(void);
/* What any thread records from here on lies behind a stamp: a collection began or ended. */
void ag_record_cut_windows(void);

/* Stacks that are put together from walked ones and from what a runtime knows (joined_stacks.c). */
bool ag_stack_top(uint32_t stack, uintptr_t *ret_pc, uint32_t *ret_caller);
/* Tells caches of nodes and sites when they are out of date: another recording, a forked child,
 * images that have gone. Never 0. */
uint32_t ag_stacks_recording(void);
/* CALLER with a frame inside of it; AG_ROOT_NOT_KEPT where there is no memory for the node, or if
 * CALLER is that. */
uint32_t ag_stack_push(uint32_t caller, uintptr_t pc);
uint32_t ag_stack_push_data(uint32_t caller, uintptr_t address);

/* The caller's stack; AG_ROOT_INCOMPLETE from a handler that interrupted a hook. */
uint32_t ag_record_stack(const uintptr_t *sp, uintptr_t rbp);
/* Its outer part: the innermost frames that CHOOSE does not want get no node, where native frames
 * are all that there is. CHOOSE is not called where the stack cannot be walked. */
uint32_t ag_record_stack_outer(const uintptr_t *sp, uintptr_t rbp, ag_walk_choose *choose,
                               void *context);

/* Memory that the program took from the kernel or gave back; stack of the caller. */
void ag_record_map(const uintptr_t *sp, uintptr_t rbp, uint32_t via, uintptr_t address,
                   size_t bytes, int protection, int flags);
void ag_record_unmap(uintptr_t address, size_t bytes);

/* What a heap holds, as whose heap it is counts it: the last word of a heap counts. sizes in bytes;
 * known: flags of enum ag_memory_known (decode.h). From any thread; not for signal handlers. */
struct ag_held_memory {
    uint32_t heap, known;
    uint64_t reserved_bytes, committed_bytes; /* addresses; of them, memory */
    uint64_t free_bytes;                      /* committed and in no block */
    uint64_t of_malloc_bytes;                 /* committed and taken from malloc */
};
void ag_record_memory(const struct ag_held_memory *memory);

/* Between the two, no event of this thread is recorded, whoever brings it about: an adapter calls
 * functions of the host that may switch stacks, and records the outcome itself. Nested suspensions
 * are no-ops. resume takes what suspend returned. Not across anything that may throw. Events of
 * signal handlers are not recorded either: where those matter, use ag_record_suspend_call. */
uintptr_t ag_record_suspend(void);
void ag_record_resume(uintptr_t suspended);

/* Between the two, the events of calls that are made by the function in whose frame the mark lies
 * are not recorded: it calls a function of the host, and records the outcome itself. Handlers that
 * interrupt the host's function are recorded. It may throw, be left by longjmp, or be cancelled. */
extern __thread ag_call_marks ag_suspended_calls __attribute__((tls_model("initial-exec")))
AG_HIDDEN;
void ag_record_suspend_call(struct ag_call_mark *mark);
void ag_record_resume_call(struct ag_call_mark *mark);
/* Whether a call with this stack pointer is one of those. */
AG_FAST bool ag_record_is_suspended_call(uintptr_t sp) {
    return ag_call_is_inside(&ag_suspended_calls, sp);
}

/* This process is not recorded, and will not be. */
void ag_recorder_turn_off(void);

#endif
