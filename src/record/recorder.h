/* recorder.h: the interface and the state of the recorder, the part of allogram inside of a
 * recorded process. Adapters (an adapter is the code for one runtime or allocator) call its
 * functions. Each process has one recorder.
 *
 * Life: an adapter calls ag_recorder_start with the path of the live file. The file contains the
 * live segment, the memory that the processes of a session (a recording) share with the writer of
 * the traces. The adapter announces its heaps and vias (the allocation functions), and then reports
 * events through event_fast.h. From then on the recorder allocates no memory of the host (the
 * recorded program), takes no lock that the host may hold, does not change errno, and keeps no
 * descriptor open. A forked child begins its own recording (process.c). No code of this folder is
 * specific to a runtime. */
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
    /* does not record, until another start: the segment had no free slot (entry for a process) or
     * was damaged, this is a child that is not followed, or the process has left the session */
    AG_RECORDER_OFF = 2,
    AG_RECORDER_SAMPLING = 3, /* records the events of sampled blocks (sampler.c) */
    AG_RECORDER_RECORDS = 1,  /* this bit is set in each state that records */
};

/* Definitions of heaps and vias. A forked child announces (records) them again, because it has its
 * own trace. */
struct ag_heap_definition {
    uint32_t heap, domain, is_backing;      /* is_backing 1: the heap's blocks contain other
                                             * heaps */
    const char *name, *allocator, *runtime; /* static strings */
};
struct ag_via_definition {
    uint32_t via, heap;
    const char *name; /* static string */
};
struct ag_runtime_definition {
    const char *name, *version, *note; /* static strings */
    bool is_hooked;                    /* the runtime's allocations are recorded */
    /* counted: allocations by the runtime's own count, in its own unit; reported: the part of them
     * that is in the trace; both 0: the runtime does not count */
    uint64_t reported, counted;
};
typedef void ag_report_fn(void); /* appends records by ag_recorder_append */
struct ag_announcement {         /* an adapter has one, in static memory */
    const struct ag_heap_definition *heaps;
    const struct ag_via_definition *vias;
    const struct ag_runtime_definition *runtime;
    size_t n_heaps, n_vias;
    /* called after the definitions above were recorded, for further records of the adapter; or
     * NULL */
    ag_report_fn *report_more;
};

enum {
    AG_MAX_ANNOUNCEMENTS = 8,
    /* chunks (64 KiB each, for events) of a window, a mapping of 64 MiB; large enough that most
     * sessions need only the first window */
    AG_WINDOW_CHUNKS = 1024,
    AG_WINDOW_BYTES = AG_WINDOW_CHUNKS * AG_CHUNK_BYTES,
    AG_MAX_WINDOWS = 64, /* the windows have room for 4 GiB of chunks */
};

/* All global variables of the recorder. They are written once before state becomes ACTIVE
 * (release), unless a comment says otherwise. */
