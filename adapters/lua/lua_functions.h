/* lua_functions.h: defines the functions of a Lua state in the trace. */
#ifndef AG_LUA_FUNCTIONS_H
#define AG_LUA_FUNCTIONS_H

#include "lua_states.h"

/* The function that a call of Lua code runs, and the line that the call executes. function 0: it
 * cannot be determined. ci: the call's CallInfo, Lua's data of a call. end: the address after the
 * bytecode instruction that the call executes; 0: Lua saved the pc of the call. */
struct ag_lua_place {
    allogram_function function;
    uint32_t line;
};
struct ag_lua_place ag_lua_place_of(struct ag_lua_state *state, lua_State *L, void *ci,
                                    uintptr_t end);
/* Like ag_lua_place_of, but returns only the function. PROTO is the proto (Lua's compiled code of a
 * function) that CI, a call of L, runs. */
allogram_function ag_lua_function_of(struct ag_lua_state *state, const void *proto, lua_State *L,
                                     void *ci);
/* Called when a block that may be a proto is freed: if a known function has this proto, forgets the
 * function. */
void ag_lua_function_forget(struct ag_lua_state *state, const void *proto);
/* Forgets all functions of the state. */
void ag_lua_functions_forget(struct ag_lua_state *state);

#endif
