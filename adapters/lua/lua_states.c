/* lua_states.c: records the blocks of Lua's states. This file has the allocator that the adapter
 * puts in front of each state's own.
 *
 * Lua gets all its memory through one function: the allocator that its state was made with. Lua
 * passes the kind of a new block (a tag in place of the old size; 5.1 passes none, see
 * lua_requests.c), and the old size of a block that is freed. So types and sizes are Lua's own, and
 * nothing is guessed. The adapter's allocator calls the function of the host (the program that
 * contains Lua) and records the block in the heap "lua". It suspends recording during that call,
 * because the memory that the host's function takes from malloc holds Lua's blocks and would be
 * counted twice.
 *
 * A block without a tag is a vector: the array and hash parts of tables, stacks, code and constants
 * of functions, the table of strings. The few structs that Lua allocates without a tag (calls, and
 * in 5.3 upvalues) count as vectors, too. */
#include "lua_states.h"

#include <string.h>

#include "base/pages.h"
#include "embed/host_events_fast.h"
#include "format/decode.h"
#include "hook/loaded_objects.h"
#include "lua_calls.h"
#include "lua_functions.h"
#include "lua_requests.h"
#include "lua_stacks.h"
#include "record/recorder.h"

allogram_heap ag_lua_heap;
static allogram_type types[AG_LUA_TAGS];
static struct ag_lua_state *_Atomic newest;

void ag_lua_states_start(void) {
    const char *names[AG_LUA_TAGS] = {
        [AG_LUA_TAG_STRING] = "string",    [AG_LUA_TAG_TABLE] = "table",
        [AG_LUA_TAG_FUNCTION] = "closure", [AG_LUA_TAG_USERDATA] = "userdata",
        [AG_LUA_TAG_THREAD] = "thread",
    };
    names[ag_lua.layout.tag_proto] = "proto";
    names[ag_lua.layout.tag_upvalue] = "upvalue";
    names[0] = "vector"; /* after upvalue, whose tag is 0 if upvalues have no tag */
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "lua", .allocator = "lua", .runtime = "lua"};
    ag_lua_heap = allogram_register_heap(&options);
    for (uint32_t tag = 0; tag < AG_LUA_TAGS; tag++) {
        types[tag] = allogram_register_type(names[tag] ? names[tag] : names[0], "lua");
    }
}

/* ---- the memory that holds Lua's blocks ---- */

static _Atomic bool has_other_allocator;

static int is_object_of_both(struct dl_phdr_info *info, size_t size, void *context) {
    const uintptr_t *addresses = context;
    (void)size; /* only fields that every glibc has are read */
    return ag_object_contains(info, addresses[0]) && ag_object_contains(info, addresses[1]);
}

void ag_lua_report_memory(void) {
    const bool is_other = atomic_load_explicit(&has_other_allocator, memory_order_relaxed);
    const struct ag_held_memory memory = {.heap = ag_lua_heap,
                                          .known = is_other ? 0 : AG_MEMORY_IN_MALLOC};
    ag_record_memory(&memory);
}

/* An allocator in the same object as Lua's code is that of luaL_newstate or of the interpreter,
 * which call realloc. For any other allocator, the source of its memory is unknown. */
static void look_at_allocator(ag_lua_alloc *allocate) {
    static _Atomic uintptr_t seen;
    const uintptr_t address = (uintptr_t)allocate;
    uintptr_t both[2] = {address, (uintptr_t)ag_lua.api.lua_newstate};
    if (atomic_exchange_explicit(&seen, address, memory_order_relaxed) == address) {
        return;
    }
    if (ag_objects_visit(is_object_of_both, both) == 0) {
        atomic_store_explicit(&has_other_allocator, true, memory_order_relaxed);
    }
    ag_lua_report_memory();
}

/* ---- states ---- */

static struct ag_lua_state *find_free(void) {
    for (struct ag_lua_state *state = atomic_load_explicit(&newest, memory_order_acquire); state;
         state = state->next) {
        uint32_t is_taken = 0;
        if (atomic_compare_exchange_strong_explicit(&state->is_taken, &is_taken, 1,
                                                    memory_order_acquire, memory_order_relaxed)) {
            return state;
        }
    }
    return NULL;
}

static struct ag_lua_state *map_state(void) {
    struct ag_lua_state *state = ag_pages_map(sizeof(*state));
    if (!state) {
        return NULL;
    }
    state->first_functions = (struct ag_lua_functions){.capacity = AG_LUA_FIRST_FUNCTIONS,
                                                       .entries = state->first_entries};
    state->functions = &state->first_functions;
    atomic_store_explicit(&state->is_taken, 1, memory_order_relaxed);
    struct ag_lua_state *head = atomic_load_explicit(&newest, memory_order_relaxed);
    do {
        state->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&newest, &head, state, memory_order_release,
                                                    memory_order_relaxed));
    return state;
}

struct ag_lua_state *ag_lua_state_take(ag_lua_alloc *allocate, void *ud) {
    struct ag_lua_state *state = find_free();
    if (!state) {
        state = map_state();
    }
    if (state) {
        look_at_allocator(allocate);
        state->allocate = allocate;
        state->ud = ud;
        state->first_block = NULL;
        state->in_use_bytes = 0;
        state->cycle.start_raw = 0;
    }
    return state;
}

/* The state is closed: its last block is freed. */
static void give_up(struct ag_lua_state *state) {
    ag_lua_calls_end(state);
    ag_lua_functions_forget(state);
    atomic_store_explicit(&state->is_taken, 0, memory_order_release);
}

