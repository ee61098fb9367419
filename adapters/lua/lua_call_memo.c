/* lua_call_memo.c: remembers the Lua calls of a state between two walks of a thread's stack. So a
 * walk reads only the calls that may have changed. Without a memo, the cost of a block grows with
 * the number of its frames.
 *
 * 1. What is remembered. A call of Lua is a CallInfo, linked to its caller. A memo lists the calls
 * of Lua functions (not of C functions) of one lua_State, from the outermost to the innermost. For
 * each call the memo has the address, the function, the line, and the node of the call's stack
 * (struct ag_frame_run). The calls of one luaV_execute form a run (lua_stacks.c, section 1).
 *
 * 2. The mark. Lua reuses a CallInfo for each call at the same depth. So an unchanged address,
 * function and pc do not prove that the call is the same one, and that its callers have not moved
 * on: a caller may call the same function again from another line. Therefore the memo marks each
 * call that it remembers, by a bit of CallInfo.callstatus that Lua does not use. Every new call
 * begins with an assignment to callstatus, which removes the mark. This holds for calls after a
 * return, after an error, in coroutines, of finalizers and of hooks. A tail call keeps callstatus:
 * it replaces the function of its call, and the callers stay. So:
 *
 *     a call has the mark   ->   it is the call that was remembered at its address
 *
 * While a call is active its callers wait, and nothing changes their function or pc. So all calls
 * outside of a marked call are as they were when the marked call was remembered. The marked call
 * itself may have moved on, and is read again. In 5.3 it may also have become fresh (section 1 of
 * lua_stacks.c): luaV_execute marks a call as fresh when it begins to run the call, and again when
 * the call's coroutine is resumed.
 *
 * 3. A walk goes from the innermost call outward to the first marked one (`known`), looks up its
 * index, and replaces what is remembered from that index on. The lookup goes through the memo from
 * its end. It passes each returned call only once, because the call is then replaced.
 *
 *     remembered   main  parse  expression  term  factor  number
 *     calls now    main  parse  expression* term              * known: has the mark
 *     read again                expression  term
 *
 * The mark of L->ci, the innermost call, is not used: Lua 5.4.6 links a call before it assigns
 * callstatus, and a signal handler may walk the calls in between.
 *
 * 4. One memo per lua_State. Section 2 is true only if a mark and the memo that it belongs to are
 * written together. A lua_State may be used by several threads in turn, and each thread has memos
 * of its own. So each Lua state (global_State) knows the last thread that walked it
 * (state->last_walker), and a thread that is not the last one empties its memos of that state
 * first. Marks that remain in calls then mean nothing, because no memo has those calls. A memo that
 * is replaced, or that belongs to a closed state whose address is used again, does no harm either:
 * only active calls are compared, and a call is marked whenever it is remembered.
 *
 * 5. Lua 5.1 has no free bit in a CallInfo, so nothing is remembered there.
 *
 * 6. Bounds. The depth is the number of frames that a recorded stack may have. A memo has room for
 * CALLS_PER_DEPTH times the depth. If a state has more calls, the memo is emptied and filled with
 * the innermost calls only, CALLS_READ_PER_DEPTH times the depth. The memo is then partial. If
 * calls return and a partial memo would have fewer calls than the depth, the memo is filled again.
 * Between two fills the number of calls that begin or return is at least the depth, so the cost of
 * a fill is a constant per call. */
#include "lua_call_memo.h"

#include <string.h>

#include "base/pages.h"
#include "lua_functions.h"

enum {
    CALLS_PER_DEPTH = 4,
    CALLS_READ_PER_DEPTH = 2,
    SHALLOW = 12, /* up to so many calls are read as fast as they are remembered */
};

/* ---- calls ---- */

/* Counts the calls of Lua functions from the innermost outward, at most MOST. If ret_known is not
 * NULL, stops at the first marked call, which is not counted, and stores it in *ret_known. */
static uint32_t count_calls(const lua_State *L, uint32_t most, void **ret_known) {
    void *innermost = ag_lua_pointer(L, ag_lua.layout.state_ci);
    uint32_t n = 0;
    for (void *ci = innermost; ci && n < most; ci = ag_lua_caller(L, ci)) {
        const uint32_t status = ag_lua_call_status(ci);
        if (ag_lua_status_is_c(status)) {
            continue;
        }
        if (ret_known && ci != innermost && status & ag_lua.layout.call_mark) {
            *ret_known = ci;
            break;
        }
        n++;
    }
    return n;
}

