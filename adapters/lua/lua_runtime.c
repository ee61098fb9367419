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

const void *ag_lua_closure_of(const lua_State *L, const void *ci) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const char *slot = address_of(L, (uintptr_t)ag_lua_pointer(ci, layout->ci_function));
    const bool is_outside =
        layout->state_stack_last != 0 &&
        ((uintptr_t)slot < (uintptr_t)ag_lua_pointer(L, layout->state_stack) ||
         (uintptr_t)slot >= (uintptr_t)ag_lua_pointer(L, layout->state_stack_last));
    if (!slot || is_outside || ((uintptr_t)slot & 7) != 0 ||
        ag_lua_byte(slot, AG_LUA_VALUE_TAG) != layout->closure_tag) {
        return NULL;
    }
    const void *closure = *(void *const *)(const void *)slot;
    const bool is_c =
        closure && layout->closure_is_c != 0 && ag_lua_byte(closure, layout->closure_is_c) != 0;
    return is_c ? NULL : closure;
}

const void *ag_lua_proto_of(const lua_State *L, const void *ci) {
    const void *closure = ag_lua_closure_of(L, ci);
    return closure ? ag_lua_pointer(closure, ag_lua.layout.closure_proto) : NULL;
}

/* Whether this call of a Lua function has executed no instruction yet. */
static bool call_begins(const lua_State *L, const void *ci) {
    const void *proto = ag_lua_proto_of(L, ci);
    const uint32_t *code = proto ? ag_lua_pointer(proto, ag_lua.layout.proto_code) : NULL;
    const uint32_t *pc = ag_lua_saved_pc(L, ci);
    const uint16_t allow = ag_lua.layout.state_allow_hook; /* 5.1 adds 1 to the pc for call hooks */
    return code && (pc == code || (allow != 0 && pc == code + 1 && ag_lua_byte(L, allow) == 0));
}

/* In 5.2 (fresh_value 0) the bits of a call that has executed no instruction do not say whether it
 * is fresh: luaD_precall, which may run the collector, prepares the call before luaV_execute is
 * called for it or continues with it.
 *
 * In 5.1 there are no such bits, but luaV_execute itself continues with the called function in two
 * instructions only, OP_CALL and OP_TAILCALL. A Lua function that another Lua function called by
 * any other instruction is a metamethod, an iterator, a finalizer or a hook, and fresh. (If a hook
 * that is written in Lua is called at an OP_CALL, it counts as called by this instruction, and not
 * as fresh. No frame is lost.) */
bool ag_lua_call_is_fresh(const lua_State *L, const void *ci) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    if (layout->ci_bytes == 0) {
        return (ag_lua_call_status(ci) & layout->fresh_bits) == layout->fresh_value &&
               (layout->fresh_value != 0 || !call_begins(L, ci));
    }
    const void *caller = ag_lua_caller(L, ci);
    if (!caller || ag_lua_call_is_c(L, caller)) {
        return !call_begins(L, ci);
    }
    const uint32_t op = ag_lua_op_of(ag_lua_saved_pc(L, caller)[-1]);
    return op != layout->op_call && op != layout->op_tail_call && !call_begins(L, ci);
}

/* Computes the line as Lua does. From 5.4 on (luaG_getfuncline) the line itself is stored for some
 * instructions only. The function starts from the last of these instructions that is not after the
 * wanted one, and adds the differences that are stored for the instructions in between. */
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

/* The number of words that belong to the instruction and follow it. */
static uint32_t words_after(const uint32_t *instruction) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    if (!layout->set_list_has_word) {
        return ag_lua_op_of(instruction[1]) == layout->op_extra;
    }
    const uint32_t c = instruction[0] >> layout->c_shift & 0x1ff;
    return ag_lua_op_of(instruction[0]) == layout->op_set_list && c == 0;
}

const uint32_t *ag_lua_end_of(const uint32_t *instruction) {
    return instruction + 1 + words_after(instruction);
}

/* Whether the word at INDEX is one of those that follow an OP_CLOSURE. Their line is that of the
 * OP_CLOSURE. */
static bool is_after_closure(const uint32_t *code, uintptr_t index) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    uint32_t op = ag_lua_op_of(code[index]);
    while (index > 0 && (op == layout->op_move || op == layout->op_get_upvalue)) {
        op = ag_lua_op_of(code[--index]);
    }
    return op == layout->op_closure;
}

const void *ag_lua_unsaved_pc(const void *proto, uintptr_t end) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const uint32_t *code = ag_lua_pointer(proto, layout->proto_code);
    const uintptr_t n = (uintptr_t)ag_lua_int(proto, layout->proto_n_code);
    const uintptr_t bytes = end - (uintptr_t)code;
    uintptr_t behind = bytes / sizeof(*code);
    if (bytes % sizeof(*code) != 0 || behind < 1 || behind >= n) { /* the last is a return */
        return NULL;
    }
    behind -= behind > 1 && words_after(&code[behind - 2]) != 0;
    const uint32_t op = ag_lua_op_of(code[behind - 1]);
    const bool allocates = op == layout->op_new_table || op == layout->op_set_list ||
                           (layout->closure_has_words && is_after_closure(code, behind - 1));
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
            return locals[i].start == pc ? ag_lua_text_of(locals[i].name) : NULL;
        }
    }
    return NULL;
}

/* The instruction after the one that makes the closure says where the closure is stored: in a
 * global, a field, or the register of a local that begins there. */
static const char *name_from(const void *proto, const uint32_t *code, int pc, uint32_t child) {
    enum { VALUE_BYTES = 16 };
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const char *constants = ag_lua_pointer(proto, layout->proto_constants);
    const void *const *children = ag_lua_pointer(proto, layout->proto_children);
    const uint32_t target = a_of(code[pc]);
    if (layout->closure_has_words) {
        pc += ag_lua_byte(children[child], layout->proto_n_upvalues);
    }
    const uint32_t next = code[pc + 1], op = ag_lua_op_of(next);
    uint32_t key_index = b_of(next);
    if (layout->set_global_has_bx && op == layout->op_set_global && a_of(next) == target) {
        key_index = ag_lua_bx_of(next);
    } else {
        const bool is_stored = ((op == layout->op_set_global && !layout->set_global_has_bx) ||
                                op == layout->op_set_field) &&
                               c_of(next) == target && (next & layout->c_is_constant) == 0;
        if (!is_stored) {
            return local_at(proto, target, pc + 1);
        }
        if ((next & layout->b_is_constant) != layout->b_is_constant) {
            return NULL; /* t[k] = function */
        }
    }
    const char *key = constants + (size_t)key_index * VALUE_BYTES;
    const bool is_string = (key[AG_LUA_VALUE_TAG] & AG_LUA_STRING_TAG_BITS) == AG_LUA_STRING_TAG;
    return is_string ? ag_lua_text_of(ag_lua_pointer(key, 0)) : NULL; /* t[1] = function */
}

const char *ag_lua_name_in(const void *proto, uint32_t child) {
    const uint32_t *code = ag_lua_pointer(proto, ag_lua.layout.proto_code);
    const int n = ag_lua_int(proto, ag_lua.layout.proto_n_code);
    for (int pc = 0; pc + 1 < n; pc++) {
        if (ag_lua_op_of(code[pc]) == ag_lua.layout.op_closure && ag_lua_bx_of(code[pc]) == child) {
            return name_from(proto, code, pc, child);
        }
    }
    return NULL;
}
