/* lua_plugin.c LIBRARY: loads this library of Lua while it runs, as a program with plugins does,
 * and runs a script that allocates a hundred tables. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    if (!found) {
        printf("no %s\n", name);
    }
    return found;
}

int main(int argc, char **argv) {
    static const char script[] =
        "local function tables() local t = {} for i = 1, 100 do t[i] = {} end end tables()";
    void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        return 1;
    }
    void *(*const new_state)(void) = (void *(*)(void))find(library, "luaL_newstate");
    const bool is_5_1 = !dlsym(library, "lua_pcallk"); /* its functions have fewer arguments */
    int (*const load)(void *, const char *, size_t, const char *, const char *) =
        (int (*)(void *, const char *, size_t, const char *, const char *))find(
            library, is_5_1 ? "luaL_loadbuffer" : "luaL_loadbufferx");
    int (*const call)(void *, int, int, int, ptrdiff_t, void *) =
        (int (*)(void *, int, int, int, ptrdiff_t, void *))find(library, is_5_1 ? "lua_pcall"
                                                                                : "lua_pcallk");
    void (*const end)(void *) = (void (*)(void *))find(library, "lua_close");
    void *state = new_state();
    const int status =
        load(state, script, strlen(script), "=plugin", NULL) || call(state, 0, 0, 0, 0, NULL);
    end(state);
    return status;
}
