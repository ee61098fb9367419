/* lua_stacks.c: adds the frames of Lua functions to the recorded stacks, between the native frames.
 *
 * 1. The native frames that run Lua. luaV_execute is Lua's interpreter. When a Lua function calls
 * another, both run in the same call of luaV_execute, so one native frame of luaV_execute stands
 * for a run of Lua calls. The run goes from its innermost call outward to the call that Lua marked
 * as fresh, for which luaV_execute was called. A C function has a native frame of its own. So the
 * n-th frame of luaV_execute belongs to the n-th run of its state. When C code begins a call,
 * Lua marks the call as fresh only when luaV_execute is called for it. (Before that, Lua 5.3 calls
 * the program's hook for calls.) Until then the call is reported with the run of its callers.
 *
 *     native          calls of L
 *       f (C)           f
 *       luaV_execute    g  h  main(fresh)      <- in this order inside the native frame
 *       lua_pcallk
 *       main of the program
 *
 * 2. The state of a run. Lua code is run through a few functions of the API. The detour of each of
 * these functions (lua_entry.S) notes the state L that the function was called with, and the
 * address where the function's frame ends. A note is looked up only when a frame of such a function
 * is on the stack, and the newest note with the frame's address belongs to that call. So notes of
 * calls that returned, or were left by an error, need not be removed.
 *
 * 3. Coroutines. Each coroutine has calls of its own. Where lua_resume is on the native stack, the
 * calls of one coroutine end, and the walk continues with those of its resumer. A coroutine that
 * yielded and was resumed has lost its earlier native frames. The calls that had those frames are
 * reported with the outermost luaV_execute of the coroutine.
 *
 * 4. Stacks that move. While Lua reallocates the stack of a state, the state's calls point to the
 * old stack, and cannot be read. (Lua 5.4.4 allocates the new stack before it frees the old one, so
 * there the calls can always be read.) So the frames are read before the move (ag_lua_stacks_keep),
 * and each walk during the move gets these frames. A walk happens during the move if its stack
 * contains the native call that moves the Lua stack. A flag would not be enough: a callback that
 * the program registered by allogram.h may leave that call by longjmp, and the flag would stay set.
 * If such a callback allocates in another Lua state, the block gets the kept frames, of the state
 * whose stack moves.
 *
 * 5. Depth. The calls of each state are remembered between walks (lua_call_memo.c), so a walk reads
 * only those that may have changed. A walk in a signal handler that interrupted another walk of its
 * thread reads all calls and remembers nothing.
 *
 * 6. Registers. A note is written when certain functions of Lua are entered, whose callers may rely
 * on any register being unchanged. So this file is compiled for general registers only. */
#include "lua_stacks.h"

#include <stdatomic.h>
#include <string.h>

#include "base/pages.h"
#include "base/vector_state.h"
#include "lua_call_memo.h"
#include "lua_calls.h"
#include "lua_functions.h"
#include "lua_pcs.h"
#include "record/managed_frames.h"
#include "record/pc_classes.h"
#include "record/self_check.h"
#include "record/thread_state.h"
#include "unwind/unwind_space.h"

enum {
    NOTES = 256, /* Lua allows 200 nested calls of C (LUAI_MAXCCALLS) */
    NOTES_TRIED = 8,
    KEPT_MOST = 256,
    RUNS_MOST = 256,
    STATES_MOST = 8, /* coroutines and states with active calls on one stack */
    THREAD_BYTES = 12 * 1024,
};

struct note {
    uintptr_t cfa; /* canonical frame address: where the frame ends; 0: free */
    lua_State *L;
};
struct lua_thread { /* One per thread that runs Lua; that of a dead thread is reused. */
    struct lua_thread *next;
    _Atomic uint64_t owner;  /* ag_thread_self */
    uint32_t process_number; /* ag_recorder.process_number of the process that made it */
    bool is_keeping;         /* the frames of the current walk are to be kept */
    uint32_t n_kept;
    uintptr_t kept_sp, kept_pc; /* the allocator call that the frames are kept for: its sp after
                                 * the call (0: no frames are kept), and its return address */
    /* the native frames of the walk that uses `memos`; NULL: no walk uses them */
    const struct ag_walked_frame *walked;
    struct ag_lua_call_memos memos;
    struct note notes[NOTES];
    struct ag_managed_frame kept[KEPT_MOST];
};
_Static_assert(sizeof(struct lua_thread) <= THREAD_BYTES, "THREAD_BYTES is enough for a thread");

