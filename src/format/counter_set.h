/* counter_set.h: function counters in the live segment (segment.h): how often functions called each
 * other in one thread, or in one process of a virtual machine, and what they allocated.
 *
 * The program counts in place (embed/counters.c), in chunks of the state COUNTERS. So nothing has
 * to be written at the end: the writer puts the last values into the trace when it seals or dumps
 * the process, also when the process was killed.
 *
 *     chunk of kind SETS     struct ag_counter_set x 64
 *     chunk of kind NODES    blocks of 1, 2, 4 ... 64 KiB, referred to by sets
 *
 * A reference to a block is its place / 1 KiB, counted from the first chunk, plus 1; 0: no block.
 * Nodes [0, 16) of a set are in the set; the others are in blocks that double in size, and from
 * node 2032 on in blocks of 2048 nodes, whose references are in a block of their own:
 *
 *     node + 16   in   [16, 32)   set.first
 *                      [32, 64)   block set.pages[0]        ...
 *                      [1024, 2048)     set.pages[5]
 *                      [2048 i, 2048 (i + 1))     entry i of the block set.table, i < 512
 *
 * The writer treats all of this as untrusted: it copies, checks, then uses it. */
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
    AG_COUNTER_FIRST_LOG2 = 4, /* few: a virtual machine may have 100,000 processes */
    AG_COUNTER_FIRST_NODES = 1 << AG_COUNTER_FIRST_LOG2,
    AG_COUNTER_SMALL_PAGES = 6,
    AG_COUNTER_LARGE_LOG2 = AG_COUNTER_FIRST_LOG2 + AG_COUNTER_SMALL_PAGES + 1,
    AG_COUNTER_LARGE_NODES = 1 << AG_COUNTER_LARGE_LOG2, /* 64 KiB: a chunk */
    AG_COUNTER_LARGE_PAGES = 512,
    AG_COUNTER_NODES_MOST =
        AG_COUNTER_LARGE_PAGES * AG_COUNTER_LARGE_NODES - AG_COUNTER_FIRST_NODES, /* 1,048,560 */
    AG_COUNTER_TEXT_BYTES = 128,
    AG_COUNTER_APARTS = 3,
    AG_COUNTER_BLOCK_BYTES = 1024, /* the smallest block, and the size of a set */
    AG_COUNTER_BLOCKS_A_CHUNK = AG_CHUNK_BYTES / AG_COUNTER_BLOCK_BYTES,
    AG_REGISTERED_FUNCTIONS_MOST =
        1048575, /* of 16,777,215 that the trace has room for; takes 32 MiB, and the texts */
    /* frame for everything that belongs to no registered function */
    AG_NO_FUNCTION_FRAME = AG_REGISTERED_FUNCTIONS_MOST + 1,
};
/* What a chunk of counters holds; stored in control.stream. */
enum ag_counter_chunk { AG_COUNTER_CHUNK_NODES = 0, AG_COUNTER_CHUNK_SETS = 1 };

/* A path of calls: that of the parent node, and a call of `function` at its end. The set's owner
 * alone writes; the writer reads at any time. */
struct ag_counter_node {
    uint32_t parent, function; /* function 0: not a registered one; parent < this node */
    _Atomic uint64_t calls, words, time;
};
_Static_assert(sizeof(struct ag_counter_node) << AG_COUNTER_LARGE_LOG2 == AG_CHUNK_BYTES,
               "a chunk");
/* Set in `function` of a node that only redirects this call of its parent to an older node (section
 * 5 of counters.c), whose number is in `calls`. Such a node is not reported. */
#define AG_COUNTER_FOLDED (UINT32_C(1) << 31)

struct ag_counter_set {
    /* Odd: in use, the set's members and nodes [0, n_nodes) can be read. Changes when nodes are
     * removed, so a reader that finds the same value before and after has read one state. */
    _Atomic uint32_t version;
    uint32_t tree, word_bytes, thread_id, is_clocked; /* is_clocked: time is raw, not ns */
    _Atomic uint32_t snapshot; /* number of the last one that is in a stream; 0: none */
    _Atomic uint32_t n_resets; /* header.n_resets when its counts were last 0 */
    _Atomic uint32_t n_nodes;  /* nodes [0, this) are complete; node 0 is the root */
    _Atomic uint64_t n_lost;   /* calls without a node that are not in slot.lost yet */
    struct {
        _Atomic uint64_t count, words;
    } apart[AG_COUNTER_APARTS];                            /* by enum allogram_apart */
    _Atomic uint32_t pages[AG_COUNTER_SMALL_PAGES], table; /* references to blocks */
    uint32_t reserved;
    char runtime[AG_COUNTER_TEXT_BYTES], process[AG_COUNTER_TEXT_BYTES];
    char initial_call[AG_COUNTER_TEXT_BYTES];
    struct ag_counter_node first[AG_COUNTER_FIRST_NODES];
};
_Static_assert(sizeof(struct ag_counter_set) <= AG_COUNTER_BLOCK_BYTES, "a block");

/* ---- as records of a trace: a record `functions`, then n_rows rows of `calls` ---- */

static inline uint64_t ag_counter_value(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static inline struct ag_bytes ag_counter_text(const char text[AG_COUNTER_TEXT_BYTES]) {
    return (struct ag_bytes){.data = text, .length = strnlen(text, AG_COUNTER_TEXT_BYTES)};
}

/* Texts of the record point into the set. */
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

/* NUMBER: of the node in the trace. The root, which has what was counted outside of all functions,
 * gets a number behind all others, because 0 means "no caller" there. */
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
