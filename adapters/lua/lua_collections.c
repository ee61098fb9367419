/* lua_collections.c: records the collections of Lua's garbage collector, by detours of luaC_step
 * and luaC_fullgc.
 *
 * Lua's collector works in steps, each after the program has allocated some more. A recorded
 * collection is a whole cycle of steps. The collection begins with the first step, its cause is the
 * caller of the first step, and its pause is the sum of the durations of its steps. Full
 * collections, and collections of the generational mode, run in one step. */
#include "lua_collections.h"

#include "embed/host_events.h"
#include "hook/kept_call.h"
#include "lua_states.h"
#include "record/recorder.h"

void *ag_lua_step_original;
void *ag_lua_full_original;

static struct ag_host_collection lua_collection_begin(const void *global, const uintptr_t *frame) {
    return (struct ag_host_collection){.start_raw = ag_host_elapsed_raw(),
                                       .heap_before_bytes = (uint64_t)ag_lua_total_bytes(global),
                                       .stack = ag_record_stack(frame + 1, *frame)};
}

static void lua_collection_end(struct ag_host_collection *collection, const void *global) {
    collection->end_raw = ag_host_elapsed_raw();
    collection->heap_after_bytes = (uint64_t)ag_lua_total_bytes(global);
}

/* Adds a step to the current cycle, or begins a cycle with the step if no cycle runs or if
 * BEGAN_HERE (the collector was at the start of a cycle before the step). */
static void add_step(struct ag_lua_state *state, const struct ag_host_collection *step,
                     const void *global, bool began_here) {
    struct ag_host_collection *cycle = &state->cycle;
    const uint64_t pause_raw = step->end_raw - step->start_raw;
    if (began_here || cycle->start_raw == 0) {
        *cycle = *step;
    } else {
        cycle->end_raw += pause_raw; /* the end is the start plus the sum of the pauses */
        cycle->heap_after_bytes = step->heap_after_bytes;
    }
    if (ag_lua_gc_pauses(global)) {
        ag_host_report_collection(ag_lua_heap, cycle, "incremental");
        cycle->start_raw = 0;
    }
}

void ag_lua_step(lua_State *L) {
    void (*original)(lua_State *) = (void (*)(lua_State *))(uintptr_t)ag_lua_step_original;
    const void *global = ag_lua_pointer(L, ag_lua.layout.state_global);
    struct ag_lua_state *state = ag_lua_state_of(L);
    if (!state || !ag_recorder_is_active() || ag_lua_gc_is_stopped(global)) {
        original(L);
        return;
    }
    const uint16_t kind = ag_lua.layout.global_gc_kind;
    const bool is_generational = kind != 0 && ag_lua_byte(global, kind) != 0;
    const bool begins = ag_lua_gc_pauses(global);
    struct ag_host_collection step = lua_collection_begin(global, AG_KEPT_FRAME());
    original(L);
    lua_collection_end(&step, global);
    if (is_generational) {
        ag_host_report_collection(ag_lua_heap, &step, "generational");
    } else {
        add_step(state, &step, global, begins);
    }
}

void ag_lua_full(lua_State *L, int is_emergency) {
    void (*original)(lua_State *, int) =
        (void (*)(lua_State *, int))(uintptr_t)ag_lua_full_original;
    const void *global = ag_lua_pointer(L, ag_lua.layout.state_global);
    struct ag_lua_state *state = ag_lua_state_of(L);
    if (!state || !ag_recorder_is_active()) {
        original(L, is_emergency);
        return;
    }
    is_emergency = is_emergency && ag_lua.layout.knows_emergency; /* 5.1 passes no argument */
    struct ag_host_collection full = lua_collection_begin(global, AG_KEPT_FRAME());
    original(L, is_emergency);
    lua_collection_end(&full, global);
    state->cycle.start_raw = 0; /* a full collection has ended the cycle that ran */
    ag_host_report_collection(ag_lua_heap, &full, is_emergency ? "emergency" : "full");
}
