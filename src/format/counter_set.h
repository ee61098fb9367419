/* counter_set.h: function counters in the live segment, the memory that the profiled process shares
 * with the writer process (segment.h). A set of counters contains how often functions called each
 * other in one thread, or in one process of a virtual machine, and how much they allocated.
 *
 * The program increments the counters directly in the live segment (embed/counters.c), in chunks
 * (pieces of the segment) of the state COUNTERS. So the program need not write anything at its end.
 * The writer copies the last values into the trace when it completes (seals) or dumps the trace of
 * the process, even if the process was killed.
 *
 *     chunk of kind SETS     struct ag_counter_set x 64
 *     chunk of kind NODES    blocks of 1, 2, 4 ... 64 KiB, referred to by sets
 *
 * A node is a path of calls with its counts. A reference to a block is (offset of the block from
 * the first chunk) / 1 KiB + 1; 0: no block. Nodes [0, 16) of a set are in the set itself. Nodes up
 * to 2031 are in blocks that double in size. Nodes from 2032 on are in blocks of 2048 nodes;
 * another block, set.table, contains the references to these blocks:
 *
 *     number of the node + 16     place of the node
 *     [16, 32)                    set.first
 *     [32, 64)                    the block set.pages[0]
 *     ...
 *     [1024, 2048)                the block set.pages[5]
 *     [2048 i, 2048 (i + 1))      the block in entry i of the block set.table; i is 1 to 511
 *
 * The writer does not trust these data: it copies them, then checks the copy, then uses it. */
#ifndef AG_COUNTER_SET_H
#define AG_COUNTER_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "format/decode.h"
#include "format/segment.h"

enum {
    /* nodes in the set itself; few, because a virtual machine may have 100,000 processes with a set
     * each */
    AG_COUNTER_FIRST_LOG2 = 4,
    AG_COUNTER_FIRST_NODES = 1 << AG_COUNTER_FIRST_LOG2,
    AG_COUNTER_SMALL_PAGES = 6,
    AG_COUNTER_LARGE_LOG2 = AG_COUNTER_FIRST_LOG2 + AG_COUNTER_SMALL_PAGES + 1,
    AG_COUNTER_LARGE_NODES = 1 << AG_COUNTER_LARGE_LOG2, /* they fill a chunk: 64 KiB */
    AG_COUNTER_LARGE_PAGES = 512,
    AG_COUNTER_NODES_MOST =
        AG_COUNTER_LARGE_PAGES * AG_COUNTER_LARGE_NODES - AG_COUNTER_FIRST_NODES, /* 1,048,560 */
    AG_COUNTER_TEXT_BYTES = 128,
    AG_COUNTER_APARTS = 3,
    AG_COUNTER_BLOCK_BYTES = 1024, /* the smallest block, and the size of a set */
    AG_COUNTER_BLOCKS_A_CHUNK = AG_CHUNK_BYTES / AG_COUNTER_BLOCK_BYTES,
    /* limit of registered functions: a table of this many functions takes 32 MiB, plus texts. (A
     * trace could define 16,777,215.) */
    AG_REGISTERED_FUNCTIONS_MOST = 1048575,
    /* number of the frame for calls and words that belong to no registered function */
    AG_NO_FUNCTION_FRAME = AG_REGISTERED_FUNCTIONS_MOST + 1,
};
/* What a chunk of counters contains; stored in the field `stream` of the chunk's struct
 * ag_chunk_control (segment.h). */
enum ag_counter_chunk { AG_COUNTER_CHUNK_NODES = 0, AG_COUNTER_CHUNK_SETS = 1 };

/* A node: the path of calls of the parent node, extended by a call of `function`. Only the thread
 * that uses the set writes; the writer process reads at any time. */
struct ag_counter_node {
    /* parent: number of the parent node, smaller than that of this node; function 0: not a
     * registered function */
    uint32_t parent, function;
    /* of this path alone, without its callees: number of calls, allocated words, and time in ns or
     * in raw clock units (is_clocked of the set) */
    _Atomic uint64_t calls, words, time;
};
_Static_assert(sizeof(struct ag_counter_node) << AG_COUNTER_LARGE_LOG2 == AG_CHUNK_BYTES,
               "the largest block of nodes has the size of a chunk");
/* This bit in `function` marks a node that only redirects a call of `function` by the parent node
 * to an older node (section 5 of counters.c). The number of the older node is in `calls`. The
 * marked node is not reported. */
#define AG_COUNTER_FOLDED (UINT32_C(1) << 31)

