/* lua_adapter.c: finds Lua in the profiled process and installs the adapter's detours. Lua may be
 * in a shared library or in the program itself (as in the interpreter `lua`).
 *
 * Lua gets all its memory through the allocator of each state, and the functions of its C API keep
 * their names in a stripped program, because C modules need them. So the adapter only needs detours
 * of a few of those functions. The detour of lua_newstate puts the adapter's allocator in front of
 * the allocator that the program passes (lua_states.c). The detours of lua_getallocf and
 * lua_setallocf hide the adapter's allocator from the program. The detours of the functions that
 * run Lua code note the state (lua_stacks.c). Two more detours, of luaC_step and luaC_fullgc,
 * record collections (lua_collections.c); the calibration finds these two functions. Before
 * anything is changed, the release is looked up in lua_releases.def, and the row is compared with
 * Lua's answers (lua_calibration.c). */
#include <stdlib.h>
#include <string.h>

#include "base/join_text.h"
#include "base/vector_state.h"
#include "embed/adapter.h"
#include "hook/detour.h"
#include "hook/first_environment.h"
#include "hook/kept_call.h"
#include "hook/next_symbol.h"
#include "lua_calibration.h"
#include "lua_calls.h"
#include "lua_collections.h"
#include "lua_stacks.h"
#include "lua_states.h"

enum { TEXT_BYTES = 200 };

extern const unsigned char ag_lua_enter[] AG_HIDDEN; /* lua_entry.S */
extern const unsigned char ag_lua_new_enter[] AG_HIDDEN;
static void *new_original;

#define AG_LUA_LAYOUT(layout, ...) static const struct ag_lua_layout layout = {__VA_ARGS__};
#include "lua_releases.def"
#undef AG_LUA_LAYOUT
static const struct {
    const char *name;
    const struct ag_lua_layout *layout;
} releases[] = {
#define AG_LUA_RELEASE(name, layout) {name, &layout},
#include "lua_releases.def"
#undef AG_LUA_RELEASE
};

/* ---- finding Lua ---- */

/* "$LuaVersion: Lua 5.4.4  Copyright ..." -> 5.4.4; in 5.1 "$Lua: Lua 5.1.5 Copyright ..." */
static void read_release(const char *ident, char ret_release[TEXT_BYTES]) {
    static const char before[] = "$LuaVersion: Lua ", before_5_1[] = "$Lua: Lua ";
    const bool is_5_1 = strncmp(ident, before_5_1, sizeof(before_5_1) - 1) == 0;
    size_t n = 0;
    if (is_5_1 || strncmp(ident, before, sizeof(before) - 1) == 0) {
        ident += is_5_1 ? sizeof(before_5_1) - 1 : sizeof(before) - 1;
        while (n < TEXT_BYTES - 1 && ident[n] > ' ' && ident[n] <= '~') {
            ret_release[n] = ident[n];
            n++;
        }
    }
    ret_release[n] = '\0';
}

static const struct ag_lua_layout *find_layout(const char *name) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(releases); i++) {
        if (strcmp(releases[i].name, name) == 0) {
            return releases[i].layout;
        }
    }
    return NULL;
}

/* Looks up NAME in the object that defines lua_newstate. NULL: that object does not define NAME. */
static void *find_in(const struct ag_symbol_place *lua, const char *name) {
    struct ag_symbol_place place;
    const bool is_there =
        ag_symbol_find(name, AG_SYMBOL_FIRST, NULL, &place) && place.bias == lua->bias;
    return is_there ? place.address : NULL;
}

/* Looks up a function that the adapter calls. This function is not used for lua_entries.def: if
 * lua_pcall were found under both names, it would get two detours. */
static void *find_called(const struct ag_symbol_place *lua, const char *name) {
    void *function = find_in(lua, name);
    return !function && strcmp(name, "lua_pcallk") == 0 ? find_in(lua, "lua_pcall") /* 5.1 */
                                                        : function;
}

