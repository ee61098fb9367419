/* lua_call_memo.h: remembers the Lua calls of a state between two walks of a thread's stack. */
#ifndef AG_LUA_CALL_MEMO_H
#define AG_LUA_CALL_MEMO_H

#include "lua_states.h"
#include "record/managed_frames.h"

/* The calls of Lua code of one lua_State. */
struct ag_lua_call_memo {
    const lua_State *L; /* NULL: empty */
    const struct ag_lua_state *state;
    uint32_t recording; /* ag_stacks_recording: of the nodes in the runs */
    uint32_t capacity;  /* of the arrays, which are one mapping */
    uint32_t n_calls, n_runs;
    bool is_partial;  /* there are more calls outside of calls[0] */
    bool has_unknown; /* the function of a call was not determined */
    bool is_used;     /* in the current walk */
    /* Of each call, the outermost first; index i of `calls` and of `frames` is the same call. */
    void **calls;
    struct ag_run_frame *frames;
    struct ag_frame_run *runs; /* the outermost first */
};
enum { AG_LUA_MEMOS = 8 };
struct ag_lua_call_memos { /* of one thread */
    uint32_t next;         /* to be replaced, if L has no memo */
    struct ag_lua_call_memo memos[AG_LUA_MEMOS];
};

/* The memo of L, whose runs are those of its calls now; in each run the innermost frame is yet to
 * be set by ag_lua_run_settle. NULL: there is no memory, or the calls are too many. */
struct ag_lua_call_memo *ag_lua_calls_recall(struct ag_lua_call_memos *memos,
                                             struct ag_lua_state *state, lua_State *L);
/* Sets the innermost frame of a run of the memo. end: as in ag_lua_place_of. */
void ag_lua_run_settle(struct ag_lua_call_memo *memo, struct ag_lua_state *state, uint32_t run,
                       uintptr_t end);
/* The walk has ended: every memo may be replaced again. */
void ag_lua_call_memos_release(struct ag_lua_call_memos *memos);

#endif
