/* tracker_blocks_lua.c: the blocks of tracker_blocks.h, allocated by a script of Lua: its tables
 * (for blocks that grow, their arrays; in blocks_new_periodic, userdata), which Lua's collector
 * frees. Works only under `allogram run`, where allogram's adapter for Lua reports the blocks.
 *
 * A place is a group of blocks: bits 32 to 39 of a block's name are the number of its place. Each
 * place has a Lua state of its own with an allocator of its own, which takes nothing from malloc.
 * So a place may be used in a signal handler, and blocks_start_over can discard the Lua state of a
 * place without lua_close: the next state reuses the arena. */
#include "tracker_blocks.h"

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum {
    PLACES = 256,
    ARENA_BYTES = 32 << 20,
    CLASSES = 4096, /* size classes, 16 bytes apart; larger blocks are not reused */
};

static const char script[] =
    "local kept = {}\n"
    "local together = {}\n"
    "for n = 1, 16 do together[n] = load('return ' .. ('{}'):rep(n, ',')) end\n"
    "local function keep(name, one, ...)\n"
    "  if one then kept[name] = one return keep(name + 1, ...) end\n"
    "end\n"
    "function make(name) kept[name] = {} end\n"
    "function make_together(first, n) keep(first, together[n]()) end\n"
    "function drop(first, n)\n"
    "  for i = first, first + n - 1 do kept[i] = nil end\n"
    "  collectgarbage()\n"
    "end\n"
    "local growing\n"
    "function make_growing() growing = { 1, 2, 3, 4 } end\n"
    "function grow()\n" /* one element more than there is room for: Lua doubles the array */
    "  growing[#growing + 1] = true\n"
    "  for i = #growing + 1, 2 * (#growing - 1) do growing[i] = true end\n"
    "end\n"
    "function periodic(n, one, other)\n"
    "  for i = 0, n - 1 do userdata(i % 2 == 0 and one or other) end\n"
    "end\n"
    "function find(name) return kept[name] end\n";

allogram_heap blocks_heap;
const bool blocks_come_together = false;
__thread jmp_buf blocks_out;
static allogram_type table, vector;

static struct place {
    lua_State *L;
    char *arena;
    size_t used_bytes;
    void *free[CLASSES];
    uint64_t allocated_bytes; /* bytes allocated since the start, plus one byte for each block */
} places[PLACES];

static __thread struct doing { /* the call of a script function that this thread runs */
    lua_State *L;
    /* type of the blocks that the rule (the running test) counts in this call; 0 if it counts
     * none */
    allogram_type wanted;
    uint64_t name;    /* name of the block of the last sample; before that, of the first block */
    uint64_t address; /* address in the last sample; 0: there was no sample yet */
} now;

static void fail(const char *why) {
    printf("lua: %s\n", why);
    exit(1);
}

/* ---- the allocator ---- */

static void *take(struct place *place, size_t bytes) {
    const size_t class = (bytes + 15) / 16;
    place->allocated_bytes += bytes + 1;
    if (class < CLASSES && place->free[class]) {
        void *block = place->free[class];
        memcpy(&place->free[class], block, sizeof(block));
        return block;
    }
    if (class * 16 > ARENA_BYTES - place->used_bytes) {
        return NULL;
    }
    void *block = place->arena + place->used_bytes;
    place->used_bytes += class * 16;
    return block;
}

static void give(struct place *place, void *block, size_t bytes) {
    const size_t class = (bytes + 15) / 16;
    if (class > 0 && class < CLASSES) {
        memcpy(block, &place->free[class], sizeof(block));
        place->free[class] = block;
    }
}

static void *allocate(void *ud, void *block, size_t old_bytes, size_t new_bytes) {
    struct place *place = ud;
    void *made = new_bytes ? take(place, new_bytes) : NULL;
    if (block && (made || new_bytes == 0)) {
        if (made) {
            memcpy(made, block, old_bytes < new_bytes ? old_bytes : new_bytes);
        }
        give(place, block, old_bytes);
    }
    return made;
}

/* ---- places ---- */

static int new_userdata(lua_State *L) {
    (void)lua_newuserdata(L, (size_t)luaL_checkinteger(L, 1));
    return 0;
}