static bool find_api(const struct ag_symbol_place *lua, const char **ret_missing) {
#define AG_LUA_FUNCTION(name, result, arguments)                               \
    ag_lua.api.name = (result(*) arguments)(uintptr_t)find_called(lua, #name); \
    if (!ag_lua.api.name) {                                                    \
        *ret_missing = #name;                                                  \
        return false;                                                          \
    }
#include "lua_api.def"
#undef AG_LUA_FUNCTION
    ag_lua.new_userdata =
        (void *(*)(lua_State *, size_t))(uintptr_t)find_in(lua, "lua_newuserdata");
#define AG_LUA_ENTRY(name, is_base) \
    ag_lua.entries[AG_LUA_ENTRY_##name] = (uintptr_t)find_in(lua, #name);
#include "lua_entries.def"
#undef AG_LUA_ENTRY
    return true;
}

/* ---- hiding the allocator ---- */

static ag_lua_alloc *get_allocator(lua_State *L, void **ret_ud) {
    void *ud = NULL;
    ag_lua_alloc *allocate = ag_lua.api.lua_getallocf(L, &ud);
    if (allocate == ag_lua_allocate) {
        const struct ag_lua_state *state = ud;
        allocate = state->allocate;
        ud = state->ud;
    }
    if (ret_ud) {
        *ret_ud = ud;
    }
    return allocate;
}

static void set_allocator(lua_State *L, ag_lua_alloc *allocate, void *ud) {
    void *own = NULL;
    if (ag_lua.api.lua_getallocf(L, &own) != ag_lua_allocate) {
        ag_lua.api.lua_setallocf(L, allocate, ud);
        return;
    }
    struct ag_lua_state *state = own;
    state->allocate = allocate;
    state->ud = ud;
}

/* Called from lua_entry.S before lua_newstate runs: gives the new state the adapter's allocator. */
void ag_lua_new(struct ag_kept_call *call);

struct new_state {
    uintptr_t allocate, ud;
    struct ag_lua_state *state;
};
static void take_state(void *context) {
    struct new_state *new = context;
    new->state = ag_lua_state_take((ag_lua_alloc *)new->allocate, (void *)new->ud);
}

void ag_lua_new(struct ag_kept_call *call) {
    struct new_state new = {.allocate = call->arguments[0], .ud = call->arguments[1]};
    ag_call_keeping_vectors(take_state, &new);
    if (new.state) {
        call->arguments[0] = (uintptr_t)ag_lua_allocate;
        call->arguments[1] = (uintptr_t) new.state;
    }
    call->original = (uintptr_t)new_original;
}

/* ---- detours ---- */

enum { DETOURS = AG_LUA_ENTRIES + 5 };
static struct ag_detour detours[DETOURS];
static size_t n_detours;

/* Installs a detour that keeps all registers: Lua may be part of the program, and callers in the
 * same file may rely on more registers than the ABI keeps. */
static int detour(uintptr_t function, const void *enter, uintptr_t datum, void **ret_original) {
    if (function == 0) {
        return 0;
    }
    struct ag_detour *made = &detours[n_detours];
    const int r = ag_detour_install_kept(made, (void *)function, 0, enter, datum, ret_original);
    n_detours += r == 0;
    return r;
}

static void remove_detours(void) {
    while (n_detours > 0) {
        (void)ag_detour_remove(&detours[--n_detours]);
    }
}

/* From here on the adapter calls the originals of lua_getallocf and lua_setallocf, so its own calls
 * do not pass through the detours. */
static void call_past_detours(void *get_original, void *set_original) {
    ag_lua.api.lua_getallocf = (ag_lua_alloc * (*)(lua_State *, void **))(uintptr_t)get_original;
    ag_lua.api.lua_setallocf =
        (void (*)(lua_State *, ag_lua_alloc *, void *))(uintptr_t)set_original;
}

static int install_detours(void) {
    static void *get_original, *set_original;
    int r = 0;
    for (size_t i = 0; i < AG_LUA_ENTRIES && r == 0; i++) {
        r = detour(ag_lua.entries[i], ag_lua_enter, i, &ag_lua_originals[i]);
    }
    const struct {
        uintptr_t function;
        const void *enter;
        uintptr_t replacement;
        void **original;
    } replaced[] = {
        {ag_lua.step, ag_kept_call_void, (uintptr_t)ag_lua_step, &ag_lua_step_original},
        {ag_lua.full, ag_kept_call_void, (uintptr_t)ag_lua_full, &ag_lua_full_original},
        {(uintptr_t)ag_lua.api.lua_getallocf, ag_kept_call, (uintptr_t)get_allocator,
         &get_original},
        {(uintptr_t)ag_lua.api.lua_setallocf, ag_kept_call_void, (uintptr_t)set_allocator,
         &set_original},
    };
    for (size_t i = 0; i < AG_ARRAY_SIZE(replaced) && r == 0; i++) {
        r = detour(replaced[i].function, replaced[i].enter, replaced[i].replacement,
                   replaced[i].original);
    }
    if (r == 0) {
        call_past_detours(get_original, set_original);
        r = detour((uintptr_t)ag_lua.api.lua_newstate, ag_lua_new_enter, 0, &new_original);
    }
    if (r < 0) {
        remove_detours();
    }
    return r;
}

/* ---- the functions of struct ag_adapter ---- */

static char release[TEXT_BYTES], note[TEXT_BYTES];

static void add_to_note(const char *text) {
    const size_t at = strlen(note);
    ag_copy_text(note + at, sizeof(note) - at, text);
}

static enum ag_adapter_answer refuse(struct ag_runtime_definition *ret_runtime, const char *why,
                                     const char *what) {
    add_to_note(why);
    add_to_note(what);
    ret_runtime->note = note;
    return AG_ADAPTER_REFUSED;
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    struct ag_symbol_place lua, ident;
    const char *reason = "";
    if (!ag_symbol_find("lua_newstate", AG_SYMBOL_FIRST, NULL, &lua) ||
        !ag_symbol_find("lua_ident", AG_SYMBOL_FIRST_DATA, NULL, &ident) ||
        ident.bias != lua.bias) {
        return AG_ADAPTER_ABSENT;
    }
    read_release(ident.address, release);
    ret_runtime->version = release;
    const struct ag_lua_layout *layout = find_layout(release);
    if (!layout) {
        return refuse(ret_runtime, "this release is not supported; supported releases are ",
                      "5.1.5, 5.2.4, 5.3.4 to 5.3.6, 5.4.4, 5.4.6 to 5.4.9, 5.5.0, 5.5.1");
    }
    ag_lua.layout = *layout;
    if (!find_api(&lua, &reason)) {
        return refuse(ret_runtime, "it does not export ", reason);
    }
    if (ag_lua_calibrate(&reason) < 0) {
        return refuse(ret_runtime, "its memory layout could not be verified: ", reason);
    }
    if (install_detours() < 0) {
        return refuse(ret_runtime,
                      "a function of Lua cannot be hooked: ", detours[n_detours].reason);
    }
    const char *calls = ag_first_environment_value("ALLOGRAM_CALLS"); /* set by `run --calls` */
    ag_lua_calls_are_wanted = calls && strcmp(calls, "yes") == 0;
    if (!ag_lua.has_pcs) {
        add_to_note("tables and their arrays may have the line of an earlier statement");
    }
    if (ag_lua_calls_are_wanted) { /* Lua clears allowhook around finalizers */
        add_to_note(note[0] ? "; " : "");
        add_to_note(
            "calls in __gc finalizers are not counted, because Lua calls no hook there; the words that they allocate are counted");
    }
    ret_runtime->note = note[0] ? note : NULL;
    ag_lua_states_start();
    return AG_ADAPTER_ACTS;
}

/* Adds the bytes in use of one state at the end of the recording: the adapter's count to
 * `reported`, and Lua's own count to `counted`. */
static void add_state(void *context, const struct ag_lua_state *state) {
    struct ag_runtime_definition *runtime = context;
    if (state->first_block) {
        const void *L = (const char *)state->first_block + ag_lua.layout.main_state;
        const void *global = ag_lua_pointer(L, ag_lua.layout.state_global);
        runtime->reported += (uint64_t)state->in_use_bytes;
        runtime->counted += (uint64_t)ag_lua_total_bytes(global);
    }
}

static void lua_end(struct ag_runtime_definition *ret_runtime) {
    ret_runtime->reported = ret_runtime->counted = 0;
    ag_lua_states_visit(add_state, ret_runtime);
    if (ret_runtime->counted > 0) {
        ag_lua_report_memory();
    }
}

const struct ag_adapter ag_adapter_lua = {.attach = attach, .end = lua_end};
