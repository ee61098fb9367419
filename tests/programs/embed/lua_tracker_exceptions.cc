/* lua_tracker_exceptions.cc: the checks of throwing_tracker.h with Lua's tables as blocks: the exceptions leave the callbacks
 * through Lua's frames, as Lua's own out-of-memory error does. Runs only under `allogram run`. Ends with 0 when all checks hold. */
#include "throwing_tracker.h"

#include <lua.hpp>

int main() {
    lua_State *L = luaL_newstate();
    bool wrong = track_blocks(
        allogram_type_new("table", "lua"), [L](uint64_t) { lua_newtable(L); },
        [L](uint64_t) {
            lua_settop(L, 0);
            lua_gc(L, LUA_GCCOLLECT);
        });
    lua_newtable(L);
    wrong |= is_wrong(allocs == 201, "Lua works after the exceptions");
    return wrong ? 1 : 0;
}
