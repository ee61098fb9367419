/* counters.h: counts the calls of a program's functions. A counter set is a tree of call paths with
 * their counts, of one thread or of one process of a virtual machine. See counters.c. */
#ifndef AG_COUNTERS_H
#define AG_COUNTERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"
#include "record/recorder.h"

enum {
    AG_COUNTER_FIRST_LOG2 =
        4, /* few: a virtual machine may have a set for each of 100,000 processes */
    AG_COUNTER_FIRST_NODES = 1 << AG_COUNTER_FIRST_LOG2,
    AG_COUNTER_PAGES = 16, /* page k has FIRST_NODES << k nodes: 1,048,560 in all, 32 MiB */
    AG_COUNTER_NODES_MOST = (AG_COUNTER_FIRST_NODES << AG_COUNTER_PAGES) - AG_COUNTER_FIRST_NODES,
    AG_COUNTER_TEXT_BYTES = 128,
};
/* A path of calls: that of the parent node, and a call of `function` at its end. The counters are
 * written only by the set's owner, and read by the reporting thread. */
struct ag_counter_node {
    uint32_t parent, function; /* function 0: not a registered one; parent < this node */
    _Atomic uint64_t calls, words, time;
};
/* Set in `function` of a node that only redirects this call of its parent to an older node (section
 * 5 of counters.c), whose number is in `calls`. Such a node is not reported. */
#define AG_COUNTER_FOLDED (UINT32_C(1) << 31)
enum { AG_COUNTER_APARTS = 3 };
struct allogram_counters {
    struct allogram_counters *next, *before; /* the list of all sets, under its lock */
    uint32_t tree, snapshot;
    uint32_t recording; /* that the counters belong to; 0: none yet */
    uint32_t following; /* the session since which calls are followed */
    uint32_t slot,
        slot_generation; /* of the process that they belong to: a forked child has its own */
    uint32_t word_bytes, thread_id;
    bool is_clocked, is_paused, is_of_thread, is_folding;
    uint64_t depth;          /* functions entered and not left */
    uint64_t beyond;         /* number of these, the innermost ones, that have no node */
    uint64_t since_raw;      /* time is counted up to here */
    _Atomic uint64_t n_lost; /* calls without a node */
    uint64_t n_lost_reported;
    uint32_t current;         /* node; 0: outside of all functions */
    _Atomic uint32_t n_nodes; /* nodes [0, this) are complete; node 0 is the root */
    struct ag_counter_node *pages[AG_COUNTER_PAGES];
    uint32_t *places;  /* open addressing by parent and function: node, 0: free */
    uint32_t n_places; /* a power of two, more than twice the nodes */
    /* With folded recursion: the node that was current before each entered function that has a
     * node; `depth - beyond` entries. */
    uint32_t *levels;
    uint64_t n_levels; /* capacity */
    struct {
        _Atomic uint64_t count, words;
    } apart[AG_COUNTER_APARTS];                       /* by enum allogram_apart */
    struct {                                          /* the collection in progress */
        uint64_t start_raw, needed_bytes, heap_bytes; /* start_raw 0: none */
        uint32_t function;
    } collecting;
    char runtime[AG_COUNTER_TEXT_BYTES], process[AG_COUNTER_TEXT_BYTES];
    char initial_call[AG_COUNTER_TEXT_BYTES];
    uint32_t first_places[4 * AG_COUNTER_FIRST_NODES];
    struct ag_counter_node first_nodes[AG_COUNTER_FIRST_NODES];
};

AG_FAST struct ag_counter_node *ag_counter_node(struct allogram_counters *set, uint32_t node) {
    const uint32_t at = node + AG_COUNTER_FIRST_NODES;
    const uint32_t top = 31 - (uint32_t)__builtin_clz(at);
    return &set->pages[top - AG_COUNTER_FIRST_LOG2][at - (1u << top)];
}

/* Called when a session begins: calls are followed from now on, and all sets start again at 0. */
void ag_counters_follow(void);
/* Whether the set's counts belong to this recording of this process. */
AG_FAST bool ag_counters_are_of_now(const struct allogram_counters *set) {
    return set->recording == ag_recorder.recording && set->slot == ag_recorder.slot_index &&
           set->slot_generation == ag_recorder.slot_generation;
}
/* Writes a snapshot of each set into the trace. From any thread, not from a signal handler. */
void ag_counters_report_all(void);
/* Whether there is a set. */
bool ag_counters_are_there(void);

/* Counts a call of FUNCTION by the node PARENT (0: no caller), for an adapter that does not report
 * the ends of calls. Returns the node of that path; 0: there is no room, or counting is off. Nodes
 * belong to this recording and process: see ag_counters_are_of_now. */
uint32_t ag_counters_call(struct allogram_counters *set, uint32_t parent, uint32_t function);
/* As ag_counters_call, but counts no call. */
uint32_t ag_counters_path(struct allogram_counters *set, uint32_t parent, uint32_t function);
/* Counts words that the path's function allocated itself. */
void ag_counters_words(struct allogram_counters *set, uint32_t node, uint64_t words);

/* ---- between counters.c and counters_report.c ---- */

/* Called under the lock of the list. Does nothing if the set has counted nothing in this
 * recording. */
void ag_counters_report_locked(struct allogram_counters *set);
/* Records the collection that has just ended. Called by the set's owner. */
void ag_counters_report_collection(const struct allogram_counters *set, const char *kind,
                                   uint64_t heap_bytes);

#endif