struct ag_recorder {
    /* enum ag_recorder_state; the first member, because entry stubs in assembly read it */
    _Atomic uint32_t state;
    uint32_t pid;
    uint64_t pid_namespace; /* inode of the PID namespace of this process; 0: unknown */
    /* pid_namespace was copied from the parent, which forked this process, and may be wrong */
    bool namespace_is_inherited;
    /* during the start: name of the thread that starts the recorder; else empty */
    char first_name[16];
    /* numbers that identify this process and the process that opened its mapping of the segment
     * (segment.h, section 6); 0 before the first start */
    uint64_t identity, family;
    /* mapping that holds the process' own lock (segment.h, section 6); NULL: there is none */
    void *lock_page;
    struct ag_segment_header *header;
    struct ag_process_slot *slot;
    uint32_t slot_index, slot_generation;
    /* n_slots and the other sizes are copies, because other processes can change the segment's
     * header at any time */
    uint32_t n_slots;
    struct ag_chunk_control *controls;
    /* windows of chunks; the first window is mapped at the start, the others when they are needed
     * (chunk_supply.c) */
    _Atomic(unsigned char *) windows[AG_MAX_WINDOWS];
    uint32_t n_chunks; /* number of chunks that the windows can contain */
    unsigned char *slots;
    void *tree;          /* the process' stack tree, of which AG_TREE_BASE_BYTES are mapped */
    int tree_size;       /* 0 to 3 (base/stack_tree.h) */
    uint32_t node_limit; /* node ids are less than this */
    /* control_bytes: bytes mapped at `header`; tree_bytes: bytes of each tree; the trees follow the
     * controls in the file */
    uint64_t control_bytes, tree_bytes;
    uint64_t chunks_offset;
    /* the number of the tree in use, and its generation, which changes when the tree is cleared; a
     * forked child inherits both */
    uint32_t tree_index, tree_generation;
    struct ag_unwind_space *space;
    size_t walker_bytes;         /* size of a thread's stack walker */
    uint32_t depth, stamp_words; /* maximum number of frames of a stack; maximum number of words
                                  * between two stamps (times) */
    bool has_free_stacks;        /* a free carries the stack of its caller */
    _Atomic(struct ag_thread *) threads; /* all thread states of this process, newest first */
    struct ag_announcement announcements[AG_MAX_ANNOUNCEMENTS];
    _Atomic uint32_t n_announcements;
    uint32_t recording; /* number of starts */
    /* number of the process: a forked child has another number than its parent */
    uint32_t process_number;
    /* enum ag_pause, for this process alone; header.paused is that of the session */
    _Atomic uint32_t paused;
    _Atomic uint32_t n_resets;      /* the value of header.n_resets that has been recorded */
    _Atomic uint64_t private_bytes; /* mapped bytes of thread states and tables */
    /* number of thread states: at most so many threads have a chunk at the same time */
    _Atomic uint32_t n_states;
};
extern struct ag_recorder ag_recorder AG_HIDDEN;
_Static_assert(offsetof(struct ag_recorder, state) == 0 && AG_RECORDER_OFF == 2 &&
                   AG_RECORDER_ACTIVE < AG_RECORDER_OFF && AG_RECORDER_SAMPLING > AG_RECORDER_OFF,
               "the entry stubs use the same offset and numbers");

/* Whether the recorder records (all events, or samples). */
AG_FAST bool ag_recorder_is_active(void) {
    return atomic_load_explicit(&ag_recorder.state, memory_order_relaxed) & AG_RECORDER_RECORDS;
}

AG_FAST bool ag_recorder_is_sampling(void) {
    return atomic_load_explicit(&ag_recorder.state, memory_order_relaxed) == AG_RECORDER_SAMPLING;
}

/* Maps the segment, claims a slot, starts recording. Returns 0, or a negative errno; then the
 * process is not recorded. Called from one thread, before any event or after ag_recorder_leave. */
int ag_recorder_start(const char *session_path);
/* Does what ag_recorder_start does, for a process that cannot open the live file by its path. Both
 * descriptors belong to the live file, and each has an open file description of its own, which no
 * other process uses. They are closed, also on failure. lock_fd: for the lock of this process alone
 * (AG_LOCK_OWN of segment.h); negative: it takes no such lock. */
int ag_recorder_start_with(int fd, int lock_fd);

/* Ends the recording of this process in the session; the writer seals (completes) its trace. Events
 * that other threads are recording at this moment use memory that stays mapped. This memory takes
 * about half a GiB of address space, but little physical memory, until ag_recorder_forget_left or
 * ag_recorder_unmap unmaps it. Afterward the recorder may be started again. */
void ag_recorder_leave(void);

/* Unmaps all memory of a recorder that has left, or could not start; the recorder must not be
 * started again. Call it only when no other thread of the process is in an event or can ever begin
 * an event. */
