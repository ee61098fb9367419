/* lua_states.h: the Lua states of this process, and the allocator of the adapter (allogram's code
 * for Lua), which is called in place of each state's own. */
#ifndef AG_LUA_STATES_H
#define AG_LUA_STATES_H

#include <stdatomic.h>

#include "allogram/allogram.h"
#include "embed/host_events.h"
#include "lua_runtime.h"

/* The first place of a key in a hash table of this capacity, a power of two. */
AG_FAST uint32_t ag_lua_slot_of(const void *key, uint32_t capacity) {
    const uint64_t hash = (uint64_t)(uintptr_t)key * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(hash >> 32) & (capacity - 1);
}

struct ag_lua_known_line {
    const void *pc; /* address after an instruction; NULL: the entry is free */
    uint32_t line;
};
struct ag_lua_known_function {
    const void *proto; /* NULL: the entry is free */
    allogram_function function;
};
enum { AG_LUA_KNOWN_LINES = 512, AG_LUA_FIRST_FUNCTIONS = 512 };

/* A hash table by proto, used by lua_functions.c. When a larger table replaces it (by one store),
 * the older table stays mapped until the state is closed: a signal handler may walk the stack, and
 * so replace the table, while the code that it interrupted uses the older one. */
struct ag_lua_functions {
    struct ag_lua_functions *older; /* the table before this one; NULL: this is the first */
    uint32_t n;                     /* functions in the table, including freed ones */
    uint32_t capacity;              /* a power of two */
    struct ag_lua_known_function *entries;
};

struct ag_lua_known_call {
    const void *ci;    /* address of the call's CallInfo; NULL: the entry is free */
    const void *proto; /* the proto (Lua's code of a function) that the call ran when this entry was
                        * made */
    uint32_t node;     /* number of its call path (embed/counters.h) */
};

/* One state, made by lua_newstate, with all its coroutines. Like the state itself, it is used by
 * one thread at a time. */
struct ag_lua_state {
    ag_lua_alloc *allocate; /* the allocator that the program passed */
    void *ud;
    void *first_block; /* the block of the state itself: the last that is freed */
    int64_t in_use_bytes;
    struct ag_lua_state *next; /* in the list of all states; never removed */
    _Atomic uint32_t is_taken; /* 0: the state is closed, and this struct may be used for a new
                                  * state */
    struct ag_lua_functions *functions, first_functions;
    struct ag_lua_known_line lines[AG_LUA_KNOWN_LINES]; /* cache by pc */
    struct ag_lua_known_function first_entries[AG_LUA_FIRST_FUNCTIONS];
    allogram_counters *counters;      /* used by lua_calls.c; NULL: calls are not counted */
    lua_State *running;               /* main thread or coroutine that ran last; NULL: unknown */
    struct ag_lua_known_call *calls;  /* hash table; used by lua_calls.c */
    uint32_t n_calls, calls_capacity; /* capacity: 0, or a power of two */
    /* the remembered calls (struct ag_lua_call_memos) of the thread that walked the state's stack
     * last; NULL: none */
    const void *_Atomic last_walker;
    struct ag_host_collection cycle; /* the incremental collection in progress; start_raw 0:
                                      * none */
};

/* Makes the adapter's data for a state that is about to be made with this allocator; NULL: out of
 * memory. */
struct ag_lua_state *ag_lua_state_take(ag_lua_alloc *allocate, void *ud);
/* The adapter's data for the state of this Lua thread; NULL: the state has another allocator. */
struct ag_lua_state *ag_lua_state_of(const lua_State *L);
/* Calls VISIT for each open state. */
void ag_lua_states_visit(void (*visit)(void *context, const struct ag_lua_state *state),
                         void *context);

/* The allocator that Lua calls (an lua_Alloc), in lua_entry.S. */
ag_lua_alloc ag_lua_allocate;

/* Registers the heap and the types. Called once, before the first state. */
void ag_lua_states_start(void);
extern allogram_heap ag_lua_heap AG_HIDDEN;
/* Records whether Lua's blocks lie in memory of malloc. */
void ag_lua_report_memory(void);

#endif
