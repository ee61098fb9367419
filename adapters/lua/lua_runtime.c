/* lua_runtime.c: see lua_runtime.h. */
#include "lua_runtime.h"

#include "record/recorder.h"
#include "unwind/unwind_space.h"

struct ag_lua ag_lua;

uintptr_t ag_lua_function_at(uintptr_t pc) {
    enum { RBP = 6 };
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    return ag_unwind_space_find_row(ag_recorder.space, pc, RBP, &row, &entry) == 0 ? entry.function
                                                                                   : 0;
}

/* While Lua moves a stack, releases from 5.4.6 on have offsets in it instead of addresses. */
static const char *address_of(const lua_State *L, uintptr_t slot) {
    enum { STACK_BYTES_MOST = 1 << 28 }; /* LUAI_MAXSTACK slots of 16 bytes, and more */
    if (slot != 0 && slot < STACK_BYTES_MOST) {
        return (const char *)ag_lua_pointer(L, ag_lua.release->state_stack) + slot;
    }
    return (const char *)slot;
}

const void *ag_lua_proto_of(const lua_State *L, const void *ci) {
    enum { VALUE_TAG = 8 }; /* of a TValue: the value, then its tag */
    const char *slot = address_of(L, (uintptr_t)ag_lua_pointer(ci, ag_lua.release->ci_function));
    if (!slot || ((uintptr_t)slot & 7) != 0 || slot[VALUE_TAG] != AG_LUA_CLOSURE_TAG) {
        return NULL;
    }
    const void *closure = *(void *const *)(const void *)slot;
    return closure ? ag_lua_pointer(closure, ag_lua.release->closure_proto) : NULL;
}

/* As luaG_getfuncline: from the last instruction before this one whose line is known, each has the
 * difference to the one before it. */
uint32_t ag_lua_line_of(const void *proto, const void *saved_pc) {
    struct absolute {
        int pc, line;
    };
    const struct ag_lua_release *release = ag_lua.release;
    const signed char *lines = ag_lua_pointer(proto, release->proto_lines);
    const uint32_t *code = ag_lua_pointer(proto, release->proto_code);
    const struct absolute *known = ag_lua_pointer(proto, release->proto_absolute);
    const int n_known = ag_lua_int(proto, release->proto_n_absolute);
    const int pc = (int)((const uint32_t *)saved_pc - code) - 1;
    int at = -1, line = ag_lua_int(proto, release->proto_line);
    if (!lines) {
        return 0; /* stripped */
    }
    for (int low = 0, high = n_known; low < high;) {
        const int middle = low + (high - low) / 2;
        if (known[middle].pc <= pc) {
            at = known[middle].pc;
            line = known[middle].line;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (at < pc) {
        line += lines[++at];
    }
    return line > 0 ? (uint32_t)line : 0;
}
