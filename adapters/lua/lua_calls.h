/* lua_calls.h: counts calls and words of the functions of a state, with --calls. */
#ifndef AG_LUA_CALLS_H
#define AG_LUA_CALLS_H

#include "lua_states.h"

extern bool ag_lua_calls_are_wanted AG_HIDDEN;

/* Lua code is about to run with L. Called only with --calls. */
void ag_lua_calls_follow(lua_State *L);
/* For a state with counters: counts the bytes for its running function; forgets a block that is
 * freed. */
void ag_lua_calls_allocated(struct ag_lua_state *state, size_t bytes);
void ag_lua_calls_freed(struct ag_lua_state *state, const void *block);
/* The state is closed: reports what was counted. */
void ag_lua_calls_end(struct ag_lua_state *state);

#endif
