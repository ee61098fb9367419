/* lua_runtime.c: reads Lua's structs for the other files of this adapter: the code, the lines and
 * the names of Lua functions. */
#include "lua_runtime.h"

#include "record/recorder.h"
#include "unwind/unwind_space.h"

struct ag_lua ag_lua;

uintptr_t ag_lua_function_at(uintptr_t pc) {
    enum { RBP = 6 };
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    return ag_unwind_space_find_row(ag_recorder.space, pc, RBP, &row, &entry, NULL) == 0
               ? entry.function
               : 0;
}

/* While Lua moves a stack, releases from 5.4.6 on store offsets in it instead of addresses. An
 * address in the stack is never below the stack's beginning. An offset is always below the stack's
 * beginning, unless the address of the stack is smaller than the stack's size. */
static const char *address_of(const lua_State *L, uintptr_t slot) {
    const uintptr_t stack = (uintptr_t)ag_lua_pointer(L, ag_lua.release->state_stack);
    return (const char *)(slot != 0 && slot < stack ? stack + slot : slot);
}

const void *ag_lua_proto_of(const lua_State *L, const void *ci) {
    enum { VALUE_TAG = 8 }; /* the offset of the tag in a TValue */
    const char *slot = address_of(L, (uintptr_t)ag_lua_pointer(ci, ag_lua.release->ci_function));
    if (!slot || ((uintptr_t)slot & 7) != 0 || slot[VALUE_TAG] != AG_LUA_CLOSURE_TAG) {
        return NULL;
    }
    const void *closure = *(void *const *)(const void *)slot;
    return closure ? ag_lua_pointer(closure, ag_lua.release->closure_proto) : NULL;
}

/* Computes the same as luaG_getfuncline. Some instructions have their line stored. The function
 * starts from the last of these that is not after the wanted instruction, and adds the differences
 * that are stored for the instructions in between. */
uint32_t ag_lua_line_of(const void *proto, const void *pc) {
    struct absolute {
        int pc, line;
    };
    const struct ag_lua_release *release = ag_lua.release;
    const signed char *lines = ag_lua_pointer(proto, release->proto_lines);
    const uint32_t *code = ag_lua_pointer(proto, release->proto_code);
    const struct absolute *known = ag_lua_pointer(proto, release->proto_absolute);
    const int n_known = ag_lua_int(proto, release->proto_n_absolute);
    const int wanted = (int)((const uint32_t *)pc - code) - 1;
    int at = -1, line = ag_lua_int(proto, release->proto_line);
    if (!lines) {
        return 0; /* stripped */
    }
    for (int low = 0, high = n_known; low < high;) {
        const int middle = low + (high - low) / 2;
        if (known[middle].pc <= wanted) {
            at = known[middle].pc;
            line = known[middle].line;
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    while (at < wanted) {
        line += lines[++at];
    }
    return line > 0 ? (uint32_t)line : 0;
}

const void *ag_lua_unsaved_pc(const void *proto, uintptr_t end) {
    const uint32_t *code = ag_lua_pointer(proto, ag_lua.release->proto_code);
    const uintptr_t n = (uintptr_t)ag_lua_int(proto, ag_lua.release->proto_n_code);
    const uintptr_t bytes = end - (uintptr_t)code;
    uintptr_t behind = bytes / sizeof(*code);
    if (bytes % sizeof(*code) != 0 || behind < 2 || behind >= n) { /* the last is a return */
        return NULL;
    }
    behind -= ag_lua_op_of(code[behind - 1]) == AG_LUA_OP_EXTRAARG;
    const uint32_t op = ag_lua_op_of(code[behind - 1]);
    return op == AG_LUA_OP_NEWTABLE || op == AG_LUA_OP_SETLIST ? code + behind : NULL;
}

/* ---- names ---- */

static uint32_t a_of(uint32_t instruction) {
    return instruction >> 7 & 0xff;
}
static uint32_t b_of(uint32_t instruction) {
    return instruction >> 16 & 0xff;
}
static uint32_t c_of(uint32_t instruction) {
    return instruction >> 24;
}

static const char *text_of(const void *string) {
    return string ? (const char *)string + ag_lua.release->string_text : NULL;
}

/* The name of the local variable that begins to live in the register WANTED at the instruction with
 * the index PC; NULL: none. */
static const char *local_at(const void *proto, uint32_t wanted, int pc) {
    struct local {
        const void *name;
        int start, end;
    };
    const struct local *locals = ag_lua_pointer(proto, ag_lua.release->proto_locals);
    const int n = ag_lua_int(proto, ag_lua.release->proto_n_locals);
    uint32_t at = 0;
    for (int i = 0; i < n && locals[i].start <= pc; i++) {
        if (pc < locals[i].end && at++ == wanted) {
            return locals[i].start == pc ? text_of(locals[i].name) : NULL;
        }
    }
    return NULL;
}

/* The instruction after the one that makes the closure says where the closure is stored: in a
 * global, a field, or the register of a local that begins there. */
static const char *name_from(const void *proto, const uint32_t *code, int pc) {
    struct value {
        const void *object;
        uint64_t tag;
    };
    const struct value *constants = ag_lua_pointer(proto, ag_lua.release->proto_constants);
    const uint32_t next = code[pc + 1];
    const bool is_stored =
        (ag_lua_op_of(next) == AG_LUA_OP_SETTABUP || ag_lua_op_of(next) == AG_LUA_OP_SETFIELD) &&
        c_of(next) == a_of(code[pc]) && (next >> 15 & 1) == 0;
    return is_stored ? text_of(constants[b_of(next)].object)
                     : local_at(proto, a_of(code[pc]), pc + 1);
}

const char *ag_lua_name_in(const void *proto, uint32_t child) {
    const uint32_t *code = ag_lua_pointer(proto, ag_lua.release->proto_code);
    const int n = ag_lua_int(proto, ag_lua.release->proto_n_code);
    for (int pc = 0; pc + 1 < n; pc++) {
        if (ag_lua_op_of(code[pc]) == AG_LUA_OP_CLOSURE && code[pc] >> 15 == child) {
            return name_from(proto, code, pc);
        }
    }
    return NULL;
}
