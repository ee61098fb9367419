/* counters.h: function counters of a program: a tree of calls for each counter set. What it counts
 * and how it is told; see counters.c. */
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
/* A path of calls: the function that it ends at, called by the parent's. Counters are written by
 * the set's owner alone, and read by who tells them. */
struct ag_counter_node {
    uint32_t parent, function; /* function 0: none that was registered; parent < this node */
    _Atomic uint64_t calls, words, time;
};
/* In `function` of a node that only says that this step of its parent goes to an older node
 * (counters.c, 5), whose number stands in calls. It is no path and is told nobody. */
#define AG_COUNTER_FOLDED (UINT32_C(1) << 31)
enum { AG_COUNTER_APARTS = 3 };
struct allogram_counters {
    struct allogram_counters *next, *before; /* the list of all, under its lock */
    uint32_t tree, snapshot;
    uint32_t recording; /* that the counters belong to; 0: none yet */
    uint32_t following; /* the session since which calls are followed */
    uint32_t slot,
        slot_generation; /* of the process that they belong to: a forked child has its own */
    uint32_t word_bytes, thread_id;
    bool is_clocked, is_paused, is_of_thread, is_folding;
    uint64_t depth;          /* functions entered and not left */
    uint64_t beyond;         /* of these: had no room for a node, the innermost ones */
    uint64_t since_raw;      /* up to here time is counted */
    _Atomic uint64_t n_lost; /* calls without a node */
    uint64_t n_lost_reported;
    uint32_t current;         /* node; 0: outside of all functions */
    _Atomic uint32_t n_nodes; /* nodes [0, this) are whole; node 0 is the root */
    struct ag_counter_node *pages[AG_COUNTER_PAGES];
    uint32_t *places;  /* open addressing by parent and function: node, 0: free */
    uint32_t n_places; /* a power of two, more than twice the nodes */
    /* Where recursion is folded: who was at hand before each function that is entered and has a
     * node; `depth - beyond` of them. */
    uint32_t *levels;
    uint64_t n_levels; /* room */
    struct {
        _Atomic uint64_t count, words;
    } apart[AG_COUNTER_APARTS];                       /* by enum allogram_apart */
    struct {                                          /* the collection that has begun */
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

/* A session begins: calls are followed from here on, and whatever sets hold is of another one. */
void ag_counters_follow(void);
/* Does it count in this recording of this process? */
AG_FAST bool ag_counters_are_of_now(const struct allogram_counters *set) {
    return set->recording == ag_recorder.recording && set->slot == ag_recorder.slot_index &&
           set->slot_generation == ag_recorder.slot_generation;
}
/* Writes a snapshot of each set into the trace. From any thread; not from a handler. */
void ag_counters_report_all(void);
/* Is there a set? */
bool ag_counters_are_there(void);

/* For an adapter that knows the caller by its node (0: called by nobody) and so needs no leave:
 * PARENT calls FUNCTION. Returns the node of that path; 0: there is no room, or nothing is counted
 * now. Nodes are of this recording and process: see ag_counters_are_of_now. */
uint32_t ag_counters_call(struct allogram_counters *set, uint32_t parent, uint32_t function);
/* The same path without a call. */
uint32_t ag_counters_path(struct allogram_counters *set, uint32_t parent, uint32_t function);
/* What the path's function allocated itself. */
void ag_counters_words(struct allogram_counters *set, uint32_t node, uint64_t words);

/* ---- between counters.c and counters_report.c ---- */

/* Under the lock of the list. Nothing where the set counted nothing in this recording. */
void ag_counters_report_locked(struct allogram_counters *set);
/* The collection that has begun, now that it has ended. By the set's owner. */
void ag_counters_report_collection(const struct allogram_counters *set, const char *kind,
                                   uint64_t heap_bytes);

#endif
