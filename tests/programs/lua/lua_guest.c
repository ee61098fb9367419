/* lua_guest.c SCRIPT CASE: Lua embedded in a program, with an allocator of the program that counts
 * Lua's blocks by type. Calls the function CASE of the script and prints the counts as JSON, for
 * the conformance tests of adapters (tests/conformance/adapter_kit.py). CASE `threads` calls the
 * function `counts` in four threads, each with a Lua state of its own. */
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <allogram/allogram.h>

enum { TAGS = 11, HEADER_BYTES = 16 };
/* 5.1 passes no types to the allocator: "any" counts all blocks. */
static const char *const names[TAGS] = {[0] = LUA_VERSION_NUM == 501 ? "any" : "vector",
                                        "",
                                        "",
                                        "",
                                        [4] = "string",
                                        [5] = "table",
                                        [6] = "closure",
                                        [7] = "userdata",
                                        [8] = "thread",
                                        [9] = LUA_VERSION_NUM >= 504 ? "upvalue" : "proto",
                                        [10] = LUA_VERSION_NUM == 502 ? "upvalue" : "proto"};
static _Atomic uint64_t allocated_blocks[TAGS], allocated_bytes[TAGS], in_use_blocks[TAGS];
static const char *script;
static bool refuses_first, has_refused;

/* ---- the allocator ---- */

struct header {
    size_t tag;
};

static void *take(size_t tag, size_t bytes) {
    struct header *header = malloc(HEADER_BYTES + bytes);
    if (!header) {
        return NULL;
    }
    header->tag = tag;
    allocated_blocks[tag]++;
    allocated_bytes[tag] += bytes;
    in_use_blocks[tag]++;
    return (char *)header + HEADER_BYTES;
}

static void give(void *block) {
    struct header *header = (struct header *)((char *)block - HEADER_BYTES);
    in_use_blocks[header->tag]--;
    free(header);
}

static void *count(void *ud, void *block, size_t old_bytes, size_t new_bytes) {
    if (*(const int *)ud != 4711) {
        abort(); /* the pointer given to lua_newstate must be passed to every call */
    }
    if (new_bytes == 0) {
        if (block) {
            give(block);
        }
        return NULL;
    }
    if (refuses_first && !block) {
        has_refused = !has_refused;
        if (has_refused) {
            return NULL;
        }
    }
    void *made = take(block || old_bytes >= TAGS ? 0 : old_bytes, new_bytes);
    if (made && block) {
        memcpy(made, block, old_bytes < new_bytes ? old_bytes : new_bytes);
        give(block);
    }
    return made;
}

static void print_truth(void) {
    static const char *between = "";
    printf("{\"pid\": %d, \"types\": {", (int)getpid());
    for (int tag = 0; tag < TAGS; tag++) {
        if (allocated_blocks[tag] != 0) {
            printf("%s\"%s\": [%llu, %llu, %llu]", between, names[tag],
                   (unsigned long long)allocated_blocks[tag],
                   (unsigned long long)allocated_bytes[tag],
                   (unsigned long long)in_use_blocks[tag]);
            between = ", ";
        }
    }
    printf("}}\n");
    fflush(stdout);
    between = "";
}

/* ---- functions that scripts call ---- */

static int call_back(lua_State *L) {
    lua_settop(L, 1);
    lua_call(L, 0, 1);
    return 1;
}

static int take_native(lua_State *L) {
    void *volatile block = malloc((size_t)luaL_checkinteger(L, 1));
    return block ? 0 : luaL_error(L, "no memory");
}

static int new_userdata(lua_State *L) {
    (void)lua_newuserdata(L, (size_t)luaL_checkinteger(L, 1));
    return 1;
}

/* A tracker (callbacks for sampled blocks, allogram.h). Its callback raises a Lua error when a
 * block of the given size is allocated. */
static struct {
    lua_State *L;
    size_t bytes;
} raising;

static void *raise_now(void *unused, const struct allogram_sample *sample) {
    (void)unused;
    if (sample->bytes == raising.bytes) {
        lua_pushboolean(raising.L, 1);
        (void)lua_error(raising.L);
    }
    return NULL;
}

