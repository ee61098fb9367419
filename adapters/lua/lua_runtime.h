/* lua_runtime.h: the parts of Lua 5.1 to 5.5 that the adapter (allogram's code for Lua) uses: the
 * C API, and the fields of Lua's structs.
 *
 * Lua's own headers are not needed: this file has what all supported releases have in common, and
 * lua_releases.def has the differences. Fields are read through functions, by the layout of the
 * release that runs, and only after the calibration has compared them with Lua's own answers. */
#ifndef AG_LUA_RUNTIME_H
#define AG_LUA_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef struct lua_State lua_State;
typedef void *ag_lua_alloc(void *ud, void *block, size_t old_bytes, size_t new_bytes);
typedef int ag_lua_function(lua_State *L);
typedef const char *ag_lua_reader(lua_State *L, void *data, size_t *ret_bytes);
struct ag_lua_debug { /* lua_Debug of lua.h */
    int event;
    const char *name, *name_what, *what, *source;
    char rest[160]; /* read by the offsets of the layout; a build with a larger LUA_IDSIZE uses more
                     * of it */
};
typedef void ag_lua_hook(lua_State *L, struct ag_lua_debug *debug);

/* The type of a new block, which Lua passes to its allocator in place of an old size. */
enum ag_lua_tag {
    AG_LUA_TAG_STRING = 4,
    AG_LUA_TAG_TABLE = 5,
    AG_LUA_TAG_FUNCTION = 6,
    AG_LUA_TAG_USERDATA = 7,
    AG_LUA_TAG_THREAD = 8,
    AG_LUA_TAGS = 11, /* any other tag: a vector, or a type whose tag is in the layout */
};
enum {
    AG_LUA_VALUE_TAG = 8,  /* the offset of the tag in a TValue */
    AG_LUA_STRING_TAG = 4, /* the low bits of the tag of a string */
    AG_LUA_STRING_TAG_BITS = 0xf,
};

/* A layout of lua_releases.def. Offsets are in bytes; a name like state_ci is the offset of the
 * field `ci` in lua_State. A field that a release does not have is 0. */
