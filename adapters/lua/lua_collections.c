/* lua_collections.c: see lua_collections.h.
 *
 * Lua's collector works in steps, each when the program has allocated some more. A collection is a
 * whole cycle of them: it began when its first step did, who caused that is its cause, and its
 * pause is what all its steps took together. Full collections, and those of the generational mode,
 * are done in one go. */
#include "lua_collections.h"

#include <string.h>

#include "base/raw_syscall.h"
#include "lua_states.h"
#include "record/raw_clock.h"
#include "record/recorder.h"

void *ag_lua_step_original;
void *ag_lua_full_original;

struct collection {
    uint64_t start_raw, pause_raw;
    int64_t before_bytes;
    uint32_t stack;
};

static uint64_t now_raw(void) {
    const struct ag_segment_header *header = ag_recorder.header;
    return ag_raw_clock(header->clock_kind) - header->clock_origin;
}

static void tell(const struct collection *collection, const void *global, const char *kind) {
    enum { ENDED = 1, HEAP_KNOWN = 2 }; /* of the gc record */
    static const char runtime[] = "lua";
    const struct ag_wide_gc fields = {
        .start_raw = collection->start_raw,
        .end_raw = collection->start_raw + collection->pause_raw,
        .heap_before_bytes = (uint64_t)collection->before_bytes,
        .heap_after_bytes = (uint64_t)ag_lua_total_bytes(global),
        .known = ENDED | HEAP_KNOWN,
        .stack = collection->stack,
        .thread_id = (uint32_t)ag_syscall1(SYS_gettid, 0),
        .runtime_bytes = sizeof(runtime) - 1,
        .kind_bytes = (uint16_t)strlen(kind),
    };
    const struct ag_wide_part parts[] = {
        {&fields, sizeof(fields)}, {runtime, fields.runtime_bytes}, {kind, fields.kind_bytes}};
    ag_record_wide(AG_WIDE_GC, parts, AG_ARRAY_SIZE(parts));
}

static struct collection begin(const void *global, const uintptr_t *frame) {
    return (struct collection){.start_raw = now_raw(),
                               .before_bytes = ag_lua_total_bytes(global),
                               .stack = ag_record_stack(frame + 1, *frame)};
}

/* One more step of the cycle that runs; or the first, where none did. */
static void add_step(struct ag_lua_state *state, const struct collection *step, const void *global,
                     bool began_here) {
    if (began_here || state->cycle_start_raw == 0) {
        state->cycle_start_raw = step->start_raw;
        state->cycle_before_bytes = step->before_bytes;
        state->cycle_stack = step->stack;
        state->cycle_pause_raw = 0;
    }
    state->cycle_pause_raw += step->pause_raw;
    if (ag_lua_byte(global, ag_lua.release->global_gc_state) == AG_LUA_GC_PAUSE) {
        const struct collection cycle = {.start_raw = state->cycle_start_raw,
                                         .pause_raw = state->cycle_pause_raw,
                                         .before_bytes = state->cycle_before_bytes,
                                         .stack = state->cycle_stack};
        tell(&cycle, global, "incremental");
        state->cycle_start_raw = 0;
    }
}

void ag_lua_step(lua_State *L) {
    void (*original)(lua_State *) = (void (*)(lua_State *))(uintptr_t)ag_lua_step_original;
    const void *global = ag_lua_pointer(L, ag_lua.release->state_global);
    struct ag_lua_state *state = ag_lua_state_of(L);
    if (!state || !ag_recorder_is_active() ||
        ag_lua_byte(global, ag_lua.release->global_gc_stopped) != 0) {
        original(L);
        return;
    }
    const bool is_generational = ag_lua_byte(global, ag_lua.release->global_gc_kind) != 0;
    const bool begins = ag_lua_byte(global, ag_lua.release->global_gc_state) == AG_LUA_GC_PAUSE;
    struct collection step = begin(global, __builtin_frame_address(0));
    original(L);
    step.pause_raw = now_raw() - step.start_raw;
    if (is_generational) {
        tell(&step, global, "generational");
    } else {
        add_step(state, &step, global, begins);
    }
}

void ag_lua_full(lua_State *L, int is_emergency) {
    void (*original)(lua_State *, int) =
        (void (*)(lua_State *, int))(uintptr_t)ag_lua_full_original;
    const void *global = ag_lua_pointer(L, ag_lua.release->state_global);
    struct ag_lua_state *state = ag_lua_state_of(L);
    if (!state || !ag_recorder_is_active()) {
        original(L, is_emergency);
        return;
    }
    struct collection full = begin(global, __builtin_frame_address(0));
    original(L, is_emergency);
    full.pause_raw = now_raw() - full.start_raw;
    state->cycle_start_raw = 0; /* it has ended a cycle that ran */
    tell(&full, global, is_emergency ? "emergency" : "full");
}
