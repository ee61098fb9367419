/* julia_runtime.h: the functions of Julia that the adapter (allogram's code for Julia) calls, and
 * the state that the adapter keeps for each of Julia's threads. */
#ifndef AG_JULIA_RUNTIME_H
#define AG_JULIA_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "base/compiler.h"
#include "embed/adapter.h"

/* jl_gc_num_t of 1.5, as Base.GC_Num has it (base/timing.jl). The member room is for fields that
 * other releases have in addition, because jl_gc_num writes them into memory of its caller. */
struct ag_julia_gc_num {
    int64_t allocd, deferred_alloc, freed;
    uint64_t malloc, realloc, poolalloc, bigalloc, freecall, total_time, total_allocd, since_sweep;
    size_t interval;
    int pause, full_sweep;
    uint64_t room[16];
};

struct ag_julia_functions {
#define AG_JULIA_FUNCTION(name, result, arguments) result(*name) arguments;
#include "julia_functions.def"
#undef AG_JULIA_FUNCTION
    void **jl_main_module, **jl_any_type, **jl_string_type; /* variables with these names */
    void *(*get_ptls)(void);                                /* jl_get_ptls_states */
};
extern struct ag_julia_functions ag_julia AG_HIDDEN;

enum ag_julia_heap { AG_JULIA_POOL, AG_JULIA_BIG, AG_JULIA_STD, AG_JULIA_STACKS, AG_JULIA_HEAPS };
extern allogram_heap ag_julia_heaps[AG_JULIA_HEAPS] AG_HIDDEN;

/* A block that is not recorded yet, since its type is not written yet. */
struct ag_julia_pending {
    uintptr_t object;  /* the address after its header; 0: the block has no header, or there is no
                        * block */
    uintptr_t address; /* the address by which its death is recorded */
    uintptr_t before;  /* the pool object that was made immediately before this block; while the
                        * data of an array is recorded: the pool object that was made last. 0:
                        * none */
    size_t bytes;
    uint64_t interval_bytes; /* in a sampled recording */
    uint32_t stack;
    uint32_t heap; /* enum ag_julia_heap */
};

enum { AG_JULIA_CHUNK_OBJECTS = 8190, AG_JULIA_NODES_BITS = 11 };
struct ag_julia_chunk { /* addresses of pool objects, 64 KiB */
    struct ag_julia_chunk *next;
    uint64_t n;
    uintptr_t objects[AG_JULIA_CHUNK_OBJECTS];
};
struct ag_julia_objects {
    struct ag_julia_chunk *first, *last; /* chunks before last are full */
};

/* Entry of a cache: an event of a block with the type `tag` that was allocated with the stack
 * `stack` has the id `node`, which stands for the stack and the type. */
struct ag_julia_node {
    uintptr_t tag;
    uint32_t stack, node;
};

enum { AG_JULIA_DEFERRED_BLOCKS = 1000 };
struct ag_julia_deferred { /* blocks that wait for the names of their types */
    struct ag_julia_deferred *before;
    size_t n;
    struct ag_julia_pending blocks[AG_JULIA_DEFERRED_BLOCKS];
};

/* One for each thread of Julia. It is mapped and never freed: threads of Julia do not end. */
struct ag_julia_thread {
    struct ag_julia_thread *next;
    struct ag_julia_pending object, data;
    /* The latest object of a pool, recorded or not; 0: none since a big object or an array's data
     * was allocated, or since a collection. */
    uintptr_t last_object;
    uintptr_t resized, resized_tag; /* array memory that is being resized, and its type; 0: none */
    uintptr_t fresh;    /* a block that libjulia got from posix_memalign, until a hook of the
                         * adapter learns what the block is for; 0: none */
    size_t fresh_bytes; /* the requested size */
    /* While a function of Julia that allocates is running: its caller's registers, and the
     * requested size. sp NULL: no such function is running. */
    const uintptr_t *caller_sp;
    uintptr_t caller_rbp;
    size_t asked_bytes;
    uint64_t n_calls, n_own_calls; /* allocations that Julia counts; own: made by the adapter */
    bool makes_stack;              /* the next mapping is the stack of a task */
    bool is_restoring;             /* reading a package from its file */
    struct ag_julia_deferred *deferred;
    bool is_own; /* the current call is made by the adapter */
    struct ag_julia_objects objects;
    uint32_t nodes_recording; /* the recording that nodes belong to */
    struct ag_julia_node nodes[1 << AG_JULIA_NODES_BITS];
};
extern __thread struct ag_julia_thread *ag_julia_own __attribute__((tls_model("initial-exec")))
AG_HIDDEN;
extern _Atomic(struct ag_julia_thread *) ag_julia_threads AG_HIDDEN;

/* NULL: out of memory. */
struct ag_julia_thread *ag_julia_thread_begin(void) AG_HIDDEN;

AG_FAST struct ag_julia_thread *ag_julia_thread(void) {
    struct ag_julia_thread *thread = ag_julia_own;
    return AG_LIKELY(thread != NULL) ? thread : ag_julia_thread_begin();
}

/* Whether this process is recorded, and the adapter acts in it or, before the fork, acted in its
 * parent. */
bool ag_julia_is_recorded(void) AG_HIDDEN;

/* Finds the release of Julia and the functions that the adapter needs; changes nothing. If it
 * returns ACTS, ag_julia_follow installs the adapter: before the first line of the program, or
 * while a collection has stopped all threads. If ag_julia_follow returns false, nothing is changed,
 * and the member `note` of the struct that was passed to ag_julia_recognise says why. */
enum ag_adapter_answer ag_julia_recognise(struct ag_runtime_definition *ret_runtime) AG_HIDDEN;
bool ag_julia_follow(void) AG_HIDDEN;
/* For a recording that begins in a running program: Julia's counts from before it are not part of
 * the recording. */
void ag_julia_record_from_now(void) AG_HIDDEN;
/* Called when the recording pauses or resumes: Julia's counts during a pause are not part of the
 * recording. */
void ag_julia_record_pauses(bool pauses) AG_HIDDEN;
/* The adapter's end function (embed/adapter.h). */
void ag_julia_end(struct ag_runtime_definition *ret_runtime) AG_HIDDEN;

#endif
