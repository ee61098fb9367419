/* lua_functions.c: defines Lua's functions in the trace, with names, files and lines, for the
 * frames of lua_stacks.c and the counts of lua_calls.c.
 *
 * A function of Lua is a value and has no name. Programmers refer to it by the global, field or
 * local variable to which the code that creates the function assigns it directly ("function f()",
 * "t.f = function ..."). So when a chunk (a compiled file or string) is first seen, all functions
 * in it that have such a name are registered with it. A function that is passed as an argument or
 * returned has no such name. It gets the name that its caller used in the first recorded call, as
 * in Lua's own tracebacks. The line of the definition distinguishes functions with the same name.
 *
 * A function is identified by its proto, the code that all its closures share. When the block of a
 * proto is freed, its function is forgotten, because another function may get the address. */
#include "lua_functions.h"

#include <string.h>

#include "base/pages.h"

/* ---- names ---- */

static const char *file_of(const struct ag_lua_debug *debug) {
    const bool is_file = debug->source && (debug->source[0] == '@' || debug->source[0] == '=');
    return is_file ? debug->source + 1 : (const char *)debug + ag_lua.layout.debug_short_source;
}

/* ---- the table ---- */

/* The proto's entry in the table, or the free entry where it would be stored. */
static struct ag_lua_known_function *place_in(const struct ag_lua_functions *table,
                                              const void *proto) {
    uint32_t slot = ag_lua_slot_of(proto, table->capacity);
    while (table->entries[slot].proto && table->entries[slot].proto != proto) {
        slot = (slot + 1) & (table->capacity - 1);
    }
    return &table->entries[slot];
}

static size_t table_bytes(uint32_t capacity) {
    return sizeof(struct ag_lua_functions) + capacity * sizeof(struct ag_lua_known_function);
}

/* Replaces the table by one of twice the size, without the functions that were freed. */
static void lua_functions_grow(struct ag_lua_state *state) {
    struct ag_lua_functions *older = state->functions;
    const uint32_t capacity = older->capacity * 2;
    struct ag_lua_functions *table = ag_pages_map(table_bytes(capacity));
    if (!table) {
        return;
    }
    *table = (struct ag_lua_functions){.older = older,
                                       .capacity = capacity,
                                       .entries = (struct ag_lua_known_function *)(table + 1)};
    for (uint32_t i = 0; i < older->capacity; i++) {
        if (older->entries[i].proto && older->entries[i].function != 0) {
            *place_in(table, older->entries[i].proto) = older->entries[i];
            table->n++;
        }
    }
    atomic_signal_fence(memory_order_seq_cst); /* a signal handler finds a complete table */
    if (state->functions == older) {
        state->functions = table;
    } else { /* a signal handler has replaced the table meanwhile */
        ag_pages_unmap(table, table_bytes(capacity));
    }
}

static void remember(struct ag_lua_state *state, const void *proto, allogram_function function) {
    struct ag_lua_known_function *place = place_in(state->functions, proto);
    if (!place->proto && state->functions->n * 2 >= state->functions->capacity) {
        lua_functions_grow(state);
        place = place_in(state->functions, proto);
    }
    if (!place->proto && state->functions->n + 1 >= state->functions->capacity) {
        return; /* out of memory: tried again at the next use */
    }
    state->functions->n += !place->proto;
    place->function = function;
    atomic_signal_fence(memory_order_seq_cst); /* a signal handler finds both fields or none */
    place->proto = proto;
}

/* ---- registering ---- */

static allogram_function register_one(const void *proto, const char *name, const char *file) {
    const int line = ag_lua_int(proto, ag_lua.layout.proto_line);
    const struct allogram_function_options options = {.size = sizeof(options),
                                                      .name = name,
                                                      .file = file,
                                                      .runtime = "lua",
                                                      .line = line > 0 ? (uint32_t)line : 0};
    return allogram_register_function(&options);
}

