/* julia_runtime.h: Julia as the adapter calls it, and what it keeps of each of its threads. */
#ifndef AG_JULIA_RUNTIME_H
#define AG_JULIA_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "base/compiler.h"
#include "embed/adapter.h"

/* jl_gc_num_t of 1.5, as Base.GC_Num has it (base/timing.jl); room behind it, since the caller
 * gives the memory. */
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
    void **jl_main_module, **jl_any_type, **jl_string_type; /* variables of these names */
    void *(*get_ptls)(void);
};
extern struct ag_julia_functions ag_julia AG_HIDDEN;

enum ag_julia_heap { AG_JULIA_POOL, AG_JULIA_BIG, AG_JULIA_STD, AG_JULIA_STACKS, AG_JULIA_HEAPS };
extern allogram_heap ag_julia_heaps[AG_JULIA_HEAPS] AG_HIDDEN;

/* A block that is not told yet, since its type is not written yet. */
struct ag_julia_pending {
    uintptr_t object;  /* 0: none. What its header stands before; of malloc'ed data: 0 is none */
    uintptr_t address; /* by which it dies */
    uintptr_t before;  /* object of a pool that was made right before it; 0: none */
    size_t bytes;
    uint64_t interval_bytes; /* of a sampled recording */
    uint32_t stack;
    uint32_t heap; /* enum ag_julia_heap */
};

enum { AG_JULIA_CHUNK_OBJECTS = 8190, AG_JULIA_NODES_BITS = 11 };
struct ag_julia_chunk { /* of addresses of pool objects, 64 KiB */
    struct ag_julia_chunk *next;
    uint64_t n;
    uintptr_t objects[AG_JULIA_CHUNK_OBJECTS];
};
struct ag_julia_objects {
    struct ag_julia_chunk *first, *last; /* last may be full */
};

struct ag_julia_node { /* the stack of blocks of one type */
    uintptr_t tag;
    uint32_t stack, node;
};

enum { AG_JULIA_DEFERRED_BLOCKS = 1000 };
struct ag_julia_deferred { /* blocks that wait for the names of their types */
    struct ag_julia_deferred *before;
    size_t n;
    struct ag_julia_pending blocks[AG_JULIA_DEFERRED_BLOCKS];
};

/* Of one thread of Julia's; mapped, never freed: the thread does not end either. */
struct ag_julia_thread {
    struct ag_julia_thread *next;
    struct ag_julia_pending object, data;
    uintptr_t
        last_object; /* of a pool, told or not; 0: none since data was made, or a collection */
    uintptr_t resized, resized_tag; /* the array's memory that managed_realloc is at; 0: none */
    uintptr_t fresh; /* what libjulia got from posix_memalign and nobody has taken yet; 0: none */
    size_t fresh_bytes; /* as asked for */
    /* Who is inside the collector's function, and how much they asked for; sp NULL: nobody. */
    const uintptr_t *caller_sp;
    uintptr_t caller_rbp;
    size_t asked_bytes;
    uint64_t n_calls, n_own_calls; /* that Julia counts; own: made by the adapter */
    bool makes_stack;              /* of a task: what it maps now */
    bool is_restoring;             /* a package from its file */
    struct ag_julia_deferred *deferred;
    bool is_own; /* what happens now is the adapter's doing */
    struct ag_julia_objects objects;
    uint32_t nodes_recording; /* that nodes are of */
    struct ag_julia_node nodes[1 << AG_JULIA_NODES_BITS];
};
extern __thread struct ag_julia_thread *ag_julia_own __attribute__((tls_model("initial-exec")))
AG_HIDDEN;
extern _Atomic(struct ag_julia_thread *) ag_julia_threads AG_HIDDEN;

/* NULL: there is no memory. */
struct ag_julia_thread *ag_julia_thread_begin(void) AG_HIDDEN;

AG_FAST struct ag_julia_thread *ag_julia_thread(void) {
    struct ag_julia_thread *thread = ag_julia_own;
    return AG_LIKELY(thread != NULL) ? thread : ag_julia_thread_begin();
}

/* Zeros from the kernel; NULL: there is no memory. */
void *ag_julia_map(size_t bytes) AG_HIDDEN;
/* The adapter acts in this process, or did in the one that forked it, and it is recorded. */
bool ag_julia_is_recorded(void) AG_HIDDEN;

/* Which Julia is here, and what the adapter needs of it; nothing of Julia is changed. Where it
 * ACTS, ag_julia_follow changes it: before the first line of the program, or while the world stands
 * still. false: it is as before, and the runtime's note says why. */
enum ag_adapter_answer ag_julia_recognise(struct ag_runtime_definition *ret_runtime) AG_HIDDEN;
bool ag_julia_follow(void) AG_HIDDEN;
/* For recordings that begin in a program that runs: what was counted before is no part of it. */
void ag_julia_record_from_now(void) AG_HIDDEN;
/* The recording pauses, or goes on: nor is what is counted in between. */
void ag_julia_record_pauses(bool pauses) AG_HIDDEN;
/* As an adapter's end (embed/adapter.h). */
void ag_julia_end(struct ag_runtime_definition *ret_runtime) AG_HIDDEN;

#endif
