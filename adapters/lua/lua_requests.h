/* lua_requests.h: the types of new blocks in Lua 5.1, which passes no type to its allocator. */
#ifndef AG_LUA_REQUESTS_H
#define AG_LUA_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lua_runtime.h"

/* The type (enum ag_lua_tag, 0: a vector) of the block that Lua requests now. sp and rbp are the
 * registers of Lua's call of the allocator. Callable from any thread and signal handler. */
size_t ag_lua_requests_tag(const uintptr_t *sp, uintptr_t rbp);

/* ---- the calibration ---- */

/* Notes a request and the block that it got. No block may be freed between the first note and
 * ag_lua_requests_learn, because the address of a block identifies its request. */
void ag_lua_requests_note(const void *block, const uintptr_t *sp, uintptr_t rbp);
/* Compares the noted requests with the objects of L, which made them. Returns false if the return
 * addresses do not determine the types of the blocks, if a type did not occur, or if there was no
 * room for all notes. Must be called before ag_lua_requests_tag. */
bool ag_lua_requests_learn(const lua_State *L);

#endif
