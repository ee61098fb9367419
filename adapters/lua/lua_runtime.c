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
    const uintptr_t stack = (uintptr_t)ag_lua_pointer(L, ag_lua.layout.state_stack);
    return (const char *)(slot != 0 && slot < stack ? stack + slot : slot);
}

bool ag_lua_stack_moves(const lua_State *L, const void *ci) {
    const uintptr_t slot = (uintptr_t)ag_lua_pointer(ci, ag_lua.layout.ci_function);
    return slot < (uintptr_t)ag_lua_pointer(L, ag_lua.layout.state_stack);
}

const void *ag_lua_proto_of(const lua_State *L, const void *ci) {
    const char *slot = address_of(L, (uintptr_t)ag_lua_pointer(ci, ag_lua.layout.ci_function));
    if (!slot || ((uintptr_t)slot & 7) != 0 || slot[AG_LUA_VALUE_TAG] != AG_LUA_CLOSURE_TAG) {
        return NULL;
    }
    const void *closure = *(void *const *)(const void *)slot;
    return closure ? ag_lua_pointer(closure, ag_lua.layout.closure_proto) : NULL;
}

/* Computes the same as Lua: in 5.4 luaG_getfuncline. There some instructions have their line
 * stored. The function starts from the last of these that is not after the wanted instruction, and
 * adds the differences that are stored for the instructions in between. */
uint32_t ag_lua_line_of(const void *proto, const void *pc) {
    struct absolute {
        int pc, line;
    };
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const signed char *lines = ag_lua_pointer(proto, layout->proto_lines);
    const uint32_t *code = ag_lua_pointer(proto, layout->proto_code);
    const int wanted = (int)((const uint32_t *)pc - code) - 1;
    int at = -1, line = ag_lua_int(proto, layout->proto_line);
    if (!lines) {
        return 0; /* stripped */
    }
    if (layout->proto_absolute == 0) {
        return wanted < 0 ? (uint32_t)line : ((const uint32_t *)(const void *)lines)[wanted];
    }
    const struct absolute *known = ag_lua_pointer(proto, layout->proto_absolute);
    const int n_known = ag_lua_int(proto, layout->proto_n_absolute);
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
    const uint32_t *code = ag_lua_pointer(proto, ag_lua.layout.proto_code);
    const uintptr_t n = (uintptr_t)ag_lua_int(proto, ag_lua.layout.proto_n_code);
    const uintptr_t bytes = end - (uintptr_t)code;
    uintptr_t behind = bytes / sizeof(*code);
    if (bytes % sizeof(*code) != 0 || behind < 2 || behind >= n) { /* the last is a return */
        return NULL;
    }
    behind -= ag_lua_op_of(code[behind - 1]) == ag_lua.layout.op_extra;
    const uint32_t op = ag_lua_op_of(code[behind - 1]);
    const bool allocates = op == ag_lua.layout.op_new_table || op == ag_lua.layout.op_set_list;
    return allocates ? code + behind : NULL;
}

/* ---- names ---- */

static uint32_t a_of(uint32_t instruction) {
    return instruction >> ag_lua.layout.op_bits & 0xff;
}
static uint32_t b_of(uint32_t instruction) {
    return instruction >> ag_lua.layout.b_shift & 0xff;
}
static uint32_t c_of(uint32_t instruction) {
    return instruction >> ag_lua.layout.c_shift & 0xff;
}

static const char *text_of(const void *string) {
    return string ? (const char *)string + ag_lua.layout.string_text : NULL;
}

/* The name of the local variable that begins to live in the register WANTED at the instruction with
 * the index PC; NULL: none. */
static const char *local_at(const void *proto, uint32_t wanted, int pc) {
    struct local {
        const void *name;
        int start, end;
    };
    const struct local *locals = ag_lua_pointer(proto, ag_lua.layout.proto_locals);
    const int n = ag_lua_int(proto, ag_lua.layout.proto_n_locals);
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
    enum { VALUE_BYTES = 16 };
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const char *constants = ag_lua_pointer(proto, layout->proto_constants);
    const uint32_t next = code[pc + 1], op = ag_lua_op_of(next);
    const bool is_stored = (op == layout->op_set_global || op == layout->op_set_field) &&
                           c_of(next) == a_of(code[pc]) && (next & layout->c_is_constant) == 0;
    if (!is_stored) {
        return local_at(proto, a_of(code[pc]), pc + 1);
    }
    if ((next & layout->b_is_constant) != layout->b_is_constant) {
        return NULL; /* t[k] = function */
    }
    const char *key = constants + (size_t)b_of(next) * VALUE_BYTES;
    const bool is_string = (key[AG_LUA_VALUE_TAG] & AG_LUA_STRING_TAG_BITS) == AG_LUA_STRING_TAG;
    return is_string ? text_of(ag_lua_pointer(key, 0)) : NULL; /* no string: t[1] = function */
}

const char *ag_lua_name_in(const void *proto, uint32_t child) {
    const uint32_t *code = ag_lua_pointer(proto, ag_lua.layout.proto_code);
    const int n = ag_lua_int(proto, ag_lua.layout.proto_n_code);
    for (int pc = 0; pc + 1 < n; pc++) {
        if (ag_lua_op_of(code[pc]) == ag_lua.layout.op_closure && ag_lua_bx_of(code[pc]) == child) {
            return name_from(proto, code, pc);
        }
    }
    return NULL;
}
