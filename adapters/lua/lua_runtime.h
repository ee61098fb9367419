/* lua_runtime.h: the parts of Lua 5.2 to 5.4 that the adapter (allogram's code for Lua) uses: the
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
    AG_LUA_VALUE_TAG = 8,      /* the offset of the tag in a TValue */
    AG_LUA_CLOSURE_TAG = 0x46, /* of a Lua function */
    AG_LUA_STRING_TAG = 0x44,  /* of a string, without the bit that distinguishes long strings */
    AG_LUA_STRING_TAG_BITS = 0x4f,
};

/* A layout of lua_releases.def. Offsets are in bytes; a name like state_ci is the offset of the
 * field `ci` in lua_State. A field that a release does not have is 0. */
struct ag_lua_layout {
    uint16_t state_global, state_ci, state_stack;
    uint16_t ci_function, ci_previous, ci_saved_pc, ci_status;
    /* Bits of CallInfo.callstatus. call_kind: the bit that distinguishes calls of Lua functions
     * from calls of C functions (CIST_LUA, CIST_C); c_call: its value for a C function. A call of
     * Lua for which luaV_execute was called has the value fresh_value in the bits fresh_bits
     * (CIST_FRESH). call_mark: a bit that the release does not use for calls of Lua; a new call
     * begins without it (lua_call_memo.c) */
    uint16_t call_kind, c_call, fresh_bits, fresh_value, call_mark;
    uint16_t before_state; /* LUA_EXTRASPACE: the offset of a lua_State in its block */
    /* 1: luaV_execute has its pc in a local variable, and not always saves it (lua_pcs.c) */
    uint16_t keeps_pc_in_variable;
    /* 1: for a tail call, Lua calls the hook with a new CallInfo, and then lets the function run in
     * the CallInfo of the function that called it */
    uint16_t hooks_tail_calls_early;
    uint16_t debug_line, debug_short_source, debug_ci; /* in lua_Debug; the line of the definition
                                                        * is the int after debug_line */
    uint16_t closure_proto, string_text;
    /* proto_bytes: the size of a Proto. proto_absolute 0: proto_lines has a line (int) for each
     * instruction; otherwise it has differences (signed char), see ag_lua_line_of. */
    uint16_t proto_n_code, proto_n_children, proto_n_locals, proto_n_absolute, proto_line;
    uint16_t proto_constants, proto_code, proto_children, proto_lines, proto_absolute;
    uint16_t proto_locals, proto_source, proto_bytes;
    uint16_t global_total, global_debt, global_gc_state, global_gc_kind, global_gc_stopped;
    uint8_t gc_not_stopped; /* the value of global_gc_stopped while the collector is not stopped */
    uint8_t gc_pause;       /* GCSpause: no cycle runs */
    uint8_t gc_finalizes;   /* the state in which a full collection calls finalizers */
    uint8_t tag_upvalue, tag_proto; /* tags of new blocks; tag_upvalue 0: an upvalue has no tag */
    /* An instruction has, from the lowest bit on, an opcode of op_bits, and A, of 8 bits. B and C
     * are read as 8 bits. The masks have the bit of an instruction that is set if B or C is a
     * constant and not a register; b_is_constant 0: in set_global and set_field, B is always a
     * constant. */
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
    struct ag_lua_layout layout;       /* a copy, so that a field is read without a pointer */
    uintptr_t execute;                 /* where luaV_execute begins */
    uintptr_t step, full;              /* luaC_step and luaC_fullgc */
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
AG_FAST uint16_t ag_lua_call_status(const void *ci) {
    return *(const uint16_t *)(const void *)((const char *)ci + ag_lua.layout.ci_status);
}
/* Whether a call with this status is a call of a C function. */
AG_FAST bool ag_lua_status_is_c(uint16_t status) {
    return (status & ag_lua.layout.call_kind) == ag_lua.layout.c_call;
}
AG_FAST bool ag_lua_call_is_c(const void *ci) {
    return ag_lua_status_is_c(ag_lua_call_status(ci));
}
/* Whether this call of a Lua function has executed no instruction yet. */
AG_FAST bool ag_lua_call_begins(const void *ci) {
    const struct ag_lua_layout *layout = &ag_lua.layout;
    const void *closure = ag_lua_pointer(ag_lua_pointer(ci, layout->ci_function), 0);
    const void *proto = ag_lua_pointer(closure, layout->closure_proto);
    return ag_lua_pointer(ci, layout->ci_saved_pc) == ag_lua_pointer(proto, layout->proto_code);
}
/* Whether this call of Lua began a call of luaV_execute. In 5.2 (fresh_value 0) the bits of a call
 * that has executed no instruction do not say that: luaD_precall, which may run the collector,
 * prepares the call before luaV_execute is called or goes on. */
AG_FAST bool ag_lua_call_is_fresh(const void *ci) {
    return (ag_lua_call_status(ci) & ag_lua.layout.fresh_bits) == ag_lua.layout.fresh_value &&
           (ag_lua.layout.fresh_value != 0 || !ag_lua_call_begins(ci));
}
/* Sets the bit call_mark of a call of Lua. */
AG_FAST void ag_lua_call_mark(void *ci) {
    uint16_t *status = (uint16_t *)(void *)((char *)ci + ag_lua.layout.ci_status);
    *status |= ag_lua.layout.call_mark;
}
AG_FAST void *ag_lua_caller(const void *ci) {
    return ag_lua_pointer(ci, ag_lua.layout.ci_previous);
}
/* The bytes in use by Lua's own count. */
AG_FAST int64_t ag_lua_total_bytes(const void *global) {
    const char *at = global;
    return *(const int64_t *)(const void *)(at + ag_lua.layout.global_total) +
           *(const int64_t *)(const void *)(at + ag_lua.layout.global_debt);
}

AG_FAST uint8_t ag_lua_byte(const void *object, uint16_t offset) {
    return *((const uint8_t *)object + offset);
}
AG_FAST bool ag_lua_gc_is_stopped(const void *global) {
    return ag_lua_byte(global, ag_lua.layout.global_gc_stopped) != ag_lua.layout.gc_not_stopped;
}
AG_FAST bool ag_lua_gc_pauses(const void *global) {
    return ag_lua_byte(global, ag_lua.layout.global_gc_state) == ag_lua.layout.gc_pause;
}

AG_FAST uint32_t ag_lua_op_of(uint32_t instruction) {
    return instruction & ((1U << ag_lua.layout.op_bits) - 1);
}
/* The argument of an instruction that has no other: the bits after A. */
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
AG_FAST const uint32_t *ag_lua_end_of(const uint32_t *instruction) {
    return instruction + (ag_lua_op_of(instruction[1]) == ag_lua.layout.op_extra ? 2 : 1);
}
/* If END is the end of an instruction of this function that allocates without saving the pc,
 * returns the pc that the instruction would have saved; otherwise NULL. END may be any value. */
const void *ag_lua_unsaved_pc(const void *proto, uintptr_t end);
/* The name that PROTO gives to the CHILD-th function that it defines; NULL: none. */
const char *ag_lua_name_in(const void *proto, uint32_t child);

#endif