static struct place *place_of(uint64_t name) {
    struct place *place = &places[name >> 32 & (PLACES - 1)];
    if (place->L) {
        return place;
    }
    if (!place->arena) {
        void *arena = mmap(NULL, ARENA_BYTES, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (arena == MAP_FAILED) {
            fail("no memory");
        }
        place->arena = arena;
    }
    place->L = lua_newstate(allocate, place);
    if (!place->L) {
        fail("the Lua state cannot be created");
    }
    luaL_openlibs(place->L);
    lua_register(place->L, "userdata", new_userdata);
    if (luaL_dostring(place->L, script)) {
        fail(lua_tostring(place->L, -1));
    }
    return place;
}

void blocks_start_over(uint64_t name) {
    struct place *place = place_of(name);
    place->L = NULL;
    place->used_bytes = 0;
    memset(place->free, 0, sizeof(place->free));
    (void)place_of(name);
}

/* Calls the script's function with up to three integers; its result is left on the stack. */
static void call(uint64_t name, allogram_type wanted, const char *function, int n_arguments,
                 const uint64_t *arguments) {
    struct place *place = place_of(name);
    const struct doing before = now; /* a signal handler or a callback may interrupt another call */
    lua_settop(place->L, 0);
    lua_getglobal(place->L, function);
    for (int i = 0; i < n_arguments; i++) {
        lua_pushinteger(place->L, (lua_Integer)arguments[i]);
    }
    now = (struct doing){.L = place->L, .wanted = wanted, .name = name};
    const int r = lua_pcall(place->L, n_arguments, 1, 0);
    now = before;
    if (r != LUA_OK && lua_islightuserdata(place->L, -1)) { /* from blocks_leave */
        longjmp(blocks_out, 1);
    } else if (r != LUA_OK) {
        fail(lua_tostring(place->L, -1));
    }
}

void blocks_leave(void) {
    lua_pushlightuserdata(now.L, &now);
    (void)lua_error(now.L);
    abort();
}

/* ---- what the rules do ---- */

void blocks_begin(void) {
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "lua", .allocator = "lua", .runtime = "lua"};
    blocks_heap =
        allogram_heap_new(&options); /* the same heap as the adapter's, because the names are the
                                      * same */
    table = allogram_type_new("table", "lua");
    vector = allogram_type_new("vector", "lua");
    for (uint64_t i = 0; i < 16; i++) { /* creates the first Lua states now, because their
                                         * allocations would disturb a rule */
        (void)place_of(IN(i, 0));
    }
}

bool blocks_have(const struct allogram_sample *sample) {
    return now.wanted != 0 && sample->type == now.wanted;
}

uint64_t blocks_name(const struct allogram_sample *sample) {
    now.name += now.address != 0 && now.address != sample->address;
    now.address = sample->address;
    return now.name;
}

void block_new(uint64_t name) {
    call(name, table, "make", 1, &name);
}

void blocks_new_together(uint64_t first, size_t n) {
    call(first, table, "make_together", 2, (const uint64_t[]){first, n});
}

void blocks_free_all(uint64_t first, size_t n) {
    call(first, 0, "drop", 2, (const uint64_t[]){first, n});
}

void block_free(uint64_t name) {
    blocks_free_all(name, 1);
}

void block_new_growing(uint64_t name) {
    call(name, vector, "make_growing", 0, NULL);
}

void block_grow(uint64_t name, uint64_t new_name) {
    (void)name;
    call(new_name, vector, "grow", 0, NULL);
}

uint64_t blocks_new_periodic(size_t n, size_t one, size_t other) {
    struct place *place = place_of(0);
    const uint64_t before = place->allocated_bytes;
    call(0, 0, "periodic", 3, (const uint64_t[]){n, one, other});
    return place->allocated_bytes - before;
}

static uint64_t address_of(uint64_t name) {
    call(name, 0, "find", 1, &name);
    return (uintptr_t)lua_topointer(place_of(name)->L, -1);
}

/* No event of Lua corresponds to allogram_promote or allogram_complete, so these functions call
 * them for a table. */
void block_promote(uint64_t name) {
    allogram_promote(blocks_heap, address_of(name));
}

void block_complete(uint64_t name) {
    allogram_complete(blocks_heap, address_of(name));
}