struct ag_lua_layout {
    uint16_t state_global, state_ci, state_stack;
    /* ci_bytes 0: a CallInfo has the address of its caller, in ci_previous. Otherwise the CallInfo
     * structures are an array: ci_bytes is the size of one, and the four members after it are
     * offsets of fields of lua_State: the first CallInfo, the pc of the innermost call, the end of
     * the Lua stack, and a byte that is 0 while a hook runs. Such a CallInfo has no callstatus, see
     * ag_lua_call_is_fresh. */
    uint16_t ci_bytes, state_first_ci, state_saved_pc, state_stack_last, state_allow_hook;
    uint16_t ci_function, ci_previous, ci_saved_pc;
    /* ci_status: the offset of a word of 32 bits that contains CallInfo.callstatus. The next five
     * are bits of that word. call_kind: the bit that distinguishes calls of Lua functions
     * from calls of C functions (CIST_LUA, CIST_C); c_call: its value for a C function. A call of
     * Lua for which luaV_execute was called has the value fresh_value in the bits fresh_bits
     * (CIST_FRESH). call_mark: a bit that the release does not use for calls of Lua; a new call
     * begins without it (lua_call_memo.c) */
    uint16_t ci_status;
    uint32_t call_kind, c_call, fresh_bits, fresh_value, call_mark;
    uint16_t before_state; /* LUA_EXTRASPACE: the offset of a coroutine's lua_State in its block */
    uint16_t main_state;   /* the offset of the main thread's lua_State in the first block */
    /* 1: luaV_execute has its pc in a local variable, and does not always save it (lua_pcs.c) */
    uint16_t keeps_pc_in_variable;
    /* 1: for a tail call, Lua calls the hook with a new CallInfo, and then lets the function run in
     * the CallInfo of the function that called it */
    uint16_t hooks_tail_calls_early;
    /* In lua_Debug. debug_line_defined: the line of the function's definition. debug_ci: the
     * address of the CallInfo, or, if ci_bytes is not 0, its index (int). */
    uint16_t debug_line, debug_line_defined, debug_short_source, debug_ci;
    /* string_text: where the characters of a string are. string_is_long: the offset of a signed
     * char that is negative if string_text has a pointer to the characters; 0: no string has a
     * pointer there */
    uint16_t closure_proto, string_text, string_is_long;
    /* The tag of a slot with a Lua function. closure_is_c: the offset of a byte that is not 0 in
     * the closure of a C function, whose slot has the same tag; 0: a slot with a C function has
     * another tag */
    uint16_t closure_tag, closure_is_c;
    /* proto_bytes: the size of a Proto. proto_absolute 0: proto_lines has a line (int) for each
     * instruction; otherwise it has differences (signed char), see ag_lua_line_of. */
    uint16_t proto_n_code, proto_n_children, proto_n_locals, proto_n_absolute, proto_line;
    uint16_t proto_constants, proto_code, proto_children, proto_lines, proto_absolute;
    uint16_t proto_locals, proto_source, proto_bytes;
    /* Lua's count of the bytes in use: the sum of two words, or their difference if
     * is_debt_subtracted is 1 */
    uint16_t global_total, global_debt, is_debt_subtracted;
    uint16_t global_allocator; /* the allocator; its `ud` is the next word */
    /* global_gc_kind 0: there is one kind of collection; global_gc_stopped 0: no field says whether
     * the collector is stopped, and luaC_step is not called while it is */
    uint16_t global_gc_state, global_gc_kind, global_gc_stopped;
    uint8_t gc_not_stopped; /* the value of global_gc_stopped while the collector is not stopped */
    uint8_t gc_pause;       /* GCSpause: no cycle runs */
    uint8_t gc_finalizes;   /* the state in which a full collection calls finalizers */
    uint8_t tag_upvalue, tag_proto; /* tags of new blocks; tag_upvalue 0: an upvalue has no tag */
    /* Offsets in the global state, if Lua passes no tags to the allocator (lua_requests.c): the
     * list of all objects, and the table of strings. 0: Lua passes the tags. */
    uint16_t global_objects, global_strings;
    uint8_t refuses_table_finalizers; /* 1: only userdata has finalizers */
    uint8_t knows_emergency;          /* 1: luaC_fullgc has the argument isemergency */
    /* An instruction has, from the lowest bit on, an opcode of op_bits, and A, of 8 bits. B and C
     * are read as 8 bits. b_is_constant, c_is_constant: the bit of an instruction that is set if B
     * or C is a constant and not a register. b_is_constant 0: in set_global and set_field, B is
     * always a constant. set_global_has_bx 1: the key of set_global is the constant Bx, and the
     * value is A. op_call, op_tail_call: needed only if ci_bytes is not 0. op_move, op_get_upvalue:
     * if closure_has_words is 1, OP_CLOSURE saves no pc, and is followed by one of these two
     * instructions for each upvalue (proto_n_upvalues: their number). op_extra is the opcode of the
     * extra argument of an instruction; if set_list_has_word is 1, it does not exist, and a word
     * follows OP_SETLIST if C is 0. */
    uint8_t set_global_has_bx, closure_has_words, set_list_has_word, proto_n_upvalues;
    uint8_t op_call, op_tail_call, op_move, op_get_upvalue;
    uint8_t op_bits, b_shift, c_shift;
    uint32_t b_is_constant, c_is_constant;
    uint8_t op_set_global, op_set_field, op_new_table, op_set_list, op_closure, op_extra;
};

enum {
#define AG_LUA_ENTRY(name, is_base) AG_LUA_ENTRY_##name,
#include "lua_entries.def"
#undef AG_LUA_ENTRY
    AG_LUA_ENTRIES
};

struct ag_lua_api {
#define AG_LUA_FUNCTION(name, result, arguments) result(*name) arguments;
#include "lua_api.def"
#undef AG_LUA_FUNCTION
};

