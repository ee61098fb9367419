/* luajit_adapter.c: records the blocks of LuaJIT 2.1. LuaJIT may be in libluajit-5.1.so or in the
 * program itself.
 *
 * 1. The allocator. All memory that collectgarbage("count") counts passes through the allocator
 * function of a state, also the memory that compiled traces allocate. The adapter passes a function
 * of its own to lua_newstate. That function calls the allocator of the host (the program that
 * contains LuaJIT) and reports the block. Blocks have no types, because LuaJIT does not pass the
 * kind of an object. luajit_frames.c adds the frames of Lua functions to the stacks.
 *
 * 2. The internal allocator. A state normally uses LuaJIT's own allocator, which maps its memory
 * directly. luaL_newstate requests it by a marker, a constant in place of a function. Each state
 * has an internal allocator of its own. So for each state that is requested with the marker, the
 * adapter makes a second state, the owner, and takes the owner's allocator function and data from
 * lua_getallocf. The requested state is made with the adapter's function, which forwards to the
 * allocator of the owner. The last block that a state frees is the state itself. Then the owner is
 * closed, which unmaps the memory. An owner takes some 25 KiB, and is not recorded.
 *
 * 3. Older releases do not know the marker, and would call it as a function. So the adapter looks
 * for the marker in the code of luaL_newstate. If the marker is not there, nothing is changed.
 *
 * 4. The program cannot observe the adapter: the detours of lua_getallocf and lua_setallocf hide
 * the adapter's function. */
#include <stdatomic.h>
#include <string.h>

#include "allogram/allogram.h"
#include "base/join_text.h"
#include "base/pages.h"
#include "embed/adapter.h"
#include "embed/host_events_fast.h"
#include "hook/detour.h"
#include "hook/kept_call.h"
#include "hook/next_symbol.h"
#include "luajit_frames.h"
#include "record/recorder.h"

extern const struct ag_adapter ag_adapter_luajit;

enum {
    COUNT = 3,       /* LUA_GCCOUNT: KiB in use */
    COUNT_BYTES = 4, /* LUA_GCCOUNTB: the bytes in use beyond these KiB */
};

struct ag_luajit ag_luajit;

/* A recorded state. It is used by one thread at a time, as the state itself. */
struct luajit_state {
    luajit_alloc *allocate; /* the host's allocator */
    void *ud;
    lua_State *owner;       /* has the internal allocator; NULL: the program passed an allocator */
    void *first_block;      /* the block of the state itself, which is freed last */
    _Atomic(lua_State *) L; /* NULL: the state is being made, or is closed */
    int64_t in_use_bytes;
    struct { /* the old stack of a lua_State that was reallocated */
        void *block;
        size_t bytes;
    } left; /* freed at the next call of the allocator; block NULL: none */
    struct ag_luajit_frames frames;
    struct luajit_state *next; /* in the list of all states; never removed */
    _Atomic uint32_t is_taken; /* 0: the state is closed, and the struct may be used again */
};
static struct luajit_state *_Atomic newest;
static allogram_heap heap;

/* ---- states ---- */

static struct luajit_state *take_state(void) {
    struct luajit_state *state = atomic_load_explicit(&newest, memory_order_acquire);
    for (; state; state = state->next) {
        uint32_t is_taken = 0;
        if (atomic_compare_exchange_strong_explicit(&state->is_taken, &is_taken, 1,
                                                    memory_order_acquire, memory_order_relaxed)) {
            break;
        }
    }
    if (!state) {
        state = ag_pages_map(sizeof(*state));
        if (!state) {
            return NULL;
        }
        atomic_store_explicit(&state->is_taken, 1, memory_order_relaxed);
        struct luajit_state *head = atomic_load_explicit(&newest, memory_order_relaxed);
        do {
            state->next = head;
        } while (!atomic_compare_exchange_weak_explicit(&newest, &head, state, memory_order_release,
                                                        memory_order_relaxed));
    }
    state->owner = NULL;
    state->first_block = NULL;
    state->in_use_bytes = 0;
    state->left.block = NULL;
    return state;
}

static void give_up_state(struct luajit_state *state) {
    atomic_store_explicit(&state->L, NULL, memory_order_relaxed);
    ag_luajit_frames_end(&state->frames);
    if (state->owner) {
        ag_luajit.close(state->owner);
    }
    atomic_store_explicit(&state->is_taken, 0, memory_order_release);
}

/* ---- the allocator ---- */

luajit_alloc ag_luajit_allocate; /* luajit_entry.S: calls the following function */
void *ag_luajit_allocate_from(struct luajit_state *state, void *block, size_t old_bytes,
                              size_t new_bytes, const uintptr_t *sp, uintptr_t rbp);

