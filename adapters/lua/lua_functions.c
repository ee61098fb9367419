/* lua_functions.c: see lua_functions.h.
 *
 * A function of Lua is a value and has no name; what its programmers call it is how it is called:
 * the name by which the call that is seen first reached it, as Lua's own tracebacks have it, with
 * the line where it is defined to tell it from others. It is registered by its proto, the code that
 * all its closures share, and forgotten when that block goes: then the address may be another's. */
#include "lua_functions.h"

#include <string.h>
#include <sys/mman.h>

#include "base/raw_syscall.h"

static uint32_t slot_of(const void *key, uint32_t capacity) {
    const uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32) & (capacity - 1);
}

/* ---- names ---- */

static const char *file_of(const struct ag_lua_debug *debug) {
    const bool is_file = debug->source && (debug->source[0] == '@' || debug->source[0] == '=');
    return is_file ? debug->source + 1 : debug->short_source;
}

static allogram_function name_function(lua_State *L, void *ci) {
    struct ag_lua_debug debug = {.ci = ci};
    if (!ag_lua.api.lua_getinfo(L, "nS", &debug)) {
        return 0;
    }
    const bool is_main = strcmp(debug.what, "main") == 0;
    const struct allogram_function_options options = {
        .size = sizeof(options),
        .name = is_main      ? "main chunk"
                : debug.name ? debug.name
                             : "function",
        .file = file_of(&debug),
        .runtime = "lua",
        .line = debug.line_defined > 0 ? (uint32_t)debug.line_defined : 0,
    };
    return allogram_register_function(&options);
}

/* ---- the table ---- */

/* Where the proto is, or would be. */
static struct ag_lua_known_function *place_in(struct ag_lua_known_function *table,
                                              uint32_t capacity, const void *proto) {
    uint32_t slot = slot_of(proto, capacity);
    while (table[slot].proto && table[slot].proto != proto) {
        slot = (slot + 1) & (capacity - 1);
    }
    return &table[slot];
}

static void *map_table(uint32_t capacity) {
    const long address =
        ag_syscall6(SYS_mmap, 0, (long)(capacity * sizeof(struct ag_lua_known_function)),
                    PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return ag_syscall_failed(address) ? NULL : (void *)address;
}

static void unmap_table(struct ag_lua_state *state) {
    if (state->functions != state->first_functions) {
        (void)ag_syscall2(SYS_munmap, (long)state->functions,
                          (long)(state->functions_capacity * sizeof(*state->functions)));
    }
}

/* Twice as large where functions live in it, without those that died. */
static void grow(struct ag_lua_state *state) {
    const uint32_t capacity = state->functions_capacity * 2;
    struct ag_lua_known_function *table = map_table(capacity);
    uint32_t n = 0;
    if (!table) {
        return;
    }
    for (uint32_t i = 0; i < state->functions_capacity; i++) {
        if (state->functions[i].proto && state->functions[i].function != 0) {
            *place_in(table, capacity, state->functions[i].proto) = state->functions[i];
            n++;
        }
    }
    unmap_table(state);
    state->functions = table;
    state->functions_capacity = capacity;
    state->n_functions = n;
}

static allogram_function function_of(struct ag_lua_state *state, const void *proto, lua_State *L,
                                     void *ci) {
    struct ag_lua_known_function *place =
        place_in(state->functions, state->functions_capacity, proto);
    if (place->proto && place->function != 0) {
        return place->function;
    }
    const allogram_function function = name_function(L, ci);
    if (function == 0) {
        return 0;
    }
    if (!place->proto && state->n_functions * 2 >= state->functions_capacity) {
        grow(state);
        place = place_in(state->functions, state->functions_capacity, proto);
    }
    if (!place->proto && state->n_functions + 1 >= state->functions_capacity) {
        return function; /* no memory for more: it is asked for again */
    }
    state->n_functions += !place->proto;
    place->function = function;
    atomic_signal_fence(memory_order_seq_cst); /* a handler finds both or none */
    place->proto = proto;
    return function;
}

void ag_lua_function_forget(struct ag_lua_state *state, const void *proto) {
    struct ag_lua_known_function *place =
        place_in(state->functions, state->functions_capacity, proto);
    if (place->proto) {
        place->function = 0;
        memset(state->lines, 0, sizeof(state->lines));
    }
}

void ag_lua_functions_forget(struct ag_lua_state *state) {
    unmap_table(state);
    state->functions = state->first_functions;
    state->functions_capacity = AG_LUA_FIRST_FUNCTIONS;
    state->n_functions = 0;
    memset(state->first_functions, 0, sizeof(state->first_functions));
    memset(state->lines, 0, sizeof(state->lines));
}

struct ag_lua_place ag_lua_place_of(struct ag_lua_state *state, lua_State *L, void *ci) {
    const void *proto = ag_lua_proto_of(L, ci);
    if (!proto) {
        return (struct ag_lua_place){0};
    }
    const void *saved_pc = ag_lua_pointer(ci, ag_lua.release->ci_saved_pc);
    struct ag_lua_known_line *known = &state->lines[slot_of(saved_pc, AG_LUA_KNOWN_LINES)];
    const allogram_function function = function_of(state, proto, L, ci);
    if (known->saved_pc == saved_pc) {
        return (struct ag_lua_place){.function = function, .line = known->line};
    }
    const uint32_t line = ag_lua_line_of(proto, saved_pc);
    if (function != 0) { /* else nobody would forget the line when the proto goes */
        known->saved_pc = NULL;
        atomic_signal_fence(memory_order_seq_cst);
        known->line = line;
        atomic_signal_fence(memory_order_seq_cst);
        known->saved_pc = saved_pc;
    }
    return (struct ag_lua_place){.function = function, .line = line};
}