/* The Lua of this process. There is at most one. */
struct ag_lua {
    struct ag_lua_api api; /* lua_getallocf and lua_setallocf: Lua's functions themselves, not the
                            * adapter's hooks */
    struct ag_lua_layout layout; /* a copy, so that a field is read without a pointer */
    void *(*new_userdata)(lua_State *L, size_t bytes); /* lua_newuserdata; used for 5.1 only */
    uintptr_t execute;                                 /* where luaV_execute begins */
    uintptr_t step, full;                              /* luaC_step and luaC_fullgc */
    uintptr_t entries[AG_LUA_ENTRIES]; /* where the functions of lua_entries.def begin; 0: none */
    bool has_pcs;                      /* lua_pcs.c finds the pcs that Lua does not save */
};
extern struct ag_lua ag_lua AG_HIDDEN;

/* The beginning of the function that contains the pc, by the unwind tables of the function's
 * object; 0: unknown. */
uintptr_t ag_lua_function_at(uintptr_t pc);

/* ---- reading ---- */

AG_FAST void *ag_lua_pointer(const void *object, uint16_t offset) {
    return *(void *const *)((const char *)object + offset);
}
AG_FAST int ag_lua_int(const void *object, uint16_t offset) {
    return *(const int *)(const void *)((const char *)object + offset);
}
AG_FAST uint32_t ag_lua_call_status(const void *ci) {
    return *(const uint32_t *)(const void *)((const char *)ci + ag_lua.layout.ci_status);
}
/* Whether a call with this status is a call of a C function. */
AG_FAST bool ag_lua_status_is_c(uint32_t status) {
    return (status & ag_lua.layout.call_kind) == ag_lua.layout.c_call;
}
/* The Lua function that the call runs; NULL: it is a C function, or cannot be read now. */
const void *ag_lua_closure_of(const lua_State *L, const void *ci);
AG_FAST bool ag_lua_call_is_c(const lua_State *L, const void *ci) {
    return ag_lua.layout.ci_bytes != 0 ? ag_lua_closure_of(L, ci) == NULL
                                       : ag_lua_status_is_c(ag_lua_call_status(ci));
}
AG_FAST void *ag_lua_caller(const lua_State *L, const void *ci) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    if (AG_LIKELY(layout->ci_bytes == 0)) {
        return ag_lua_pointer(ci, layout->ci_previous);
    }
    const bool is_first = ci == ag_lua_pointer(L, layout->state_first_ci);
    return is_first ? NULL : (void *)((uintptr_t)ci - layout->ci_bytes);
}
/* The pc that Lua saved for this call of a Lua function. */
AG_FAST const uint32_t *ag_lua_saved_pc(const lua_State *L, const void *ci) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const bool is_in_state =
        layout->state_saved_pc != 0 && ci == ag_lua_pointer(L, layout->state_ci);
    return is_in_state ? ag_lua_pointer(L, layout->state_saved_pc)
                       : ag_lua_pointer(ci, layout->ci_saved_pc);
}
/* Whether this call of Lua began a call of luaV_execute. */
bool ag_lua_call_is_fresh(const lua_State *L, const void *ci);
/* Sets the bit call_mark of a call of Lua. */
AG_FAST void ag_lua_call_mark(void *ci) {
    uint32_t *status = (uint32_t *)(void *)((char *)ci + ag_lua.layout.ci_status);
    *status |= ag_lua.layout.call_mark;
}
/* The index of a CallInfo in its array. Only if ci_bytes is not 0. */
AG_FAST int ag_lua_call_index(const lua_State *L, const void *ci) {
    const uintptr_t first = (uintptr_t)ag_lua_pointer(L, ag_lua.layout.state_first_ci);
    return (int)(((uintptr_t)ci - first) / ag_lua.layout.ci_bytes);
}
/* The call that a lua_Debug is about; NULL: none (a call that a tail call replaced). */
AG_FAST void *ag_lua_debug_call(const struct ag_lua_debug *debug, const lua_State *L) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    if (AG_LIKELY(layout->ci_bytes == 0)) {
        return ag_lua_pointer(debug, layout->debug_ci);
    }
    const uintptr_t index = (uintptr_t)ag_lua_int(debug, layout->debug_ci);
    const uintptr_t first = (uintptr_t)ag_lua_pointer(L, layout->state_first_ci);
    return index == 0 ? NULL : (void *)(first + index * layout->ci_bytes);
}
AG_FAST void ag_lua_debug_set_call(struct ag_lua_debug *ret_debug, const lua_State *L,
                                   const void *ci) {
    char *at = (char *)ret_debug + ag_lua.layout.debug_ci;
    if (AG_LIKELY(ag_lua.layout.ci_bytes == 0)) {
        *(const void **)(void *)at = ci;
    } else {
        *(int *)(void *)at = ag_lua_call_index(L, ci);
    }
}
/* The bytes in use by Lua's own count. */
AG_FAST int64_t ag_lua_total_bytes(const void *global) {
    const char *at = global;
    const int64_t total = *(const int64_t *)(const void *)(at + ag_lua.layout.global_total);
    if (ag_lua.layout.global_debt == 0) {
        return total;
    }
    const int64_t debt = *(const int64_t *)(const void *)(at + ag_lua.layout.global_debt);
    return ag_lua.layout.is_debt_subtracted ? total - debt : total + debt;
}