struct ag_lua_state *ag_lua_state_of(const lua_State *L) {
    const void *global = ag_lua_pointer(L, ag_lua.layout.state_global);
    const uint16_t at = ag_lua.layout.global_allocator;
    ag_lua_alloc *allocate = (ag_lua_alloc *)(uintptr_t)ag_lua_pointer(global, at);
    return allocate == ag_lua_allocate ? ag_lua_pointer(global, at + sizeof(void *)) : NULL;
}

void ag_lua_states_visit(void (*visit)(void *context, const struct ag_lua_state *state),
                         void *context) {
    for (const struct ag_lua_state *state = atomic_load_explicit(&newest, memory_order_acquire);
         state; state = state->next) {
        if (atomic_load_explicit(&state->is_taken, memory_order_relaxed)) {
            visit(context, state);
        }
    }
}

/* ---- the allocator ---- */

/* Called from lua_entry.S with the caller's sp and rbp. */
void *ag_lua_allocate_from(struct ag_lua_state *state, void *block, size_t old_bytes,
                           size_t new_bytes, const uintptr_t *sp, uintptr_t rbp);

static void *call_host(const struct ag_lua_state *state, void *block, size_t old_bytes,
                       size_t new_bytes) {
    struct ag_call_mark mark;
    ag_record_suspend_call(&mark);
    void *made = state->allocate(state->ud, block, old_bytes, new_bytes);
    ag_record_resume_call(&mark);
    return made;
}

static void *allocate(struct ag_lua_state *state, size_t tag, size_t bytes,
                      const struct ag_host_caller *caller) {
    void *made = call_host(state, NULL, tag, bytes);
    if (ag_lua.layout.global_objects != 0) {
        tag = ag_lua_requests_tag(caller->sp, caller->rbp);
    }
    if (made) {
        if (!state->first_block) {
            state->first_block = made;
        }
        state->in_use_bytes += (int64_t)bytes;
        if (AG_UNLIKELY(state->counters != NULL)) {
            ag_lua_calls_allocated(state, bytes);
        }
        if (ag_host_wants_alloc(bytes)) {
            ag_host_alloc(caller, ag_lua_heap, (uintptr_t)made, bytes,
                          types[tag < AG_LUA_TAGS ? tag : 0]);
        }
    }
    return made;
}

static void *release(struct ag_lua_state *state, void *block, size_t bytes,
                     const struct ag_host_caller *caller) {
    const bool is_last = block == state->first_block;
    if (bytes == ag_lua.layout.proto_bytes) {
        ag_lua_function_forget(state, block);
    }
    if (AG_UNLIKELY(state->counters != NULL)) {
        ag_lua_calls_freed(state, block);
    }
    state->in_use_bytes -= (int64_t)bytes;
    if (ag_host_wants_free(ag_lua_heap, (uintptr_t)block)) {
        ag_host_free(caller, ag_lua_heap, (uintptr_t)block);
    }
    void *nothing = call_host(state, block, bytes, 0);
    if (is_last) {
        give_up(state);
    }
    return nothing;
}

/* A Lua stack (in 5.1 also the array of CallInfo structures) that is reallocated cannot be read
 * until Lua has corrected the pointers into it. So the Lua frames are read before the call of the
 * host's allocator and kept during the call. */
static void *reallocate(struct ag_lua_state *state, void *block, size_t old_bytes, size_t new_bytes,
                        const struct ag_host_caller *caller) {
    enum { STACK_BYTES_LEAST = 40 * 16, CALLS_LEAST = 8 }; /* BASIC_STACK_SIZE, BASIC_CI_SIZE */
    const size_t calls_bytes = CALLS_LEAST * (size_t)ag_lua.layout.ci_bytes;
    const bool may_be_stack = old_bytes >= (calls_bytes != 0 ? calls_bytes : STACK_BYTES_LEAST);
    if (may_be_stack) {
        ag_lua_stacks_keep(caller);
    } else {
        ag_lua_stacks_let_go(caller); /* frames kept by a call that was left by longjmp */
    }
    const bool wants_free = ag_host_wants_free(ag_lua_heap, (uintptr_t)block);
    const bool wants_alloc = ag_host_wants_alloc(new_bytes);
    if (wants_free) {
        ag_host_realloc_begin(caller, ag_lua_heap, (uintptr_t)block);
    }
    void *made = call_host(state, block, old_bytes, new_bytes);
    if (made) {
        const struct allogram_block reported = {
            .address = (uintptr_t)made, .bytes = new_bytes, .type = types[0]};
        state->in_use_bytes += (int64_t)new_bytes - (int64_t)old_bytes;
        if (AG_UNLIKELY(state->counters != NULL)) {
            ag_lua_calls_allocated(state, new_bytes);
        }
        if (wants_alloc) {
            ag_host_realloc_end(caller, ag_lua_heap, (uintptr_t)block, &reported);
        }
    } else if (wants_free) {
        ag_host_realloc_failed(caller, ag_lua_heap, (uintptr_t)block);
    }
    ag_lua_stacks_let_go(caller);
    return made;
}

void *ag_lua_allocate_from(struct ag_lua_state *state, void *block, size_t old_bytes,
                           size_t new_bytes, const uintptr_t *sp, uintptr_t rbp) {
    const struct ag_host_caller caller = {sp, rbp};
    if (!block) {
        return new_bytes != 0 ? allocate(state, old_bytes, new_bytes, &caller)
                              : call_host(state, NULL, old_bytes, 0);
    }
    return new_bytes != 0 ? reallocate(state, block, old_bytes, new_bytes, &caller)
                          : release(state, block, old_bytes, &caller);
}