void ag_recorder_unmap(void);
/* Frees the memory of the last recording, if there is any. No event may be in progress. Programs
 * that start recordings often call it before the next start. */
void ag_recorder_forget_left(void);

/* Records an adapter's heaps and vias in the trace, and remembers them for the traces of forked
 * children. */
void ag_recorder_announce(const struct ag_announcement *announcement);

/* Records a runtime's definition again. If a trace has several records with the same name, the last
 * is valid. */
void ag_record_runtime(const struct ag_runtime_definition *runtime);

/* Pauses the events of all adapters, in this process alone (AG_PAUSE_ALL), or continues them
 * (AG_PAUSE_NONE). The change takes effect at once for the calling thread, and for others within
 * one tick of the writer, about a millisecond. */
void ag_recorder_pause(enum ag_pause pause);
/* Stores the path of this process' trace. Returns false if the writer has not published the path
 * (yet). */
bool ag_recorder_trace(char *ret_path, size_t capacity);

/* Called when exit is called: if the process ends after this, the end is not attributed to a
 * signal. */
void ag_recorder_exiting(void);
/* Called when _exit or quick_exit is called: does the same as ag_recorder_exiting. If the calling
 * thread has another event later, the caller of _exit was a child of vfork: that event undoes this
 * call, and is recorded. */
void ag_recorder_exits_now(void);

/* Counts a program that this process, or a child that shares its memory, is about to execute. */
void ag_recorder_executes(void);
/* Undoes ag_recorder_executes: the program was not executed. */
void ag_recorder_has_not_executed(void);

/* Called first in a forked child, by the code that detects the fork: the first event, or a notice
 * of the loader. The hook of fork (the function that allogram runs in place of fork) calls
 * ag_recorder_forked instead. */
void ag_recorder_child_start(void);
/* The variant of ag_recorder_child_start that a hook of fork calls in the child. parent_tid: the
 * result of ag_thread_tid_in_memory (thread_state.h) before the fork. */
void ag_recorder_forked(uint32_t parent_tid);
/* Releases the lock that shows that this process lives and is recorded. */
void ag_recorder_unlock(void);

/* Called when dlclose has returned, after which the code of the removed objects is not mapped. Not
 * needed if the loader's notices are installed (ag_recorder_watch_images). */
void ag_recorder_images_changed(void);
/* From now on the loader reports each change of its list, by a detour (a jump at the start) of its
 * function for debuggers (hook/loader_notice.h). Only for an agent (the library in the program)
 * that removes its detours before it is unloaded. CALL_AT_CHANGE: called before objects are removed
 * and after each change, by the thread that makes the change, with the loader's lock held. */
void ag_recorder_watch_images(void (*call_at_change)(void));

/* Appends a rare record, of a kind that record_fields.def assigns to the recorder; for a batch (a
 * record with rows), u.rows contains the rows, at most AG_WORD_RECORD_MOST_ROWS. Can be called from
 * any thread and signal handler. */
void ag_recorder_append(const struct ag_record *record);
/* Appends a record of something that happens at this moment: writes a stamp (a word with the time)
 * before the record. */
void ag_recorder_append_moment(const struct ag_record *record);
/* A string of a record: at most `most` bytes of TEXT, which may be NULL. */
static inline struct ag_bytes ag_bytes_of(const char *text, size_t most) {
    return (struct ag_bytes){.data = text, .length = text ? (uint32_t)strnlen(text, most) : 0};
}

/* The site (a number in the stack tree) that represents the type or label NUMBER in stacks of this
 * session. image: AG_IMAGE_TYPE or AG_IMAGE_LABEL. 0: there is no memory for the site. If the site
 * exists already, this takes about 10 ns. */
uint32_t ag_record_leaf_site(uint32_t number, uint32_t image);
/* Sets the label of this thread, a name for the work that the thread does. SITE: the site that
 * represents the label; 0: no label. From now on, the stack of each block that the thread
 * allocates, in any heap, gets a leaf (an innermost node that is not a frame) with this site. Every
 * event of a thread with a label takes the slow path. */