static struct lua_thread *_Atomic newest;
static __thread struct lua_thread *current __attribute__((tls_model("initial-exec")));

/* ---- threads ---- */

static struct lua_thread *inherit(uint64_t self) {
    struct lua_thread *thread = atomic_load_explicit(&newest, memory_order_acquire);
    for (; thread; thread = thread->next) {
        uint64_t owner = atomic_load_explicit(&thread->owner, memory_order_relaxed);
        if (thread->process_number == ag_recorder.process_number && owner != self &&
            ag_thread_is_gone(owner, self) &&
            atomic_compare_exchange_strong_explicit(&thread->owner, &owner, self,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            memset(thread->notes, 0, sizeof(thread->notes));
            thread->kept_sp = 0;
            thread->is_keeping = false;
            thread->walked = NULL;
            ag_lua_call_memos_release(&thread->memos);
            return thread;
        }
    }
    return NULL;
}

static struct lua_thread *map_thread(uint64_t self) {
    struct lua_thread *thread = ag_pages_map(THREAD_BYTES);
    if (!thread) {
        return NULL;
    }
    atomic_store_explicit(&thread->owner, self, memory_order_relaxed);
    thread->process_number = ag_recorder.process_number;
    struct lua_thread *head = atomic_load_explicit(&newest, memory_order_relaxed);
    do {
        thread->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&newest, &head, thread, memory_order_release,
                                                    memory_order_relaxed));
    return thread;
}

static ag_frame_source_fn lua_stacks_walk;
static void lua_stacks_end_walk(void *context, const struct ag_walked_frame *natives);

AG_COLD static struct lua_thread *begin_thread(void) {
    const struct ag_frame_source source = {.walk = lua_stacks_walk,
                                           .end_walk = lua_stacks_end_walk};
    const uint64_t self = ag_thread_self();
    struct lua_thread *thread = inherit(self);
    if (!thread) {
        thread = map_thread(self);
    }
    current = thread;
    if (thread) {
        (void)ag_frame_source_set(&newest, &source); /* table full: the thread's stacks are native
                                                      * only */
    }
    return thread;
}

/* ---- notes ---- */

static uint32_t place_of(uintptr_t cfa) {
    return (uint32_t)((uint64_t)cfa * UINT64_C(0x9e3779b97f4a7c15) >> 56);
}

/* Stores a note in one of its NOTES_TRIED places: that of an older note with this cfa, else a free
 * one, else that of the note with the lowest cfa, whose call is the innermost and most likely has
 * returned. */
static void note_entry(lua_State *L, uintptr_t cfa) {
    struct lua_thread *thread = AG_LIKELY(current != NULL) ? current : begin_thread();
    const uint32_t first = place_of(cfa);
    struct note *chosen = NULL;
    for (uint32_t i = 0; thread && i < NOTES_TRIED; i++) {
        struct note *note = &thread->notes[(first + i) % NOTES];
        if (note->cfa == cfa) {
            note->L = L;
            return;
        }
        if (!chosen || note->cfa < chosen->cfa) { /* a free note has the lowest cfa, 0 */
            chosen = note;
        }
    }
    if (chosen) {
        chosen->cfa = 0;
        atomic_signal_fence(memory_order_seq_cst); /* a handler finds a complete note or none */
        chosen->L = L;
        atomic_signal_fence(memory_order_seq_cst);
        chosen->cfa = cfa;
    }
}

static void follow_calls(void *L) {
    ag_lua_calls_follow(L);
}

void *ag_lua_originals[AG_LUA_ENTRIES];

