/* lua_stacks.h: the frames of Lua functions in the stacks of a thread. */
#ifndef AG_LUA_STACKS_H
#define AG_LUA_STACKS_H

#include "embed/host_events.h"
#include "hook/kept_call.h"
#include "lua_runtime.h"

/* A function of lua_entries.def is called. Called from lua_entry.S. */
void ag_lua_entered(struct ag_kept_call *call);
extern void *ag_lua_originals[AG_LUA_ENTRIES] AG_HIDDEN; /* where each continues */
/* Between keep and let_go, the frames of this thread stay those of the call of keep. let_go may be
 * missed (the call is left by longjmp) if it is called at the next realloc by the same caller. */
void ag_lua_stacks_keep(const struct ag_host_caller *caller);
void ag_lua_stacks_let_go(const struct ag_host_caller *caller);

#endif