static void *call_host(const struct luajit_state *state, void *block, size_t old_bytes,
                       size_t new_bytes) {
    struct ag_call_mark mark;
    ag_record_suspend_call(&mark); /* the host's allocator may take the block from malloc */
    void *made = state->allocate(state->ud, block, old_bytes, new_bytes);
    ag_record_resume_call(&mark);
    return made;
}

static void *allocate(struct luajit_state *state, size_t bytes,
                      const struct ag_host_caller *caller) {
    void *made = call_host(state, NULL, 0, bytes);
    if (made) {
        if (!state->first_block) {
            state->first_block = made;
        }
        state->in_use_bytes += (int64_t)bytes;
        if (ag_host_wants_alloc(bytes)) {
            ag_host_alloc(caller, heap, (uintptr_t)made, bytes, 0);
        }
    }
    return made;
}

static void *release(struct luajit_state *state, void *block, size_t bytes,
                     const struct ag_host_caller *caller) {
    const bool is_last = block == state->first_block;
    ag_luajit_frames_freed(&state->frames, block, bytes);
    state->in_use_bytes -= (int64_t)bytes;
    if (ag_host_wants_free(heap, (uintptr_t)block)) {
        ag_host_free(caller, heap, (uintptr_t)block);
    }
    void *nothing = call_host(state, block, bytes, 0);
    if (is_last) {
        give_up_state(state);
    } else {
        state->frames.trace_frame = 0;
    }
    return nothing;
}

/* Reallocates a block that may be the stack of a lua_State by allocating a new block, because the
 * old one has to be readable while the new one is recorded, and until LuaJIT has corrected its
 * pointers into it. There are two cases: the stack of the running lua_State grows, or the collector
 * makes another stack smaller. NULL: out of memory. */
static void *move_stack(struct luajit_state *state, void *block, size_t old_bytes,
                        size_t new_bytes) {
    void *made = call_host(state, NULL, 0, new_bytes);
    if (made) {
        memcpy(made, block, old_bytes < new_bytes ? old_bytes : new_bytes);
        state->left.block = block;
        state->left.bytes = old_bytes;
    }
    return made;
}

static void free_left(struct luajit_state *state) {
    void *block = state->left.block;
    state->left.block = NULL;
    (void)call_host(state, block, state->left.bytes, 0);
}

static bool is_running_stack(const struct luajit_state *state, const void *block) {
    const uintptr_t global = state->frames.global;
    const uintptr_t L = global != 0 ? ag_luajit_word(global, ag_luajit.global_running) : 0;
    return L != 0 && ag_luajit_word(L, STATE_STACK) == (uintptr_t)block;
}

static void *reallocate(struct luajit_state *state, void *block, size_t old_bytes, size_t new_bytes,
                        const struct ag_host_caller *caller) {
    const bool wants_free = ag_host_wants_free(heap, (uintptr_t)block);
    const bool wants_alloc = ag_host_wants_alloc(new_bytes);
    void *made = NULL;
    if (wants_free) {
        ag_host_realloc_begin(caller, heap, (uintptr_t)block);
    }
    if (is_running_stack(state, block) || new_bytes < old_bytes) {
        made = move_stack(state, block, old_bytes, new_bytes);
    }
    if (!made) {
        made = call_host(state, block, old_bytes, new_bytes);
        state->frames.moving = made ? (uintptr_t)block : 0;
    }
    if (made) {
        const struct allogram_block reported = {.address = (uintptr_t)made, .bytes = new_bytes};
        state->in_use_bytes += (int64_t)new_bytes - (int64_t)old_bytes;
        if (wants_alloc) {
            ag_host_realloc_end(caller, heap, (uintptr_t)block, &reported);
        }
    } else if (wants_free) {
        ag_host_realloc_failed(caller, heap, (uintptr_t)block);
    }
    state->frames.moving = 0;
    return made;
}

/* If compiled code allocates, changes *caller to the caller of the interpreter, because compiled
 * code has no unwind tables (section 3 of luajit_frames.c). */
static void skip_compiled_code(struct luajit_state *state, struct ag_host_caller *caller) {
    const uintptr_t global = state->frames.global;
    if (AG_LIKELY(global == 0 ||
                  ag_luajit_word(global, ag_luajit.global_running + sizeof(void *)) == 0)) {
        return;
    }
    const uintptr_t L = ag_luajit_word(global, ag_luajit.global_running);
    const uintptr_t frame = L != 0 ? ag_luajit_c_frame(L) : 0;
    if (frame > (uintptr_t)caller->sp && ag_luajit_word(frame, C_FRAME_STATE) == L) {
        state->frames.trace_frame = frame;
        caller->sp =
            (const uintptr_t *)(frame + C_FRAME_RETURN); // NOLINT(performance-no-int-to-ptr)
        caller->rbp = ag_luajit_word(frame, C_FRAME_RBP);
    }
}