void ag_lua_entered(struct ag_kept_call *call) {
    lua_State *L = (lua_State *)call->arguments[0];
    if (AG_UNLIKELY(ag_lua_calls_are_wanted)) {
        ag_call_keeping_vectors(follow_calls, L);
    }
    note_entry(L, (uintptr_t)(&call->return_address + 1));
    call->original = (uintptr_t)ag_lua_originals[call->datum];
}

static lua_State *state_noted(const struct lua_thread *thread, uintptr_t cfa) {
    const uint32_t first = place_of(cfa);
    for (uint32_t i = 0; i < NOTES_TRIED; i++) {
        const struct note *note = &thread->notes[(first + i) % NOTES];
        if (note->cfa == cfa) {
            return note->L;
        }
    }
    return NULL;
}

/* ---- classifying native frames ---- */

enum frame_class { /* FRAME_ENTRY + n: the function of row n of lua_entries.def */
                   FRAME_UNKNOWN,
                   FRAME_OTHER,
                   FRAME_EXECUTES,
                   FRAME_ENTRY
};
_Static_assert(FRAME_ENTRY + AG_LUA_ENTRIES <= 1 << AG_PC_CLASS_BITS,
               "AG_PC_CLASS_BITS is enough for all classes");
static struct ag_pc_classes classes;

static uint32_t find_class(uintptr_t pc) {
    const uintptr_t function = ag_lua_function_at(pc);
    if (function == 0 || function == ag_lua.execute) {
        return function ? FRAME_EXECUTES : FRAME_OTHER;
    }
    for (uint32_t i = 0; i < AG_LUA_ENTRIES; i++) {
        if (ag_lua.entries[i] == function) {
            return FRAME_ENTRY + i;
        }
    }
    return FRAME_OTHER;
}

/* ---- the walk ---- */

struct cursor { /* the next call of L to be reported */
    lua_State *L;
    struct ag_lua_call_memo *memo; /* NULL: the calls are read one by one */
    uint32_t n_runs;               /* runs of the memo that are not reported yet */
    void *ci;                      /* without a memo: the next call; NULL: all are reported */
};
struct reporting {
    struct lua_thread *thread;
    struct ag_managed_frame *frames;
    struct ag_frame_run **in_runs; /* as in ag_frame_source_fn; NULL: do not report runs */
    uint32_t n, most;
    uint32_t n_in_runs; /* number of frames in all reported runs */
    struct cursor cursors[STATES_MOST];
    uint32_t n_cursors;
    uint32_t runs[RUNS_MOST]; /* native frames of luaV_execute that are not reported yet */
    uint32_t n_runs;
};

/* The cursor of L; a new one begins at the innermost call. NULL: there are too many states on the
 * stack. */
static struct cursor *cursor_of(struct reporting *reporting, struct ag_lua_state *state,
                                lua_State *L) {
    for (uint32_t i = 0; i < reporting->n_cursors; i++) {
        if (reporting->cursors[i].L == L) {
            return &reporting->cursors[i];
        }
    }
    if (reporting->n_cursors == STATES_MOST) {
        return NULL;
    }
    struct cursor *made = &reporting->cursors[reporting->n_cursors++];
    *made = (struct cursor){.L = L};
    if (reporting->in_runs) {
        made->memo = ag_lua_calls_recall(&reporting->thread->memos, state, L);
    }
    if (made->memo) {
        made->n_runs = made->memo->n_runs;
    } else {
        made->ci = ag_lua_pointer(L, ag_lua.layout.state_ci);
    }
    return made;
}

static bool has_room(const struct reporting *reporting) {
    return reporting->n < reporting->most && reporting->n_in_runs < reporting->most;
}

/* Reports the next run of Lua calls, for the native frame at POSITION. END: the end of the
 * instruction that the innermost call executes, see lua_pcs.h; 0: the pc that Lua saved in the call
 * is used. */
