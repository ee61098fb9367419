/* stepped_lua.c: the calls of Lua that stepped.c steps through; Lua's memory comes from the
 * program's malloc. */
#include <lauxlib.h>
#include <lua.h>
#include <stdlib.h>

void prepare_lua(void);
void act_lua(void);

static lua_State *state;

static void *take_memory(void *unused, void *block, size_t old_bytes, size_t new_bytes) {
    (void)unused;
    (void)old_bytes;
    if (new_bytes == 0) {
        free(block);
        return NULL;
    }
    return realloc(block, new_bytes);
}

void prepare_lua(void) {
    state = lua_newstate(take_memory, NULL);
}

void act_lua(void) {
    lua_newtable(state);
    lua_pushstring(state, "a string of more than forty characters, which Lua does not intern");
    lua_settop(state, 0);
}
