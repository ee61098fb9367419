/* left_deep.c: a Lua script whose function "dive" allocates below 2 MiB of C frames, and leaves all
 * of these frames by siglongjmp, mostly in the middle of allogram's hook: a handler of SIGTRAP
 * runs after each instruction and jumps at one of them. Then the function "makes" allocates 1000
 * tables.
 *
 * The allocator is stepped_allocator.c, which may be interrupted and left at any place. It cannot
 * serve blocks of 16 KiB and more, such as long arrays of Lua. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include "../say.h"
#include "../single_step.h"

enum { LEVELS = 512, LEVEL_BYTES = 4096 };

static sigjmp_buf place;
static volatile long n_steps, jump_at;
static void *volatile block;

static void on_trap(int number) {
    (void)number;
    if (n_steps++ == jump_at) {
        siglongjmp(place, 1);
    }
}

/* NOLINTNEXTLINE(misc-no-recursion): it has to use the stack */
__attribute__((noinline)) static char allocate_below(int n_levels) {
    volatile char bytes[LEVEL_BYTES];
    bytes[0] = 1;
    if (n_levels > 0) {
        return (char)(allocate_below(n_levels - 1) + bytes[0]);
    }
    step();
    block = malloc(16);
    step_no_more();
    return bytes[0];
}

/* dive(n): jumps after n instructions of the allocation. */
static int dive(lua_State *state) {
    n_steps = 0;
    jump_at = (long)luaL_checkinteger(state, 1);
    if (sigsetjmp(place, 1) == 0) {
        (void)allocate_below(LEVELS);
    }
    return 0;
}

int main(void) {
    struct sigaction action = {.sa_handler = on_trap};
    lua_State *state = luaL_newstate();
    luaL_openlibs(state);
    lua_register(state, "dive", dive);
    if (sigaction(SIGTRAP, &action, NULL) < 0 ||
        luaL_dostring(state, "for n = 20, 600, 20 do dive(n) end\n"
                             "local kept = {}\n"
                             "local function makes(i)\n"
                             "  kept[i % 100 + 1] = {}\n"
                             "end\n"
                             "for i = 1, 1000 do makes(i) end\n") != 0) {
        return 1;
    }
    lua_close(state);
    say("done\n");
    return 0;
}
