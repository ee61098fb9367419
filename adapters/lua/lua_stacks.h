/* lua_stacks.h: adds the frames of Lua functions to the stacks of a thread. */
#ifndef AG_LUA_STACKS_H
#define AG_LUA_STACKS_H

#include "embed/host_events.h"
#include "hook/kept_call.h"
#include "lua_runtime.h"

/* Notes that a function of lua_entries.def is called. Called from lua_entry.S. */
void ag_lua_entered(struct ag_kept_call *call);
/* The address where each function continues after its detour (the jump at its start). */
extern void *ag_lua_originals[AG_LUA_ENTRIES] AG_HIDDEN;
/* CALLER is the caller of the adapter's allocator. From the call of ag_lua_stacks_keep to that of
 * ag_lua_stacks_let_go, stacks of this thread that contain CALLER's call of the allocator get the
 * Lua frames that were active at the call of keep. If CALLER's call is left by longjmp, let_go must
 * be called before the next reallocation by CALLER. */
void ag_lua_stacks_keep(const struct ag_host_caller *caller);
void ag_lua_stacks_let_go(const struct ag_host_caller *caller);

#endif
