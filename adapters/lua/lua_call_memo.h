/* lua_call_memo.h: remembers the Lua calls of a state between two walks of a thread's stack. A run
 * is the Lua calls that one call of Lua's interpreter (luaV_execute, a native function)
 * executes. */
#ifndef AG_LUA_CALL_MEMO_H
#define AG_LUA_CALL_MEMO_H

#include "lua_states.h"
#include "record/managed_frames.h"

/* A memo: the calls of Lua code of one lua_State, as the last walk found them. */
struct ag_lua_call_memo {
    const lua_State *L; /* NULL: empty */
    const struct ag_lua_state *state;
    uint32_t recording; /* ag_stacks_recording() when the runs got their nodes in the stack tree;
                         * the number changes when nodes become invalid */
    uint32_t capacity;  /* elements of each array; the arrays are one mapping */
    uint32_t n_calls, n_runs;
    bool is_partial;  /* L has callers of calls[0] that are not in the memo */
    bool has_unknown; /* the function of a call in the memo was not determined */
    bool is_used;     /* the current walk uses this memo */
    /* The calls (addresses of CallInfo), the outermost first; frames[i] belongs to calls[i]. */
    void **calls;
    struct ag_run_frame *frames;
    struct ag_frame_run *runs; /* the outermost first */
};
enum { AG_LUA_MEMOS = 8 };
struct ag_lua_call_memos { /* of one thread */
    uint32_t next;         /* where to look first for a memo to replace, if L has none */
    struct ag_lua_call_memo memos[AG_LUA_MEMOS];
};

/* Returns the memo of L, brought up to date with the active calls of L. The caller must still set
 * the innermost frame of each run, by ag_lua_run_settle. NULL: L has few active calls, there is no
 * memory, the current walk uses all memos, or Lua is 5.1. Then the calls are read one by one. */
struct ag_lua_call_memo *ag_lua_calls_recall(struct ag_lua_call_memos *memos,
                                             struct ag_lua_state *state, lua_State *L);
/* Sets the innermost frame of a run of the memo. end: the address after the bytecode instruction
 * that the call of this frame executes; 0: Lua saved the call's pc. */
void ag_lua_run_settle(struct ag_lua_call_memo *memo, struct ag_lua_state *state, uint32_t run,
                       uintptr_t end);
/* The walk has ended: every memo may be replaced again. */
void ag_lua_call_memos_release(struct ag_lua_call_memos *memos);

#endif
