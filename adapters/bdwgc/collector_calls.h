/* collector_calls.h: the functions of the Boehm collector that the adapter (allogram's code for the
 * collector) calls, and those that it hooks. */
#ifndef AG_BDWGC_CALLS_H
#define AG_BDWGC_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "hook/kept_call.h"
#include "object_reader.h"

enum { AG_BDWGC_ENTRY_BYTES = 288 }; /* size of the code of an entry in collector_entry.S */

struct ag_bdwgc_statistics { /* the first fields of struct GC_prof_stats_s of gc.h */
    uint64_t heap_bytes, free_bytes, unmapped_bytes, since_collection_bytes,
        before_collection_bytes;
};

/* Functions that the adapter calls: public ones that do not take the collector's lock, except for
 * is_registered and my_thread. */
struct ag_bdwgc_functions {
    void *(*base)(void *);
    int (*is_marked)(const void *);
    size_t (*size)(const void *);
    size_t (*total_bytes)(void);
    unsigned (*version)(void);
    size_t (*statistics)(struct ag_bdwgc_statistics *, size_t);
    /* GC_thread_is_registered, and GC_get_my_stackbottom, which returns the collector's record of
     * the calling thread and crashes if the thread is not registered. NULL: the program has no such
     * function. */
    int (*is_registered)(void);
    void *(*my_thread)(void *ret_stack_base);
    /* GC_get_all_interior_pointers: 1 if the collector adds a byte to each block, so that a pointer
     * to the end of a block keeps the block alive. NULL: the program has no such function. */
    int (*adds_byte)(void);
};
extern struct ag_bdwgc_functions ag_bdwgc AG_HIDDEN;

/* State of the calling thread; collector_entry.S uses its layout. The short path: while allogram
 * samples, collector_entry.S handles a call of a frequent function without ag_bdwgc_call if the
 * call's block is not sampled. */
struct ag_bdwgc_thread {
    uintptr_t inside;   /* the address of the return address of the outermost call of the collector,
                         * or 0; the lowest bit is set if that call took the short path */
    uint64_t attention; /* the number of further calls that must not take the short path */
    const struct ag_kept_call *outermost; /* the outermost call, unless it took the short path */
};
extern __thread struct ag_bdwgc_thread ag_bdwgc_thread __attribute__((tls_model("initial-exec")))
AG_HIDDEN;

/* The call that caused a collection. ag_bdwgc_find_cause returns false if no call caused the
 * current collection. */
struct ag_bdwgc_cause {
    const uintptr_t *sp;   /* the address of the call's return address */
    uintptr_t rbp;         /* the register in the caller */
    uint64_t needed_bytes; /* the requested bytes; 0 if the call is no allocation */
};
bool ag_bdwgc_find_cause(struct ag_bdwgc_cause *ret_cause);

/* ag_bdwgc_hook installs the detours. On failure it hooks no function, returns a negative errno,
 * and stores a reason and the name of the function that cannot be hooked ("" if no function is the
 * reason). places: the functions, in the order of collector_functions.def. in_program: the
 * collector is linked into the program, so callers may have been compiled together with it. */
struct ag_bdwgc_place {
    uintptr_t address; /* 0: not found */
    size_t bytes;      /* 0: unknown */
};
size_t ag_bdwgc_n_calls(void);
const char *ag_bdwgc_call_name(size_t row);
int ag_bdwgc_hook(const struct ag_bdwgc_place *places, bool in_program, const char **ret_reason,
                  const char **ret_name);

/* ag_bdwgc_reported_bytes returns the sum of the sizes of the recorded blocks; ag_bdwgc_own_bytes
 * that of the blocks that the collector allocated for itself. */
uint64_t ag_bdwgc_reported_bytes(void);
uint64_t ag_bdwgc_own_bytes(void);
/* Bytes that the collector's statistics count although the program never got them: the first
 * function adds to their number, the second returns it. */
void ag_bdwgc_not_handed_out(uint64_t bytes);
uint64_t ag_bdwgc_left_bytes(void);
/* The number of blocks that were handed out in lists that the program requested. The program keeps
 * them in a free list of its own. */
uint64_t ag_bdwgc_listed_blocks(void);

typedef void ag_collection_listener(int event);
/* Sets the collector's listener. */
void ag_bdwgc_listen(ag_collection_listener *listener);
/* Sets the collector's listener, and keeps calling the listener that the program may have set
 * before. */
void ag_bdwgc_listen_also(ag_collection_listener *listener);
/* The listener that the program set, or NULL. */
extern _Atomic(ag_collection_listener *) ag_program_listener AG_HIDDEN;

#endif
