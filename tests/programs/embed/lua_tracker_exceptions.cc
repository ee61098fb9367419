// lua_tracker_exceptions.cc: the checks of tracker_exceptions.cc with Lua's tables as blocks: C++ exceptions leave the callbacks
// of a tracker through Lua's frames, as Lua's own out-of-memory error does. Runs only under `allogram run`. Ends with 0 when all
// checks hold.
#include <cstdio>
#include <stdexcept>

#include <lua.hpp>

#include <allogram/allogram.h>

static unsigned allocs, frees;
static bool throws = true;
static allogram_type table;

static void *on_alloc(void *, const struct allogram_sample *sample) {
    if (sample->type != table) {
        return nullptr;
    }
    allocs++;
    if (throws) {
        throw std::runtime_error("from an alloc");
    }
    return reinterpret_cast<void *>(static_cast<uintptr_t>(sample->address));
}

static void on_free(void *, void *) {
    frees++;
    throw 42;
}

static bool is_wrong(bool holds, const char *what) {
    if (!holds) {
        std::printf("not so: %s\n", what);
    }
    return !holds;
}

int main() {
    lua_State *L = luaL_newstate();
    table = allogram_type_new("table", "lua");
    struct allogram_tracker_options options = {};
    options.size = sizeof(options);
    options.interval_bytes = ALLOGRAM_EVERY_BLOCK;
    options.on_alloc = on_alloc;
    options.on_free = on_free;
    bool wrong = is_wrong(allogram_tracker_start(&options) >= 1, "a tracker starts");
    unsigned caught = 0;
    for (int i = 0; i < 100; i++) {
        try {
            lua_newtable(L);
        } catch (const std::runtime_error &) {
            caught++;
        }
        lua_settop(L, 0);
        lua_gc(L, LUA_GCCOLLECT);
    }
    wrong |= is_wrong(caught == 100 && allocs == 100, "each throws, each is caught");
    wrong |= is_wrong(frees == 0, "what threw has no value");
    throws = false;
    for (int i = 0; i < 100; i++) {
        lua_newtable(L);
        lua_settop(L, 0);
        try {
            lua_gc(L, LUA_GCCOLLECT);
        } catch (int) {
            caught++;
        }
        lua_gc(L, LUA_GCCOLLECT);
    }
    wrong |= is_wrong(caught == 200 && frees == 100, "a death is told once");
    lua_newtable(L);
    wrong |= is_wrong(allocs == 201, "Lua goes on");
    return wrong ? 1 : 0;
}
