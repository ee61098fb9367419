/* lua_calibration.h: is this Lua as its row of lua_releases.def says? */
#ifndef AG_LUA_CALIBRATION_H
#define AG_LUA_CALIBRATION_H

/* Runs a script in a state of its own and compares what the fields say with what Lua answers; finds
 * luaV_execute, luaC_step and luaC_fullgc, which no table names. Needs ag_lua.api and .release,
 * sets .execute, .step, .full and .has_pcs. 0: all is as it should be; else negative, and
 * *ret_reason says in a few words what is not. Once at a time. Allocates nothing of the host's. */
int ag_lua_calibrate(const char **ret_reason);

#endif