static void report_run(struct reporting *reporting, struct ag_lua_state *state,
                       struct cursor *cursor, uintptr_t position, uintptr_t end) {
    void *ci = cursor->ci;
    if (cursor->n_runs > 0 && has_room(reporting)) {
        const uint32_t run = --cursor->n_runs;
        ag_lua_run_settle(cursor->memo, state, run, end);
        reporting->in_runs[reporting->n] = &cursor->memo->runs[run];
        reporting->n_in_runs += cursor->memo->runs[run].n;
        reporting->frames[reporting->n++] = (struct ag_managed_frame){.position = position};
    }
    bool is_fresh = false;
    for (; ci && !is_fresh && reporting->n < reporting->most; ci = ag_lua_caller(cursor->L, ci)) {
        if (ag_lua_call_is_c(cursor->L, ci)) {
            continue;
        }
        const struct ag_lua_place place = ag_lua_place_of(state, cursor->L, ci, end);
        end = 0; /* a call that called another has saved its pc */
        reporting->frames[reporting->n++] = (struct ag_managed_frame){
            .function = place.function, .line = place.line, .position = position};
        is_fresh = ag_lua_call_is_fresh(cursor->L, ci);
    }
    cursor->ci = ci;
}

/* natives[entry] belongs to an API function that was called with L: reports the Lua calls that ran
 * inside of it. */
static void report_entry(struct reporting *reporting, lua_State *L, bool is_base,
                         const struct ag_walked_frame *natives, uint32_t entry) {
    struct ag_lua_state *state = ag_lua_state_of(L);
    struct cursor *cursor = state ? cursor_of(reporting, state, L) : NULL;
    uintptr_t position = natives[entry].sp;
    for (uint32_t i = 0; cursor && i < reporting->n_runs; i++) {
        const uint32_t run = reporting->runs[i];
        position = natives[run].sp;
        report_run(reporting, state, cursor, position, ag_lua_end_at(natives, run));
    }
    while (cursor && is_base && (cursor->ci || cursor->n_runs > 0) && has_room(reporting)) {
        report_run(reporting, state, cursor, position, /* end= */ 0);
    }
}

/* ret_runs: NULL: reports all frames one by one. */
static uint32_t report_all(struct lua_thread *thread, const struct ag_walked_frame *natives,
                           uint32_t n_natives, struct ag_managed_frame *ret_frames,
                           struct ag_frame_run **ret_runs, uint32_t most) {
    static const bool is_base[] = {
#define AG_LUA_ENTRY(name, is_base) is_base,
#include "lua_entries.def"
#undef AG_LUA_ENTRY
    };
    struct reporting reporting; /* a kilobyte, most of which is never touched */
    reporting.thread = thread;
    reporting.frames = ret_frames;
    reporting.in_runs = ret_runs;
    reporting.most = most;
    reporting.n = reporting.n_in_runs = reporting.n_cursors = reporting.n_runs = 0;
    ag_pc_classes_clear_stale(&classes, ag_lua_pcs_forget_rules);
    for (uint32_t i = 0; i + 1 < n_natives; i++) {
        const uint32_t class = ag_pc_classes_get(&classes, natives[i].pc, find_class);
        if (class == FRAME_EXECUTES && reporting.n_runs < RUNS_MOST) {
            reporting.runs[reporting.n_runs++] = i;
        } else if (class >= FRAME_ENTRY) {
            lua_State *L = state_noted(thread, natives[i + 1].sp);
            if (L) {
                report_entry(&reporting, L, is_base[class - FRAME_ENTRY], natives, i);
            }
            reporting.n_runs = 0;
        }
    }
    return reporting.n;
}

/* Whether the allocator call whose frames are kept is on this stack. */
static bool are_kept(const struct lua_thread *thread, const struct ag_walked_frame *natives,
                     uint32_t n_natives) {
    for (uint32_t i = 0; i < n_natives && thread->kept_sp != 0; i++) {
        if (natives[i].sp == thread->kept_sp && natives[i].pc == thread->kept_pc) {
            return true;
        }
    }
    return false;
}

/* Each of the N items is a run of frames (runs[i]) or, if runs[i] is NULL, the single frame
 * frames[i]. Lists all these frames one by one. */