struct ag_counter_set {
    /* Odd: the set is in use, and its members and nodes [0, n_nodes) can be read. The version
     * changes when nodes are removed. So a reader that finds the same version before and after its
     * reads has read a consistent state. */
    _Atomic uint32_t version;
    /* tree: number of the set in the trace. word_bytes: size of a word, in which the runtime counts
     * allocations. is_clocked: the times of nodes are raw clock values (segment.h, section 5), not
     * ns */
    uint32_t tree, word_bytes, thread_id, is_clocked;
    /* number of the last snapshot of the set that the program itself recorded; 0: none */
    _Atomic uint32_t snapshot;
    /* value of header.n_resets when the set's counts were last set to 0 */
    _Atomic uint32_t n_resets;
    _Atomic uint32_t n_nodes; /* nodes [0, n_nodes) are complete; node 0 is the root */
    /* lost calls (without a node) that are not yet included in the field `lost` of the process'
     * slot (its entry in the segment) */
    _Atomic uint64_t n_lost;
    /* words that are attributed to no function; index: enum allogram_apart of allogram.h */
    struct {
        _Atomic uint64_t count, words;
    } apart[AG_COUNTER_APARTS];
    _Atomic uint32_t pages[AG_COUNTER_SMALL_PAGES], table; /* references to blocks */
    uint32_t reserved;
    char runtime[AG_COUNTER_TEXT_BYTES], process[AG_COUNTER_TEXT_BYTES];
    char initial_call[AG_COUNTER_TEXT_BYTES];
    struct ag_counter_node first[AG_COUNTER_FIRST_NODES];
};
_Static_assert(sizeof(struct ag_counter_set) <= AG_COUNTER_BLOCK_BYTES, "a set fits into a block");

/* ---- as records of a trace: a record `functions`, then n_rows rows of `calls` ---- */

static inline uint64_t ag_counter_value(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline struct ag_bytes ag_counter_text(const char text[AG_COUNTER_TEXT_BYTES]) {
    return (struct ag_bytes){.data = text, .length = strnlen(text, AG_COUNTER_TEXT_BYTES)};
}

/* Returns the record `functions` of a snapshot with N_ROWS rows. Its texts point into the set. */
static inline struct ag_record ag_counter_set_heading(const struct ag_counter_set *set,
                                                      uint32_t snapshot, uint32_t n_rows,
                                                      uint64_t time_ns) {
    enum { MESSAGES, ARGUMENTS, PROFILER }; /* as in enum allogram_apart */
    return (struct ag_record){
        .kind = AG_RECORD_FUNCTIONS,
        .u.functions = {.tree = set->tree,
                        .snapshot = snapshot,
                        .epoch = atomic_load_explicit(&set->n_resets, memory_order_relaxed) + 1,
                        .n_calls = n_rows,
                        .word_bytes = set->word_bytes,
                        .thread_id = set->thread_id,
                        .time_ns = time_ns,
                        .messages = ag_counter_value(&set->apart[MESSAGES].count),
                        .message_words = ag_counter_value(&set->apart[MESSAGES].words),
                        .spawns = ag_counter_value(&set->apart[ARGUMENTS].count),
                        .spawn_words = ag_counter_value(&set->apart[ARGUMENTS].words),
                        .profiler_events = ag_counter_value(&set->apart[PROFILER].count),
                        .profiler_words = ag_counter_value(&set->apart[PROFILER].words),
                        .runtime = ag_counter_text(set->runtime),
                        .process = ag_counter_text(set->process),
                        .initial_call = ag_counter_text(set->initial_call)}};
}

static inline bool ag_counter_set_has_apart(const struct ag_counter_set *set) {
    uint64_t all = 0;
    for (uint32_t i = 0; i < AG_COUNTER_APARTS; i++) {
        all |= ag_counter_value(&set->apart[i].count) | ag_counter_value(&set->apart[i].words);
    }
    return all != 0;
}

/* Returns the row of a node. NUMBER: the number of the node in the trace. The root (node 0) has the
 * counts of code outside of all functions. In the trace it gets a number after all other nodes,
 * because 0 means "no caller" in a trace. */
static inline struct ag_call_path ag_counter_set_row(const struct ag_segment_header *header,
                                                     const struct ag_counter_set *set,
                                                     uint32_t snapshot, uint32_t number,
                                                     const struct ag_counter_node *node) {
    const uint64_t time = ag_counter_value(&node->time);
    return (struct ag_call_path){
        .tree = set->tree,
        .snapshot = snapshot,
        .node = number,
        .parent = node->parent,
        .frame = node->function != 0 ? node->function : (uint32_t)AG_NO_FUNCTION_FRAME,
        .calls = ag_counter_value(&node->calls),
        .own_words = ag_counter_value(&node->words),
        .own_ns = set->is_clocked ? ag_segment_ns(header, time) : time,
    };
}

#endif
