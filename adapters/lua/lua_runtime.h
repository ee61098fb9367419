/* lua_runtime.h: the parts of Lua 5.4 that the adapter (allogram's code for Lua) uses: the C API,
 * and the fields of Lua's structs.
 *
 * Lua's own headers are not needed: this file has the ABI that 5.4 keeps (lua.h), and
 * lua_releases.def has the offsets. Fields are read through functions, by the offsets of the
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
struct ag_lua_debug { /* lua_Debug of lua.h, 5.4 */
    int event;
    const char *name, *name_what, *what, *source;
    size_t source_bytes;
    int line, line_defined, last_line_defined;
    unsigned char n_upvalues, n_parameters;
    char is_vararg, is_tail_call;
    unsigned short first_transferred, n_transferred;
    char short_source[60];
    void *ci;
    char spare[64]; /* a build with a larger LUA_IDSIZE writes into it */
};
typedef void ag_lua_hook(lua_State *L, struct ag_lua_debug *debug);

/* The type of a new block, which Lua passes to its allocator in place of an old size. */
enum ag_lua_tag {
    AG_LUA_TAG_STRING = 4,
    AG_LUA_TAG_TABLE = 5,
    AG_LUA_TAG_FUNCTION = 6,
    AG_LUA_TAG_USERDATA = 7,
    AG_LUA_TAG_THREAD = 8,
    AG_LUA_TAG_UPVALUE = 9,
    AG_LUA_TAG_PROTO = 10,
    AG_LUA_TAGS = 11, /* any other tag: a vector */
};
enum {
    AG_LUA_CALL_IS_C = 1 << 1,     /* CIST_C */
    AG_LUA_CALL_IS_FRESH = 1 << 2, /* CIST_FRESH: this call of Lua began a call of luaV_execute */
    /* a bit that no release uses; a new call begins without it (lua_call_memo.c) */
    AG_LUA_CALL_IS_REMEMBERED = 1 << 15,
    AG_LUA_CLOSURE_TAG = 0x46, /* ctb(LUA_VLCL) */
    AG_LUA_GC_PAUSE = 8,       /* GCSpause: no cycle runs */
};

enum ag_lua_op { /* lopcodes.h of 5.4 */
                 AG_LUA_OP_SETTABUP = 15,
                 AG_LUA_OP_SETFIELD = 18,
                 AG_LUA_OP_NEWTABLE = 19,
                 AG_LUA_OP_SETLIST = 78,
                 AG_LUA_OP_CLOSURE = 79,
                 AG_LUA_OP_EXTRAARG = 82,
};
AG_FAST uint32_t ag_lua_op_of(uint32_t instruction) {
    return instruction & 0x7f;
}

/* A row of lua_releases.def: offsets of fields in Lua's structs, in bytes (state_ci: of `ci` in
 * lua_State), and proto_bytes, the size of a Proto. */
struct ag_lua_release {
    const char *name;
    uint16_t state_global, state_ci, state_stack;
    uint16_t ci_function, ci_previous, ci_saved_pc, ci_status;
    uint16_t closure_proto;
    uint16_t proto_n_code, proto_n_children, proto_n_locals, proto_n_absolute, proto_line;
    uint16_t proto_constants, proto_code, proto_children, proto_lines, proto_absolute;
    uint16_t proto_locals, proto_source, proto_bytes, string_text;
    uint16_t global_total, global_debt, global_gc_state, global_gc_kind, global_gc_stopped;
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
    const struct ag_lua_release *release;
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
    return *(const uint16_t *)(const void *)((const char *)ci + ag_lua.release->ci_status);
}
/* Sets the bit AG_LUA_CALL_IS_REMEMBERED of a call. */
AG_FAST void ag_lua_call_mark(void *ci) {
    uint16_t *status = (uint16_t *)(void *)((char *)ci + ag_lua.release->ci_status);
    *status |= AG_LUA_CALL_IS_REMEMBERED;
}
AG_FAST void *ag_lua_caller(const void *ci) {
    return ag_lua_pointer(ci, ag_lua.release->ci_previous);
}
/* The bytes in use by Lua's own count. */
AG_FAST int64_t ag_lua_total_bytes(const void *global) {
    const char *at = global;
    return *(const int64_t *)(const void *)(at + ag_lua.release->global_total) +
           *(const int64_t *)(const void *)(at + ag_lua.release->global_debt);
}

AG_FAST uint8_t ag_lua_byte(const void *object, uint16_t offset) {
    return *((const uint8_t *)object + offset);
}

/* The proto (Lua's compiled code of a function) that a call of Lua code runs; NULL: it cannot be
 * read now. */
const void *ag_lua_proto_of(const lua_State *L, const void *ci);
/* The line of the instruction before this pc; 0: unknown. */
uint32_t ag_lua_line_of(const void *proto, const void *pc);
/* The instruction after INSTRUCTION and after the extra argument that may follow it. */
AG_FAST const uint32_t *ag_lua_end_of(const uint32_t *instruction) {
    return instruction + (ag_lua_op_of(instruction[1]) == AG_LUA_OP_EXTRAARG ? 2 : 1);
}
/* For an OP_NEWTABLE: whether the table is made with room for its elements. */
AG_FAST bool ag_lua_has_sizes(uint32_t instruction) {
    return instruction >> 15 != 0;
}
/* If END is the end of an instruction of this function that allocates without saving the pc,
 * returns the pc that the instruction would have saved; otherwise NULL. END may be any value. */
const void *ag_lua_unsaved_pc(const void *proto, uintptr_t end);
/* The name that PROTO gives to the CHILD-th function that it defines; NULL: none. */
const char *ag_lua_name_in(const void *proto, uint32_t child);

#endif