static uint32_t spread(const struct ag_managed_frame *frames, struct ag_frame_run *const *runs,
                       uint32_t n, struct ag_managed_frame *ret_frames, uint32_t most) {
    uint32_t at = 0;
    for (uint32_t item = 0; item < n; item++) {
        if (!runs[item] && at < most) {
            ret_frames[at++] = frames[item];
        }
        for (uint32_t i = runs[item] ? runs[item]->n : 0; i > 0 && at < most; i--) {
            const struct ag_run_frame *frame = &runs[item]->frames[i - 1];
            ret_frames[at++] = (struct ag_managed_frame){.function = frame->function,
                                                         .line = frame->line,
                                                         .position = frames[item].position};
        }
    }
    return at;
}

/* In the debug mode of record/self_check.h: compares the remembered frames with frames that are
 * read without the memo. */
AG_COLD static void check_runs(struct lua_thread *thread, const struct ag_walked_frame *natives,
                               uint32_t n_natives, const struct ag_managed_frame *frames,
                               struct ag_frame_run *const *runs, uint32_t n, uint32_t most) {
    const size_t bytes = 2 * most * sizeof(*frames);
    struct ag_managed_frame *remembered = ag_pages_map(bytes);
    if (remembered) {
        struct ag_managed_frame *read = remembered + most;
        const uint32_t n_remembered = spread(frames, runs, n, remembered, most);
        const uint32_t n_read = report_all(thread, natives, n_natives, read, NULL, most);
        bool is_same = n_remembered == n_read;
        for (uint32_t i = 0; i < n_read && is_same; i++) {
            is_same = remembered[i].function == read[i].function &&
                      remembered[i].line == read[i].line &&
                      remembered[i].position == read[i].position;
        }
        ag_self_check_count(is_same);
        ag_pages_unmap(remembered, bytes);
    }
}

static uint32_t lua_stacks_walk(void *context, const struct ag_walked_frame *natives,
                                uint32_t n_natives, struct ag_managed_frame *ret_frames,
                                struct ag_frame_run **ret_runs, uint32_t most) {
    struct lua_thread *thread = current;
    (void)context;
    if (!thread) {
        return 0;
    }
    if (are_kept(thread, natives, n_natives)) {
        const uint32_t n = thread->n_kept < most ? thread->n_kept : most;
        memcpy(ret_frames, thread->kept, n * sizeof(*ret_frames));
        return n;
    }
    const bool is_nested = thread->walked && thread->walked != natives;
    if (!is_nested) { /* else a signal handler interrupted the walk that uses the memos */
        thread->walked = natives;
        atomic_signal_fence(memory_order_seq_cst);
    }
    const uint32_t n =
        report_all(thread, natives, n_natives, ret_frames, is_nested ? NULL : ret_runs, most);
    if (AG_UNLIKELY(!is_nested && ag_self_check_is_on())) {
        check_runs(thread, natives, n_natives, ret_frames, ret_runs, n, most);
    }
    if (thread->is_keeping) {
        thread->n_kept = spread(ret_frames, ret_runs, n, thread->kept, KEPT_MOST);
        thread->kept_sp = natives[0].sp;
        thread->kept_pc = natives[0].pc;
    }
    return n;
}

static void lua_stacks_end_walk(void *context, const struct ag_walked_frame *natives) {
    struct lua_thread *thread = current;
    (void)context;
    if (thread && thread->walked == natives) {
        ag_lua_call_memos_release(&thread->memos);
        atomic_signal_fence(memory_order_seq_cst);
        thread->walked = NULL;
    }
}

void ag_lua_stacks_keep(const struct ag_host_caller *caller) {
    struct lua_thread *thread = current;
    if (thread && ag_recorder_is_active()) {
        ag_lua_stacks_let_go(caller); /* of an earlier call, which ended by longjmp */
        thread->is_keeping = true;
        (void)ag_record_stack(caller->sp, caller->rbp);
        thread->is_keeping = false;
    }
}

void ag_lua_stacks_let_go(const struct ag_host_caller *caller) {
    if (current && current->kept_sp == (uintptr_t)(caller->sp + 1)) {
        current->kept_sp = 0;
    }
}
