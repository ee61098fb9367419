/* lua_calls.h: counts the calls and the allocated words of the functions of a Lua state, if the
 * option --calls was given. */
#ifndef AG_LUA_CALLS_H
#define AG_LUA_CALLS_H

#include "lua_states.h"

extern bool ag_lua_calls_are_wanted AG_HIDDEN;

/* Sets the hook that counts calls, if L has no hook. Called before Lua code runs with L, and only
 * if --calls was given. */
void ag_lua_calls_follow(lua_State *L);
/* The next two functions are called only for a state with counters. The first counts the bytes as
 * words of the running function; the second is called when a block is freed, and forgets the Lua
 * thread that ran last if the block contained it. */
void ag_lua_calls_allocated(struct ag_lua_state *state, size_t bytes);
void ag_lua_calls_freed(struct ag_lua_state *state, const void *block);
/* Called when the state is closed: reports its counts. */
void ag_lua_calls_end(struct ag_lua_state *state);

#endif