static int raise_at(lua_State *L) {
    const struct allogram_tracker_options options = {
        .size = sizeof(options), .interval_bytes = ALLOGRAM_EVERY_BLOCK, .on_alloc = raise_now};
    raising.L = L;
    raising.bytes = (size_t)luaL_checkinteger(L, 1);
    if (allogram_tracker_start(&options) < 1) {
        return luaL_error(L, "no tracker");
    }
    return 0;
}

static int raise_no_more(lua_State *L) {
    return allogram_tracker_stop() == 0 ? 0 : luaL_error(L, "no tracker");
}

/* Refuses every new block once. Lua then runs a collection, and requests the block again. */
static int refuse_first(lua_State *L) {
    refuses_first = lua_toboolean(L, 1);
    has_refused = false;
    return 0;
}

static int fork_and_go_on(lua_State *L) {
    fflush(stdout);
    const pid_t child = fork();
    if (child != 0) {
        (void)waitpid(child, NULL, 0);
    }
    lua_pushboolean(L, child == 0);
    return 1;
}

static int end(lua_State *L) {
    const char *how = luaL_checkstring(L, 1);
    print_truth();
    if (strcmp(how, "exit") == 0) {
        exit(3);
    } else if (strcmp(how, "_exit") == 0) {
        _exit(4);
    } else if (strcmp(how, "quick_exit") == 0) {
        quick_exit(5);
    } else if (strcmp(how, "abort") == 0) {
        abort();
    }
    raise(SIGKILL);
    return 0;
}

static int ud = 4711;

static lua_State *make_state(void) {
    static const luaL_Reg natives[] = {{"call_back", call_back},
                                       {"take_native", take_native},
                                       {"new_userdata", new_userdata},
                                       {"fork_and_go_on", fork_and_go_on},
                                       {"raise_at", raise_at},
                                       {"raise_no_more", raise_no_more},
                                       {"refuse_first", refuse_first},
                                       {"end_by", end},
                                       {NULL, NULL}};
    /* 5.5 has the argument `seed`, which the older functions ignore */
    const volatile uintptr_t address = (uintptr_t)lua_newstate;
    lua_State *(*const new_state)(lua_Alloc, void *, unsigned) =
        (lua_State * (*)(lua_Alloc, void *, unsigned)) address;
    lua_State *L = new_state(count, &ud, /* seed= */ 0);
    void *same = NULL;
    if (lua_getallocf(L, &same) != count || same != &ud) {
        abort(); /* lua_getallocf must return this program's allocator, not that of allogram's
                  * adapter */
    }
    luaL_openlibs(L);
    for (const luaL_Reg *native = natives; native->name; native++) {
        lua_pushcfunction(L, native->func);
        lua_setglobal(L, native->name);
    }
    if (luaL_dofile(L, script)) {
        fprintf(stderr, "lua_guest: %s\n", lua_tostring(L, -1));
        exit(9);
    }
    return L;
}

static void run_case(lua_State *L, const char *name) {
    lua_getglobal(L, name);
    if (lua_pcall(L, 0, 0, 0) != 0) {
        fprintf(stderr, "lua_guest: %s\n", lua_tostring(L, -1));
        exit(9);
    }
}

static void *run_in_thread(void *name) {
    lua_State *L = make_state();
    run_case(L, name);
    lua_close(L);
    return NULL;
}

static void run_threads(void) {
    enum { THREADS = 4 };
    pthread_t threads[THREADS];
    static char name[] = "counts";
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&threads[i], NULL, run_in_thread, name) != 0) {
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: lua_guest SCRIPT CASE\n");
        return 2;
    }
    script = argv[1];
    if (strcmp(argv[2], "threads") == 0) {
        run_threads();
    } else {
        lua_State *L = make_state();
        run_case(L, argv[2]);
        if (strcmp(argv[2], "deaths") == 0) {
            lua_close(L);
        }
    }
    print_truth();
    return 0;
}
