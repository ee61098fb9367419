/* lua_collections.h: records the collections of Lua's garbage collector. */
#ifndef AG_LUA_COLLECTIONS_H
#define AG_LUA_COLLECTIONS_H

#include "lua_runtime.h"

/* The functions that replace luaC_step and luaC_fullgc, and their originals. */
void ag_lua_step(lua_State *L);
void ag_lua_full(lua_State *L, int is_emergency);
extern void *ag_lua_step_original AG_HIDDEN;
extern void *ag_lua_full_original AG_HIDDEN;

#endif