AG_FAST uint8_t ag_lua_byte(const void *object, uint16_t offset) {
    return *((const uint8_t *)object + offset);
}
/* The characters of a string of Lua, which end with a NUL; NULL: no string. */
AG_FAST const char *ag_lua_text_of(const void *string) {
    if (!string) {
        return NULL;
    }
    const bool is_long = ag_lua.layout.string_is_long != 0 &&
                         (signed char)ag_lua_byte(string, ag_lua.layout.string_is_long) < 0;
    return is_long ? ag_lua_pointer(string, ag_lua.layout.string_text)
                   : (const char *)string + ag_lua.layout.string_text;
}
AG_FAST bool ag_lua_gc_is_stopped(const void *global) {
    const uint16_t stopped = ag_lua.layout.global_gc_stopped;
    return stopped != 0 && ag_lua_byte(global, stopped) != ag_lua.layout.gc_not_stopped;
}
AG_FAST bool ag_lua_gc_pauses(const void *global) {
    return ag_lua_byte(global, ag_lua.layout.global_gc_state) == ag_lua.layout.gc_pause;
}

AG_FAST uint32_t ag_lua_op_of(uint32_t instruction) {
    return instruction & ((1U << ag_lua.layout.op_bits) - 1);
}
/* Bx, the argument that some instructions have in place of B and C: the bits after A. */
AG_FAST uint32_t ag_lua_bx_of(uint32_t instruction) {
    return instruction >> (ag_lua.layout.op_bits + 8);
}

/* The proto (Lua's compiled code of a function) that a call of Lua code runs; NULL: it cannot be
 * read now. */
const void *ag_lua_proto_of(const lua_State *L, const void *ci);
/* Whether Lua moves the stack of L and the call has an offset in place of an address. Functions of
 * Lua's API must then not be called for this call. */
bool ag_lua_stack_moves(const lua_State *L, const void *ci);
/* The line of the instruction before this pc; 0: unknown. */
uint32_t ag_lua_line_of(const void *proto, const void *pc);
/* The instruction after INSTRUCTION and after the extra argument that may follow it. */
const uint32_t *ag_lua_end_of(const uint32_t *instruction);
/* If END is the end of an instruction of this function that allocates without saving the pc,
 * returns the pc that the instruction would have saved; otherwise NULL. END may be any value. */
const void *ag_lua_unsaved_pc(const void *proto, uintptr_t end);
/* The name that PROTO gives to the CHILD-th function that it defines; NULL: none. */
const char *ag_lua_name_in(const void *proto, uint32_t child);

#endif
