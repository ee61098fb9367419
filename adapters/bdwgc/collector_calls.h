/* collector_calls.h: the collector as the adapter calls it, and its functions as it stands in front
 * of them. */
#ifndef AG_BDWGC_CALLS_H
#define AG_BDWGC_CALLS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "hook/kept_call.h"

enum { AG_BDWGC_ENTRY_BYTES = 288 };

struct ag_bdwgc_statistics { /* struct GC_prof_stats_s of gc.h, its first fields */
    uint64_t heap_bytes, free_bytes, unmapped_bytes, since_collection_bytes,
        before_collection_bytes;
};

/* Functions that the adapter calls: public ones, which take no lock of the collector's. */
struct ag_bdwgc_functions {
    void *(*base)(void *);
    int (*is_marked)(const void *);
    size_t (*size)(const void *);
    size_t (*total_bytes)(void);
    unsigned (*version)(void);
    size_t (*statistics)(struct ag_bdwgc_statistics *, size_t);
};
extern struct ag_bdwgc_functions ag_bdwgc AG_HIDDEN;

/* The heap as allogram.h knows it; 0: not recorded. */
extern uint32_t ag_bdwgc_heap AG_HIDDEN;

/* Of the calling thread; laid out by collector_entry_x86_64.S. */
struct ag_bdwgc_thread {
    uintptr_t inside;   /* the outermost call that is inside the collector: its frame's sp; with the
                           lowest bit set: it went the short way; 0: none */
    uint64_t attention; /* so many calls may not go the short way */
    const struct ag_kept_call *outermost; /* that call, where it did not */
};
extern __thread struct ag_bdwgc_thread ag_bdwgc_thread __attribute__((tls_model("initial-exec")))
AG_HIDDEN;

/* Who called the collector, for who wants to know why there is a collection. false: nobody. */
struct ag_bdwgc_cause {
    const uintptr_t *sp;
    uintptr_t rbp;
    uint64_t needed_bytes; /* 0: it is no allocation */
};
bool ag_bdwgc_find_cause(struct ag_bdwgc_cause *ret_cause);

/* Puts the detours in. 0, or a negative errno with ret_reason and nothing changed. place: where a
 * row's function is. in_program: it is called by code that was compiled together with it. */
struct ag_bdwgc_place {
    uintptr_t address; /* 0: there is none */
    size_t bytes;      /* 0: not known */
};
size_t ag_bdwgc_n_calls(void);
const char *ag_bdwgc_call_name(size_t row);
int ag_bdwgc_hook(const struct ag_bdwgc_place *places, bool in_program, const char **ret_reason,
                  const char **ret_name);

/* The sums of what was told, and of what the collector took for itself, in bytes of its blocks. */
uint64_t ag_bdwgc_reported_bytes(void);
uint64_t ag_bdwgc_own_bytes(void);
/* As its statistics have it, of bytes that were never handed out. */
void ag_bdwgc_not_handed_out(uint64_t bytes);
uint64_t ag_bdwgc_left_bytes(void);
/* Handed out in lists that the program asked for: from then on in a free list of its own. */
uint64_t ag_bdwgc_listed_blocks(void);

typedef void ag_collection_listener(int event);
/* Asks the collector to call it. */
void ag_bdwgc_listen(ag_collection_listener *listener);
/* The same, where the program may have asked before: its own goes on to be called. */
void ag_bdwgc_listen_besides(ag_collection_listener *listener);
/* The program's own listener; may be NULL. */
extern _Atomic(ag_collection_listener *) ag_program_listener AG_HIDDEN;

#endif
