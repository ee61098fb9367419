/* lua_pcs.h: finds the pc of a running Lua function (the address of its next bytecode instruction)
 * where Lua has not saved it. */
#ifndef AG_LUA_PCS_H
#define AG_LUA_PCS_H

#include <stdbool.h>
#include <stdint.h>

#include "unwind/stack_walker.h"

/* natives[frame] must belong to luaV_execute, Lua's interpreter, and natives[frame + 1], the frame
 * of its caller, must exist. Returns the end of the bytecode instruction that luaV_execute runs, if
 * it has not saved its pc. 0: it has saved the pc, or the place where it holds the pc is unknown.
 * The caller checks the value by ag_lua_unsaved_pc. Callable from any thread and signal handler. */
uintptr_t ag_lua_end_at(const struct ag_walked_frame *natives, uint32_t frame);
/* Forgets where native functions save the registers of their callers, one of which may hold the pc.
 * Called when shared objects were unloaded. */
void ag_lua_pcs_forget_rules(void);

/* ---- the calibration ---- */

/* Called while a known script runs (lua_calibration.c), so that the instruction is known. Compares
 * the places where luaV_execute may hold its pc with the end of INSTRUCTION. natives[frame] belongs
 * to luaV_execute, which runs this instruction and allocates. */
void ag_lua_pcs_learn(const struct ag_walked_frame *natives, uint32_t frame,
                      const uint32_t *instruction);
/* Ends the calibration and keeps the sites (return addresses in luaV_execute) that were reached at
 * least twice and for which the place of the pc was found. Returns false if it keeps no site, or
 * not all sites. */
bool ag_lua_pcs_settle(void);

#endif
