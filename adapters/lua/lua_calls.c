/* lua_calls.c: counts the calls and the allocated words of each Lua function, per call path, for
 * `run --calls`.
 *
 * Lua's debug hook reports when a function is called and when one returns. The path of a call does
 * not depend on returns: a call points to its caller (ci->previous), and the caller's path was
 * noted when the caller was called. So errors, which leave functions without a return, and
 * coroutines, which leave and come back, are no special cases: each call is looked up by its
 * address, and its note is used only if the call still runs the same function. The adapter sets
 * the hook if the program has none. If the program sets its own hook later, calls are not counted
 * from then on. A program can notice the adapter's hook by debug.gethook, so calls are counted only
 * on request.
 *
 * Lua calls no hook inside finalizers (__gc). What functions allocate there is counted as words of
 * the function that runs (the CallInfo identifies it), but calls of functions are not counted.
 * Reports state this in the line about Lua (lua_adapter.c). */
#include "lua_calls.h"

#include <string.h>

#include "base/pages.h"
#include "embed/counters.h"
#include "lua_functions.h"

enum {
    HOOK_RETURN = 1,                       /* LUA_HOOKRET */
    HOOK_TAIL_CALL = 4,                    /* LUA_HOOKTAILCALL; in 5.1 LUA_HOOKTAILRET */
    HOOK_MASK = 1 << 0 | 1 << HOOK_RETURN, /* LUA_MASKCALL | LUA_MASKRET */
    FIRST_CALLS = 512,
};

bool ag_lua_calls_are_wanted;

/* ---- notes of calls ---- */

static struct ag_lua_known_call *place_in(struct ag_lua_known_call *calls, uint32_t capacity,
                                          const void *ci) {
    uint32_t slot = ag_lua_slot_of(ci, capacity);
    while (calls[slot].ci && calls[slot].ci != ci) {
        slot = (slot + 1) & (capacity - 1);
    }
    return &calls[slot];
}

static void drop_calls(struct ag_lua_state *state) {
    ag_pages_unmap(state->calls, state->calls_capacity * sizeof(*state->calls));
    state->calls = NULL;
    state->n_calls = state->calls_capacity = 0;
}

/* Afterwards at least half of the table is free; false: out of memory. */
static bool lua_calls_make_room(struct ag_lua_state *state) {
    if (state->n_calls * 2 < state->calls_capacity) {
        return true;
    }
    const uint32_t capacity = state->calls_capacity ? state->calls_capacity * 2 : FIRST_CALLS;
    struct ag_lua_known_call *calls = ag_pages_map(capacity * sizeof(*calls));
    if (!calls) {
        return false;
    }
    const uint32_t n_calls = state->n_calls;
    for (uint32_t i = 0; i < state->calls_capacity; i++) {
        if (state->calls[i].ci) {
            *place_in(calls, capacity, state->calls[i].ci) = state->calls[i];
        }
    }
    drop_calls(state);
    state->calls = calls;
    state->calls_capacity = capacity;
    state->n_calls = n_calls;
    return true;
}

static void lua_calls_note(struct ag_lua_state *state, const void *ci, const void *proto,
                           uint32_t node) {
    if (lua_calls_make_room(state)) {
        struct ag_lua_known_call *place = place_in(state->calls, state->calls_capacity, ci);
        state->n_calls += place->ci == NULL;
        *place = (struct ag_lua_known_call){ci, proto, node};
    }
}

/* Returns what identifies a call among the known calls: the address of its CallInfo. In 5.1 the
 * CallInfo structures are an array, which moves when it grows. There the key is made of the address
 * of the lua_State, which has less than 48 bits, and the index in the array, which is less than
 * 65,536. */
static const void *key_of(const lua_State *L, const void *ci) {
    if (AG_LIKELY(ag_lua.layout.ci_bytes == 0)) {
        return ci;
    }
    const uintptr_t index = (uintptr_t)ag_lua_call_index(L, ci);
    return (const void *)((uintptr_t)L << 16 | (index & 0xffff));
}

/* The path of the innermost Lua call from ci outward. A call that was not noted (the hook was not
 * set yet, or Lua did not call the hook, as in finalizers) counts as a call without a caller. */
