/* lua_calls.h: calls and words of the functions of a state, where they are asked for (--calls). */
#ifndef AG_LUA_CALLS_H
#define AG_LUA_CALLS_H

#include "lua_states.h"

extern bool ag_lua_calls_are_wanted AG_HIDDEN;

/* Lua code will be run with L. Only where calls are wanted. */
void ag_lua_calls_follow(lua_State *L);
/* Of a state with counters: what it allocates is its running function's; a block of it goes. */
void ag_lua_calls_allocated(struct ag_lua_state *state, size_t bytes);
void ag_lua_calls_freed(struct ag_lua_state *state, const void *block);
/* The state is closed: what was counted is told. */
void ag_lua_calls_end(struct ag_lua_state *state);

#endif
