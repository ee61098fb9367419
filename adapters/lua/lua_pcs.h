/* lua_pcs.h: the pc of a running Lua function where Lua has not saved it. */
#ifndef AG_LUA_PCS_H
#define AG_LUA_PCS_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/stack_walker.h"

/* natives[frame] is of luaV_execute and has a frame before (outside of) it. The end of the
 * instruction that it runs, where it has not saved its pc; 0: it has, or nobody knows. To be
 * believed only as far as ag_lua_unsaved_pc does. Any thread, signal handlers. */
uintptr_t ag_lua_end_at(const struct ag_walked_frame *natives, uint32_t frame);
/* Objects have gone from memory. */
void ag_lua_pcs_forget_rules(void);

/* ---- the calibration ---- */

/* natives[frame] is of luaV_execute, which runs this instruction and allocates. */
void ag_lua_pcs_learn(const struct ag_walked_frame *natives, uint32_t frame,
                      const uint32_t *instruction);
/* What was learnt is used from here on; false: of some place in luaV_execute, or of all, nobody
 * knows where it has its pc. */
bool ag_lua_pcs_settle(void);

#endif