void ag_record_set_label_site(uint32_t site);
struct ag_managed_frame; /* managed_frames.h */
struct ag_typed_place {
    uint32_t site; /* site of the block's type; 0: no type */
    /* address in the calling function at which the block was allocated; 0: the return address of
     * the call */
    uintptr_t pc;
    /* frames of a virtual machine to add to the stack of this block, innermost first */
    const struct ag_managed_frame *frames;
    uint32_t n_frames;
    struct ag_block_site *ret_site; /* filled if the block is recorded; NULL: not wanted */
    /* in a sampled recording: the interval by which the caller has already selected the block; 0:
     * the block is not selected yet */
    uint64_t chosen_interval_bytes;
};
struct ag_block_site {
    uint32_t stack;
    uint64_t interval_bytes; /* AG_INTERVAL_UNKNOWN: not a sample */
};
#define AG_INTERVAL_UNKNOWN UINT64_MAX
/* Records an allocation like ag_record_alloc_fast (event_fast.h), for a block with a type, or with
 * another pc or further frames (struct ag_typed_place). */
void ag_record_alloc_typed(const uintptr_t *sp, uintptr_t rbp, uintptr_t address, size_t bytes,
                           uint32_t via, const struct ag_typed_place *place);

/* A block that another component has selected for the recording, and whose stack is known already
 * (joined_stacks.c). For runtimes that have their own sampler, or that report all their blocks. */
struct ag_reported_block {
    uint32_t stack, via;
    uintptr_t address;
    size_t bytes;
    /* in a sampled recording: the sampling interval by which the block was selected */
    uint64_t interval_bytes;
    /* true: the recorder's sampler selected the block, by bytes; false: the runtime's own sampler
     * selected it, by words */
    bool is_by_bytes;
};
void ag_record_reported_alloc(const struct ag_reported_block *block);
void ag_record_reported_free(uintptr_t address, uint32_t via);
/* Records that the runtime moved a block of ag_record_reported_alloc to an older generation. */
void ag_record_reported_promote(uintptr_t address, uint32_t via);
/* Reads back the last event of this thread, if it is an allocation of BYTES bytes; returns false if
 * it is not. For callers that learn the type of a block only after its allocation was recorded
 * (ag_record_block_type). */
struct ag_newest_alloc {
    uintptr_t address;
    uint32_t via;
    struct ag_block_site recorded;
};
bool ag_record_newest_alloc(size_t bytes, struct ag_newest_alloc *ret_newest);

/* Record that a runtime moved or promoted a block, or that the type of a block became known
 * (block_facts.c). If only some of the blocks are recorded (by sampling, or a filter), these events
 * are recorded only for those blocks. */
void ag_record_move(uintptr_t address, uintptr_t to, uint32_t via);
void ag_record_promote(uintptr_t address, uint32_t via);
/* recorded: the stack and interval that were recorded at the allocation; site: the site of the
 * block's type. */
void ag_record_block_type(uintptr_t address, uint32_t via, const struct ag_block_site *recorded,
                          size_t bytes, uint32_t site);
/* Records a reset: reports count only the events after this moment. */
void ag_record_reset(void);
/* Makes each thread write a stamp (a word with the time) before its next event. Called when a
 * garbage collection begins or ends. */
void ag_record_cut_windows(void);

/* The innermost frame of a stack: its pc, and the stack of its caller. Returns false if STACK has
 * no frames. This function and the next ones join walked frames with frames that a runtime reports
 * (joined_stacks.c). */
bool ag_stack_top(uint32_t stack, uintptr_t *ret_pc, uint32_t *ret_caller);
/* A number that changes when caches of nodes and sites become invalid: by another recording, a
 * forked child, or unloaded images. Never 0. */