static uint32_t node_of(struct ag_lua_state *state, lua_State *L, void *ci) {
    while (ci && ag_lua_call_is_c(L, ci)) {
        ci = ag_lua_caller(L, ci);
    }
    const void *proto = ci ? ag_lua_proto_of(L, ci) : NULL;
    if (!proto) {
        return 0;
    }
    if (state->calls) {
        const struct ag_lua_known_call *known =
            place_in(state->calls, state->calls_capacity, key_of(L, ci));
        if (known->ci && known->proto == proto) {
            return known->node;
        }
    }
    const uint32_t node =
        ag_counters_path(state->counters, /* parent= */ 0, ag_lua_function_of(state, proto, L, ci));
    lua_calls_note(state, key_of(L, ci), proto, node);
    return node;
}

/* The nodes (numbers of call paths) in the notes are valid in one recording and process only. */
static void forget_if_stale(struct ag_lua_state *state) {
    if (!ag_counters_are_current(state->counters)) {
        drop_calls(state);
    }
}

/* ---- the hook ---- */

/* Whether the hook is called for a tail call whose function has a CallInfo of its own now, but will
 * run in the CallInfo of its caller. 5.1 has no event for tail calls. */
static bool is_early_tail_call(const struct ag_lua_debug *debug, const lua_State *L,
                               const void *ci) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    if (layout->ci_bytes == 0) {
        return debug->event == HOOK_TAIL_CALL && layout->hooks_tail_calls_early;
    }
    const void *caller = ag_lua_caller(L, ci);
    return caller && !ag_lua_call_is_c(L, caller) &&
           ag_lua_op_of(ag_lua_saved_pc(L, caller)[-1]) == layout->op_tail_call;
}

static void on_call(lua_State *L, struct ag_lua_debug *debug) {
    struct ag_lua_state *state = ag_lua_state_of(L);
    if (!state || !state->counters) {
        return;
    }
    state->running = L;
    void *ci = ag_lua_debug_call(debug, L);
    if (debug->event == HOOK_RETURN || !ci || ag_lua_call_is_c(L, ci)) {
        return;
    }
    const void *proto = ag_lua_proto_of(L, ci);
    if (!proto) {
        return;
    }
    forget_if_stale(state);
    const allogram_function function = ag_lua_function_of(state, proto, L, ci);
    if (is_early_tail_call(debug, L, ci)) {
        ci = ag_lua_caller(L, ci); /* the function will run in this CallInfo */
    }
    const uint32_t parent = node_of(state, L, ag_lua_caller(L, ci));
    lua_calls_note(state, key_of(L, ci), proto,
                   ag_counters_call(state->counters, parent, function));
}

void ag_lua_calls_follow(lua_State *L) {
    static const struct allogram_counters_options options = {.size = sizeof(options),
                                                             .runtime = "lua"};
    struct ag_lua_state *state = ag_lua_state_of(L);
    if (!state) {
        return;
    }
    if (!state->counters) {
        state->counters = allogram_make_counters(&options);
    }
    state->running = L;
    if (state->counters && !ag_lua.api.lua_gethook(L)) {
        ag_lua.api.lua_sethook(L, on_call, HOOK_MASK, 0);
    }
}

void ag_lua_calls_allocated(struct ag_lua_state *state, size_t bytes) {
    enum { WORD_BYTES = 8 };
    lua_State *L = state->running;
    forget_if_stale(state);
    const uint32_t node = L ? node_of(state, L, ag_lua_pointer(L, ag_lua.layout.state_ci)) : 0;
    ag_counters_words(state->counters, node, (bytes + WORD_BYTES - 1) / WORD_BYTES);
}

void ag_lua_calls_freed(struct ag_lua_state *state, const void *block) {
    if ((const char *)block + ag_lua.layout.before_state == (const char *)state->running) {
        state->running = NULL;
    }
}

void ag_lua_calls_end(struct ag_lua_state *state) {
    if (state->counters) {
        allogram_free_counters(state->counters);
        state->counters = NULL;
    }
    state->running = NULL;
    drop_calls(state);
}