/* Registers the functions that the chunk's code names, at any depth of nesting. */
static void register_inner(struct ag_lua_state *state, const void *chunk, const char *file) {
    enum { DEPTH_MOST = 200 }; /* LUAI_MAXCCALLS: the parser goes no deeper */
    struct {
        const void *proto;
        int next;
    } path[DEPTH_MOST] = {{chunk, 0}};
    for (size_t depth = 1; depth > 0;) {
        const void *proto = path[depth - 1].proto;
        const int child = path[depth - 1].next++;
        if (child >= ag_lua_int(proto, ag_lua.layout.proto_n_children)) {
            depth--;
            continue;
        }
        const void *const *children = ag_lua_pointer(proto, ag_lua.layout.proto_children);
        const char *name = ag_lua_name_in(proto, (uint32_t)child);
        const allogram_function function =
            name && name[0] ? register_one(children[child], name, file) : 0;
        if (function != 0) {
            remember(state, children[child], function);
        }
        if (depth < DEPTH_MOST) {
            path[depth].proto = children[child];
            path[depth++].next = 0;
        }
    }
}

static allogram_function register_called(struct ag_lua_state *state, const void *proto,
                                         lua_State *L, void *ci) {
    struct ag_lua_debug debug = {0};
    ag_lua_debug_set_call(&debug, L, ci);
    if (ag_lua_stack_moves(L, ci) || !ag_lua.api.lua_getinfo(L, "nS", &debug)) {
        return 0;
    }
    const bool is_chunk = strcmp(debug.what, "main") == 0;
    const char *name = is_chunk ? "main chunk" : debug.name ? debug.name : "function";
    const allogram_function function = register_one(proto, name, file_of(&debug));
    if (function != 0) {
        remember(state, proto, function);
    }
    if (function != 0 && is_chunk) {
        register_inner(state, proto, file_of(&debug));
    }
    return function;
}

allogram_function ag_lua_function_of(struct ag_lua_state *state, const void *proto, lua_State *L,
                                     void *ci) {
    const struct ag_lua_known_function *place = place_in(state->functions, proto);
    return place->proto && place->function != 0 ? place->function
                                                : register_called(state, proto, L, ci);
}

void ag_lua_function_forget(struct ag_lua_state *state, const void *proto) {
    struct ag_lua_known_function *place = place_in(state->functions, proto);
    if (place->proto) {
        place->function = 0;
        memset(state->lines, 0, sizeof(state->lines));
    }
}

void ag_lua_functions_forget(struct ag_lua_state *state) {
    struct ag_lua_functions *table = state->functions;
    state->functions = &state->first_functions;
    state->first_functions.n = 0;
    memset(state->first_entries, 0, sizeof(state->first_entries));
    while (table->older) {
        struct ag_lua_functions *older = table->older;
        ag_pages_unmap(table, table_bytes(table->capacity));
        table = older;
    }
    memset(state->lines, 0, sizeof(state->lines));
}

struct ag_lua_place ag_lua_place_of(struct ag_lua_state *state, lua_State *L, void *ci,
                                    uintptr_t end) {
    const void *proto = ag_lua_proto_of(L, ci);
    if (!proto) {
        return (struct ag_lua_place){0};
    }
    const void *pc = end != 0 ? ag_lua_unsaved_pc(proto, end) : NULL;
    pc = pc ? pc : ag_lua_saved_pc(L, ci);
    struct ag_lua_known_line *known = &state->lines[ag_lua_slot_of(pc, AG_LUA_KNOWN_LINES)];
    const allogram_function function = ag_lua_function_of(state, proto, L, ci);
    if (known->pc == pc) {
        return (struct ag_lua_place){.function = function, .line = known->line};
    }
    const uint32_t line = ag_lua_line_of(proto, pc);
    if (function != 0) { /* without a function, the line would not be forgotten when the proto is
                          * freed */
        known->pc = NULL;
        atomic_signal_fence(memory_order_seq_cst);
        known->line = line;
        atomic_signal_fence(memory_order_seq_cst);
        known->pc = pc;
    }
    return (struct ag_lua_place){.function = function, .line = line};
}