static bool is_shallow(const lua_State *L) {
    const void *ci = ag_lua_pointer(L, ag_lua.layout.state_ci);
    for (uint32_t n = 0; ci && n < SHALLOW; n++) {
        ci = ag_lua_caller(L, ci);
    }
    return ci == NULL;
}

/* ---- memos ---- */

static void memo_unmap(struct ag_lua_call_memo *memo) {
    const size_t bytes = sizeof(*memo->calls) + sizeof(*memo->frames) + sizeof(*memo->runs);
    if (memo->calls) {
        ag_pages_unmap(memo->calls, memo->capacity * bytes);
    }
    memset(memo, 0, sizeof(*memo));
}

static bool memo_map(struct ag_lua_call_memo *memo) {
    const size_t bytes = sizeof(*memo->calls) + sizeof(*memo->frames) + sizeof(*memo->runs);
    const uint32_t capacity = ag_recorder.depth * CALLS_PER_DEPTH;
    memo->calls = ag_pages_map(capacity * bytes); /* pages never used take no memory */
    if (!memo->calls) {
        return false;
    }
    memo->frames = (struct ag_run_frame *)(memo->calls + capacity);
    memo->runs = (struct ag_frame_run *)(memo->frames + capacity);
    memo->capacity = capacity;
    return true;
}

static void memo_clear(struct ag_lua_call_memo *memo) {
    memo->n_calls = memo->n_runs = 0;
    memo->is_partial = memo->has_unknown = false;
}

/* Makes the memo an empty memo of L. Returns false if there is no memory. */
static bool memo_begin(struct ag_lua_call_memo *memo, const struct ag_lua_state *state,
                       const lua_State *L, uint32_t recording) {
    if (memo->capacity < ag_recorder.depth * CALLS_PER_DEPTH || memo->recording != recording) {
        memo_unmap(memo); /* also drops the sites and nodes of another recording */
        if (!memo_map(memo)) {
            return false;
        }
    }
    memo_clear(memo);
    memo->L = L;
    memo->state = state;
    memo->recording = recording;
    return true;
}

static struct ag_lua_call_memo *memo_of(struct ag_lua_call_memos *memos,
                                        const struct ag_lua_state *state, const lua_State *L) {
    struct ag_lua_call_memo *memo = NULL;
    for (uint32_t i = 0; i < AG_LUA_MEMOS && !memo; i++) {
        memo = memos->memos[i].L == L && memos->memos[i].state == state ? &memos->memos[i] : NULL;
    }
    for (uint32_t i = 0; i < AG_LUA_MEMOS && !memo; i++) {
        struct ag_lua_call_memo *next = &memos->memos[memos->next++ % AG_LUA_MEMOS];
        memo = next->is_used ? NULL : next;
    }
    const uint32_t recording = ag_stacks_recording();
    if (!memo || (memo->L == L && memo->state == state && memo->recording == recording)) {
        return memo;
    }
    return memo_begin(memo, state, L, recording) ? memo : NULL;
}

/* Makes the thread that owns MEMOS the last walker of the state (section 4 above). */
static void be_last_walker(struct ag_lua_call_memos *memos, struct ag_lua_state *state) {
    if (AG_LIKELY(atomic_load_explicit(&state->last_walker, memory_order_relaxed) == memos)) {
        return;
    }
    for (uint32_t i = 0; i < AG_LUA_MEMOS; i++) {
        if (memos->memos[i].state == state) {
            memo_clear(&memos->memos[i]);
        }
    }
    atomic_store_explicit(&state->last_walker, memos, memory_order_relaxed);
}

void ag_lua_call_memos_release(struct ag_lua_call_memos *memos) {
    for (uint32_t i = 0; i < AG_LUA_MEMOS; i++) {
        memos->memos[i].is_used = false;
    }
}

/* ---- a walk ---- */

/* Replaces the calls from index FIRST on by the N innermost calls of L. Runs and frames that do not
 * change keep their stack nodes. */
