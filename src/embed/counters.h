/* counters.h: counts the calls of a program's functions. A counter set is a tree of call paths with
 * their counts, of one thread, or of one process inside of a virtual machine (Erlang). See
 * counters.c. */
#ifndef AG_COUNTERS_H
#define AG_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "format/counter_set.h"
#include "record/process_life.h"
#include "record/recorder.h"

/* The data that the owner of a set (the code that counts in it) needs in order to count; the counts
 * themselves are in `shared`. */
struct allogram_counters {
    uint32_t tree;      /* number of this set in the trace */
    uint32_t recording; /* the recording that the counters belong to; 0: none yet */
    uint32_t following; /* number of the session (see ag_counters_follow) that `current` and `depth`
                         * belong to */
    /* slot (entry in the live segment, the memory shared with the writer process) of the process
     * that the counters belong to; a forked child has a slot of its own */
    uint32_t slot, slot_generation;
    uint32_t word_bytes; /* size of the words in which allocated memory is counted */
    /* is_clocked: this code measures the time of the functions; is_paused: nothing is counted;
     * is_of_thread: the set is that of a thread; is_folding: recursion is folded (counters.c,
     * section 5) */
    bool is_clocked, is_paused, is_of_thread, is_folding;
    uint64_t depth;     /* functions entered and not left */
    uint64_t beyond;    /* how many of the `depth` functions (the innermost ones) have no node */
    uint64_t since_raw; /* time is counted up to this moment, in raw units of the recording's
                         * clock */
    uint32_t current;   /* number of a node; 0: outside of all functions */
    /* The part of the set that is in the live segment. All nodes of the set can be found from this
     * part. NULL: none yet. */
    struct ag_counter_set *shared;
    struct ag_counter_node *small[1 + AG_COUNTER_SMALL_PAGES]; /* [0] is shared->first */
    /* large: AG_COUNTER_LARGE_PAGES pointers to pages of nodes ([0] is unused). table: for the
     * writer process, references to the same pages as 32-bit numbers. The table and the pages are
     * in the live segment. NULL: not needed yet. */
    struct ag_counter_node **large;
    _Atomic uint32_t *table;
    uint32_t *places;  /* hash table: node of (parent, function); 0: free */
    uint32_t n_places; /* a power of two, more than twice the nodes */
    /* Used if the levels of a recursion share a path (ALLOGRAM_FOLD_RECURSION). For each function
     * that was entered, not left, and has a node: the node that was current before the function was
     * entered. `depth - beyond` entries. */
    uint32_t *levels;
    uint64_t n_levels;                                /* capacity */
    struct {                                          /* the garbage collection in progress */
        uint64_t start_raw, needed_bytes, heap_bytes; /* start_raw 0: none */
        uint32_t function;
    } collecting;
    char runtime[AG_COUNTER_TEXT_BYTES], process[AG_COUNTER_TEXT_BYTES];
    char initial_call[AG_COUNTER_TEXT_BYTES];
    uint32_t first_places[4 * AG_COUNTER_FIRST_NODES];
};

AG_FAST struct ag_counter_node *ag_counter_node(const struct allogram_counters *set,
                                                uint32_t node) {
    const uint32_t at = node + AG_COUNTER_FIRST_NODES;
    if (AG_UNLIKELY(at >= AG_COUNTER_LARGE_NODES)) {
        return &set->large[at >> AG_COUNTER_LARGE_LOG2][at & (AG_COUNTER_LARGE_NODES - 1)];
    }
    const uint32_t top = 31 - (uint32_t)__builtin_clz(at);
    return &set->small[top - AG_COUNTER_FIRST_LOG2][at - (1u << top)];
}

/* Called when a session begins. All sets start again with counts of 0, outside of all functions,
 * because the calls between two sessions were not reported. */
void ag_counters_follow(void);
/* Whether the set's counts belong to this recording of this process. */
AG_FAST bool ag_counters_are_of_now(const struct allogram_counters *set) {
    return set->recording == ag_recorder.recording && set->slot == ag_recorder.slot_index &&
           set->slot_generation == ag_recorder.slot_generation && !ag_process_is_forked();
}

/* Whether the set's counts belong to this recording of this process, and the set has followed
 * the user's last request to reset all counts (`allogram control PID reset`). Then the numbers of
 * its nodes are still valid. */
AG_FAST bool ag_counters_are_current(const struct allogram_counters *set) {
    return ag_counters_are_of_now(set) &&
           atomic_load_explicit(&set->shared->n_resets, memory_order_relaxed) ==
               atomic_load_explicit(&ag_recorder.header->n_resets, memory_order_relaxed);
}

/* Counts a call of FUNCTION by the node PARENT (0: no caller), for an adapter (the code for one
 * runtime) that does not report the ends of calls. Returns the node of FUNCTION below PARENT; 0:
 * there is no room, or counting is off. Nodes belong to this recording and process: see
 * ag_counters_are_current. */
uint32_t ag_counters_call(struct allogram_counters *set, uint32_t parent, uint32_t function);
/* Does what ag_counters_call does, but counts no call. */
uint32_t ag_counters_path(struct allogram_counters *set, uint32_t parent, uint32_t function);
/* Counts WORDS words of memory that the function of NODE allocated itself. */
void ag_counters_words(struct allogram_counters *set, uint32_t node, uint64_t words);

/* ---- between counters.c and counters_report.c ---- */

/* Writes the current counts of the set into the trace; nothing if the set has counted nothing in
 * this recording. Called by the set's owner. */
void ag_counters_report(struct allogram_counters *set);
/* Records the collection that has just ended. Called by the set's owner. */
void ag_counters_report_collection(const struct allogram_counters *set, const char *kind,
                                   uint64_t heap_bytes);

#endif
