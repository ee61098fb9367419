/* lua_pcs.h: the pc of a running Lua function where Lua has not saved it. */
#ifndef AG_LUA_PCS_H
#define AG_LUA_PCS_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/stack_walker.h"

/* natives[frame] belongs to luaV_execute and has a caller's frame. Returns the end of the
 * instruction that it runs, where it has not saved its pc; 0: it has saved it, or the place is
 * unknown. The value has to be checked by ag_lua_unsaved_pc. Any thread, signal handlers. */
uintptr_t ag_lua_end_at(const struct ag_walked_frame *natives, uint32_t frame);
/* Objects were unloaded. */
void ag_lua_pcs_forget_rules(void);

/* ---- the calibration ---- */

/* natives[frame] belongs to luaV_execute, which runs this instruction and allocates. */
void ag_lua_pcs_learn(const struct ag_walked_frame *natives, uint32_t frame,
                      const uint32_t *instruction);
/* From here on, what was learned is used; false: the place of the pc is unknown at some site in
 * luaV_execute, or at all of them. */
bool ag_lua_pcs_settle(void);

#endif