static void memo_replace(struct ag_lua_call_memo *memo, struct ag_lua_state *state, lua_State *L,
                         uint32_t first, uint32_t n) {
    void *ci = ag_lua_pointer(L, ag_lua.layout.state_ci);
    for (uint32_t i = first + n; i > first; ci = ag_lua_caller(L, ci)) {
        if (!ag_lua_call_is_c(L, ci)) {
            memo->calls[--i] = ci;
        }
    }
    const uint32_t n_old_runs = memo->n_runs;
    while (memo->n_runs > 0 && memo->runs[memo->n_runs - 1].frames >= memo->frames + first) {
        memo->n_runs--;
    }
    struct ag_frame_run *run = memo->n_runs > 0 ? &memo->runs[memo->n_runs - 1] : NULL;
    uint32_t in_run = run ? (uint32_t)(memo->frames + first - run->frames) : 0;
    for (uint32_t i = first; i < first + n; i++) {
        ci = memo->calls[i];
        if (!run || ag_lua_call_is_fresh(L, ci)) {
            if (run) {
                run->n = in_run;
                run->n_known = run->n_known < in_run ? run->n_known : in_run;
            }
            run = &memo->runs[memo->n_runs++];
            if (memo->n_runs > n_old_runs || run->frames != memo->frames + i) {
                *run = (struct ag_frame_run){.frames = memo->frames + i};
            }
            in_run = 0;
        }
        const bool is_innermost = i + 1 == first + n || ag_lua_call_is_fresh(L, memo->calls[i + 1]);
        /* A call that waits for its callee has saved its pc. If Lua saves every pc, the innermost
         * call is set too, because its run may not be reported: 5.2 and 5.3 prepare a call, and may
         * allocate, before the call's status says whether it is fresh. */
        if (!is_innermost || !ag_lua.layout.keeps_pc_in_variable) {
            const struct ag_lua_place place = ag_lua_place_of(state, L, ci, /* end= */ 0);
            ag_run_set(run, in_run, place.function, place.line);
            memo->has_unknown |= place.function == 0;
        }
        in_run++;
        ag_lua_call_mark(ci);
    }
    if (run) {
        run->n = in_run;
        run->n_known = run->n_known < in_run ? run->n_known : in_run;
    }
    memo->n_calls = first + n;
}

struct ag_lua_call_memo *ag_lua_calls_recall(struct ag_lua_call_memos *memos,
                                             struct ag_lua_state *state, lua_State *L) {
    const uint32_t depth = ag_recorder.depth;
    if (ag_lua.layout.ci_bytes != 0) {
        return NULL; /* 5.1: a CallInfo has no free bit for a mark */
    }
    if (is_shallow(L)) {
        return NULL; /* what is remembered of L stays as it is */
    }
    be_last_walker(memos, state);
    struct ag_lua_call_memo *memo = memo_of(memos, state, L);
    if (!memo) {
        return NULL;
    }
    memo->is_used = true;
    if (memo->has_unknown) {
        memo_clear(memo);
    }
    const uint32_t most = depth * CALLS_READ_PER_DEPTH;
    void *known = NULL;
    uint32_t first = memo->n_calls;
    uint32_t n = count_calls(L, memo->capacity, first > 0 ? &known : NULL);
    while (first > 0 && memo->calls[first - 1] != known) {
        first--;
    }
    bool is_found = false;
    if (first > 0) { /* the index of the marked call, which is read again */
        first--;
        n++;
        is_found = first + n <= memo->capacity && (!memo->is_partial || first + n >= depth);
    }
    if (!is_found) {
        first = 0;
        if (known || n >= most) {
            memo_clear(memo);
            n = count_calls(L, most, NULL);
        }
        memo->is_partial = n == most;
    }
    memo_replace(memo, state, L, first, n);
    return memo;
}

void ag_lua_run_settle(struct ag_lua_call_memo *memo, struct ag_lua_state *state, uint32_t run,
                       uintptr_t end) {
    struct ag_frame_run *settled = &memo->runs[run];
    const uint32_t last = settled->n - 1;
    void *ci = memo->calls[settled->frames + last - memo->frames];
    /* lua_getinfo takes an L that is not const, and does not change it */
    const struct ag_lua_place place = ag_lua_place_of(state, (lua_State *)memo->L, ci, end);
    ag_run_set(settled, last, place.function, place.line);
    memo->has_unknown |= place.function == 0;
}