void *ag_luajit_allocate_from(struct luajit_state *state, void *block, size_t old_bytes,
                              size_t new_bytes, const uintptr_t *sp, uintptr_t rbp) {
    struct ag_host_caller caller = {sp, rbp};
    void *made = NULL;
    if (ag_luajit.interpreter != 0) {
        if (AG_UNLIKELY(state->left.block != NULL)) {
            free_left(state);
        }
        ag_luajit_frames_enter(&state->frames);
        skip_compiled_code(state, &caller);
    }
    if (block && new_bytes == 0) {
        return release(state, block, old_bytes, &caller); /* may end the state */
    }
    if (new_bytes != 0) {
        made = block ? reallocate(state, block, old_bytes, new_bytes, &caller)
                     : allocate(state, new_bytes, &caller);
    }
    state->frames.trace_frame = 0;
    return made;
}

struct ag_luajit_frames *ag_luajit_frames_of(uintptr_t L) {
    const uintptr_t global = ag_luajit_word(L, STATE_GLOBAL);
    if (ag_luajit_word(global, 0) != (uintptr_t)ag_luajit_allocate) {
        return NULL;
    }
    // NOLINTNEXTLINE(performance-no-int-to-ptr): the data that the adapter gave to lua_newstate
    return &((struct luajit_state *)ag_luajit_word(global, sizeof(void *)))->frames;
}

/* ---- what the detours call ---- */

/* Sets the allocator that STATE forwards to. Returns false if the owner cannot be made. */
static bool find_host(struct luajit_state *state, luajit_alloc *allocate, void *ud) {
    state->allocate = allocate;
    state->ud = ud;
    if ((uintptr_t)allocate == AG_LUAJIT_INTERNAL) {
        state->owner = ag_luajit.new_state(allocate, ud);
        if (!state->owner) {
            return false;
        }
        state->allocate = ag_luajit.get_allocator(state->owner, &state->ud);
    }
    return true;
}

static lua_State *make_state(luajit_alloc *allocate, void *ud) {
    struct luajit_state *state = take_state();
    if (!state) {
        return ag_luajit.new_state(allocate, ud);
    }
    lua_State *L = NULL;
    if (find_host(state, allocate, ud)) {
        L = ag_luajit.new_state(ag_luajit_allocate, state);
        atomic_store_explicit(&state->L, L, memory_order_relaxed);
        if (L && ag_luajit.interpreter != 0) {
            state->frames.global = ag_luajit_word((uintptr_t)L, STATE_GLOBAL);
        }
    }
    if (!L && !state->first_block) { /* if the state had a first block, release() has given up the
                                      * struct already */
        give_up_state(state);
    }
    return L;
}

static luajit_alloc *get_allocator(lua_State *L, void **ret_ud) {
    void *ud = NULL;
    luajit_alloc *allocate = ag_luajit.get_allocator(L, &ud);
    if (allocate == ag_luajit_allocate) {
        const struct luajit_state *state = ud;
        allocate = state->allocate;
        ud = state->ud;
    }
    if (ret_ud) {
        *ret_ud = ud;
    }
    return allocate;
}

static void set_allocator(lua_State *L, luajit_alloc *allocate, void *ud) {
    void *own = NULL;
    if (ag_luajit.get_allocator(L, &own) != ag_luajit_allocate) {
        ag_luajit.set_allocator(L, allocate, ud);
        return;
    }
    struct luajit_state *state = own;
    state->allocate = allocate;
    state->ud = ud;
}

/* ---- the functions of struct ag_adapter ---- */

static struct {
    const char *name;
    struct ag_detour detour;
} detours[] = {{.name = "lua_getallocf"}, {.name = "lua_setallocf"}, {.name = "lua_newstate"}};
static char hook_failure[200]; /* which function cannot be hooked, and why */

static bool detour(size_t i, void *function, const void *enter, uintptr_t replacement,
                   void *ret_original) {
    void *original;
    struct ag_detour *made = &detours[i].detour;
    if (ag_detour_install_kept(made, function, 0, enter, replacement, &original) < 0) {
        const char *const parts[] = {detours[i].name, " cannot be hooked: ",
                                     made->reason ? made->reason : "its code cannot be changed",
                                     NULL};
        ag_join_text(hook_failure, sizeof(hook_failure), parts);
        return false;
    }
    memcpy(ret_original, &original, sizeof(original));
    return true;
}

