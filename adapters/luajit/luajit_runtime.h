/* luajit_runtime.h: the parts of LuaJIT 2.1 that the adapter (allogram's code for LuaJIT) uses:
 * functions of the C API, and fields of LuaJIT's structs.
 *
 * The offsets are those of lj_obj.h and lj_frame.h (github.com/LuaJIT/LuaJIT, branch v2.1), for
 * x86-64 with 64-bit references (LJ_GC64, the default since 2021). luajit_calibration.c compares
 * them with LuaJIT's own answers before they are used. */
#ifndef AG_LUAJIT_RUNTIME_H
#define AG_LUAJIT_RUNTIME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

typedef struct lua_State lua_State;
typedef void *luajit_alloc(void *ud, void *block, size_t old_bytes, size_t new_bytes);
typedef int luajit_function(lua_State *L);
struct luajit_debug { /* lua_Debug of lua.h */
    int event;
    const char *name, *name_what, *what, *source;
    int line, n_upvalues, first_line, last_line;
    char short_source[60];
    int frame; /* index of the frame in the stack, and its distance from the next frame << 16 */
};

enum {
    AG_LUAJIT_INTERNAL = 1237 << 4
}; /* LJ_ALLOCF_INTERNAL: in place of an allocator, requests
                                          * LuaJIT's own */

enum ag_luajit_offset {
    STATE_GLOBAL = 16, /* lua_State */
    STATE_BASE = 32,
    STATE_STACK = 56,
    STATE_C_FRAME = 80,
    STATE_SLOTS = 88,
    OBJECT_TYPE = 9,    /* GCHeader */
    FUNCTION_KIND = 10, /* GCfunc: 0: a Lua function */
    FUNCTION_CODE = 32,
    PROTO_N_CODE = 12, /* GCproto */
    PROTO_CHUNK_NAME = 64,
    PROTO_LINE = 72,
    PROTO_N_LINES = 76,
    PROTO_LINES = 80,
    PROTO_BYTES = 104,     /* the bytecode follows */
    STRING_TEXT = 24,      /* GCstr */
    C_FRAME_N_RESULTS = 8, /* the interpreter's native frame, from its lowest address on */
    C_FRAME_STATE = 16,
    C_FRAME_PC = 24,
    C_FRAME_PREVIOUS = 32,
    C_FRAME_RBP = 64,
    C_FRAME_RETURN = 72,
};

/* A slot of the stack of a lua_State (TValue): a tag in the upper bits, and a pointer. */
#define AG_LUAJIT_POINTER(slot) ((slot) & ((UINT64_C(1) << 47) - 1))
#define AG_LUAJIT_TAG(slot) ((slot) >> 47)
enum {
    AG_LUAJIT_FUNCTION_TYPE = 8, /* ~LJ_TFUNC */
    AG_LUAJIT_FUNCTION_TAG = 0x1fff7,
    AG_LUAJIT_MARKED_TAG = 0x1fff8, /* LJ_TPROTO: see luajit_frames.c */
};
/* The lower bits of a frame's link: how the frame was called (FRAME_LUA ... of lj_frame.h). */
enum {
    AG_LUAJIT_KIND = 7,
    AG_LUAJIT_BY_LUA = 0, /* the two lower bits; the link is the caller's pc */
    AG_LUAJIT_BY_C = 1,   /* the two lower bits */
    AG_LUAJIT_BY_METAMETHOD = 2,
    AG_LUAJIT_VARIADIC = 3,     /* a call's second frame, with its fixed arguments */
    AG_LUAJIT_FFI_CALLBACK = 1, /* LJ_CONT_FFI_CALLBACK, in place of a metamethod's continuation */
};

/* The LuaJIT of this process. The functions are the originals, past the adapter's detours. */
struct ag_luajit {
    lua_State *(*new_state)(luajit_alloc *allocate, void *ud);
    luajit_alloc *(*get_allocator)(lua_State *L, void **ret_ud);
    void (*set_allocator)(lua_State *L, luajit_alloc *allocate, void *ud);
    void (*close)(lua_State *L);
    int (*collect)(lua_State *L, int what, int data);
    /* for frames */
    int (*get_info)(lua_State *L, const char *what, struct luajit_debug *debug);
    int (*get_stack)(lua_State *L, int level, struct luajit_debug *ret_debug);
    int (*load)(lua_State *L, const char *text, size_t bytes, const char *name);
    int (*pcall)(lua_State *L, int n_arguments, int n_results, int handler);
    void (*push_function)(lua_State *L, luajit_function *function, int n_values);
    lua_State *(*new_thread)(lua_State *L);
    int (*resume)(lua_State *L, int n_arguments);
    /* found by the calibration */
    uintptr_t interpreter;   /* where the interpreter's code begins; 0: frames cannot be read */
    uint32_t global_running; /* global_State: the running lua_State; the next word is the base of
                              * the frame in which compiled code runs, or NULL */
};
extern struct ag_luajit ag_luajit AG_HIDDEN;

AG_FAST uintptr_t ag_luajit_word(uintptr_t object, size_t offset) {
    return *(const uintptr_t *)(object + offset); // NOLINT(performance-no-int-to-ptr)
}
AG_FAST uint32_t ag_luajit_int(uintptr_t object, size_t offset) {
    return *(const uint32_t *)(object + offset); // NOLINT(performance-no-int-to-ptr)
}
AG_FAST uint8_t ag_luajit_byte(uintptr_t object, size_t offset) {
    return *(const uint8_t *)(object + offset); // NOLINT(performance-no-int-to-ptr)
}
/* The newest native frame of the interpreter that runs L, without the flags in its lower bits. 0:
 * L does not run. */
AG_FAST uintptr_t ag_luajit_c_frame(uintptr_t L) {
    return ag_luajit_word(L, STATE_C_FRAME) & ~(uintptr_t)3;
}

/* Compares LuaJIT with the offsets above, in a state of its own. Sets ag_luajit.interpreter and
 * .global_running. Returns false if anything differs. */
bool ag_luajit_calibrate(void);

#endif