uint32_t ag_stacks_recording(void);
/* Return the stack CALLER with one more frame, which CALLER's innermost frame called. The result is
 * AG_ROOT_NOT_KEPT if there is no memory for the node, or if CALLER is AG_ROOT_NOT_KEPT. The
 * address of ag_stack_push_data need not be code. */
uint32_t ag_stack_push(uint32_t caller, uintptr_t pc);
uint32_t ag_stack_push_data(uint32_t caller, uintptr_t address);

/* Returns the stack of the caller; AG_ROOT_INCOMPLETE in a signal handler that interrupted the
 * recording of an event, and while nothing is recorded. */
uint32_t ag_record_stack(const uintptr_t *sp, uintptr_t rbp);
/* Returns the outer part of the caller's stack, which CHOOSE selects. If all frames are native, no
 * nodes are made for the inner frames that CHOOSE leaves out. CHOOSE is not called if the stack
 * cannot be walked. */
uint32_t ag_record_stack_outer(const uintptr_t *sp, uintptr_t rbp, ag_walk_choose *choose,
                               void *context);

/* Record that the program mapped memory, with the caller's stack, or unmapped memory. Another
 * thread may get the addresses as soon as the kernel has unmapped them. So that readers see both
 * calls in their order, both records have an exact time; a map is recorded after the call of the
 * kernel, and an unmap before it. */
void ag_record_map(const uintptr_t *sp, uintptr_t rbp, uint32_t via, uintptr_t address,
                   size_t bytes, int protection, int flags);
void ag_record_unmap(uintptr_t address, size_t bytes);
/* Records an unmap after the call, whose result decides what is unmapped. VIA: the function that
 * was called; CALL_TIME_NS: the result of ag_record_call_time before the call. */
void ag_record_unmap_late(uint32_t via, uint64_t call_time_ns, uintptr_t address, size_t bytes);
uint64_t ag_record_call_time(void);

/* Records the size of a heap as its own allocator counts it. If a trace has several such records of
 * a heap, the last is valid. known: flags of enum ag_memory_known (records.h). Can be called from
 * any thread, but not from signal handlers. */
struct ag_held_memory {
    uint32_t heap, known;
    /* reserved_bytes: address space of the heap; committed_bytes: its usable part */
    uint64_t reserved_bytes, committed_bytes;
    uint64_t free_bytes;      /* committed and not in a block */
    uint64_t of_malloc_bytes; /* committed and obtained from malloc */
};
void ag_record_memory(const struct ag_held_memory *memory);

/* Between suspend and resume no event of this thread is recorded: for an adapter that calls
 * functions of the host which may switch stacks, and that records their effect itself. A nested
 * suspension has no further effect. ag_record_resume takes the result of ag_record_suspend. Must
 * not be used around code that may throw. Events of signal handlers are dropped as well; to record
 * them, use ag_record_suspend_call instead. */
uintptr_t ag_record_suspend(void);
void ag_record_resume(uintptr_t suspended);

/* Between ag_record_suspend_call and ag_record_resume_call, events are not recorded if they happen
 * in calls from the function whose frame contains MARK. That function calls the host and records
 * the effect itself. Events of signal handlers that interrupt the host's function are recorded. The
 * host may throw, leave by longjmp, or be cancelled. */
extern __thread ag_call_marks ag_suspended_calls __attribute__((tls_model("initial-exec")))
AG_HIDDEN;
void ag_record_suspend_call(struct ag_call_mark *mark);
void ag_record_resume_call(struct ag_call_mark *mark);
/* Whether a call with this stack pointer is made inside a call that ag_record_suspend_call
 * suspends. */
AG_FAST bool ag_record_is_suspended_call(uintptr_t sp) {
    return ag_call_is_inside(&ag_suspended_calls, sp);
}

/* Ends recording in this process, until another start. */
void ag_recorder_turn_off(void);

#endif
