/* lua_calibration.h: compares the Lua of this process with its row of lua_releases.def. */
#ifndef AG_LUA_CALIBRATION_H
#define AG_LUA_CALIBRATION_H

/* Runs a script in a Lua state that it creates, and compares the values of the fields with Lua's
 * own answers. Finds luaV_execute, luaC_step and luaC_fullgc, which a stripped program does not
 * name. Reads ag_lua.api, .layout and (5.1) .new_userdata; sets .execute, .step, .full and
 * .has_pcs, and for 5.1 learns the types of new blocks (lua_requests.h). Returns 0 if nothing
 * differs; otherwise a negative errno, and *ret_reason says in a few words what differs. Not
 * reentrant. Calls no allocator of the program. */
int ag_lua_calibrate(const char **ret_reason);

#endif