/* Whether `mov $AG_LUAJIT_INTERNAL, %edi` is at the beginning of luaL_newstate. */
static bool knows_marker(const unsigned char *code) {
    enum { BYTES_TRIED = 24 };
    static const unsigned char move[] = {0xbf, AG_LUAJIT_INTERNAL & 255, AG_LUAJIT_INTERNAL >> 8, 0,
                                         0};
    for (size_t i = 0; i < BYTES_TRIED; i++) {
        if (memcmp(code + i, move, sizeof(move)) == 0) {
            return true;
        }
    }
    return false;
}

static enum ag_adapter_answer attach(struct ag_runtime_definition *ret_runtime) {
    struct ag_symbol_place luajit, place;
    if (!ag_symbol_find("luaJIT_setmode", AG_SYMBOL_FIRST, NULL, &luajit)) {
        return AG_ADAPTER_ABSENT;
    }
    ret_runtime->version = "2.1";
    const struct {
        const char *name;
        void *function;
    } functions[] = {
        {"luaL_newstate", NULL},
        {"lua_newstate", &ag_luajit.new_state},
        {"lua_getallocf", &ag_luajit.get_allocator},
        {"lua_setallocf", &ag_luajit.set_allocator},
        {"lua_close", &ag_luajit.close},
        {"lua_gc", &ag_luajit.collect},
        {"lua_getinfo", &ag_luajit.get_info},
        {"lua_getstack", &ag_luajit.get_stack},
        {"luaL_loadbuffer", &ag_luajit.load},
        {"lua_pcall", &ag_luajit.pcall},
        {"lua_pushcclosure", &ag_luajit.push_function},
        {"lua_newthread", &ag_luajit.new_thread},
        {"lua_resume", &ag_luajit.resume},
    };
    void *found[AG_ARRAY_SIZE(functions)];
    for (size_t i = 0; i < AG_ARRAY_SIZE(functions); i++) {
        if (!ag_symbol_find(functions[i].name, AG_SYMBOL_FIRST, NULL, &place) ||
            place.bias != luajit.bias) {
            ret_runtime->note = "it does not export the functions of Lua's C API";
            return AG_ADAPTER_REFUSED;
        }
        found[i] = place.address;
        if (functions[i].function) {
            memcpy(functions[i].function, &found[i], sizeof(found[i]));
        }
    }
    if (!knows_marker(found[0])) {
        ret_runtime->version = "";
        ret_runtime->note = "its luaL_newstate is not that of LuaJIT 2.1 (since 2020)";
        return AG_ADAPTER_REFUSED;
    }
    if (!ag_luajit_calibrate()) {
        ret_runtime->note =
            "its stacks have no Lua frames, because allogram does not know how this build of LuaJIT "
            "stores them";
    }
    if (!detour(0, found[2], ag_kept_call, (uintptr_t)get_allocator, &ag_luajit.get_allocator) ||
        !detour(1, found[3], ag_kept_call_void, (uintptr_t)set_allocator,
                &ag_luajit.set_allocator) ||
        !detour(2, found[1], ag_kept_call, (uintptr_t)make_state, &ag_luajit.new_state)) {
        ret_runtime->note = hook_failure;
        return AG_ADAPTER_REFUSED; /* the detours of lua_getallocf and lua_setallocf alone have no
                                    * effect */
    }
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "luajit", .allocator = "luajit", .runtime = "luajit"};
    heap = allogram_register_heap(&options);
    return AG_ADAPTER_ACTS;
}

/* Sets the bytes in use at the end, by the adapter's count and by LuaJIT's. */
static void luajit_end(struct ag_runtime_definition *ret_runtime) {
    enum { KIB = 1024 };
    ret_runtime->reported = ret_runtime->counted = 0;
    for (struct luajit_state *state = atomic_load_explicit(&newest, memory_order_acquire); state;
         state = state->next) {
        lua_State *L = atomic_load_explicit(&state->L, memory_order_relaxed);
        if (L && atomic_load_explicit(&state->is_taken, memory_order_acquire)) {
            ret_runtime->reported += (uint64_t)state->in_use_bytes;
            ret_runtime->counted += (uint64_t)ag_luajit.collect(L, COUNT, 0) * KIB +
                                    (uint64_t)ag_luajit.collect(L, COUNT_BYTES, 0);
        }
    }
}

const struct ag_adapter ag_adapter_luajit = {.attach = attach, .end = luajit_end};
