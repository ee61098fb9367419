/* counter_harvest.c: reads the function counters of a process from the live segment, the memory
 * that the process shares with the writer. A counter set (format/counter_set.h) is a tree of call
 * paths, with counts, of one thread or of one process of a virtual machine.
 *
 * While the process lives, its threads continue to count, and may free a set or use its memory for
 * another set. The version of a set shows whether all rows that were read belong to one state of
 * the set; if not, the set is read again. The values of a set that was freed meanwhile are in the
 * events of its thread.
 *
 * The program may have damaged the segment. A reference that leads out of the process' chunks, or a
 * node whose parent is not an earlier node, ends the reading of its set. Several damaged sets may
 * refer to the same nodes, so the total number of nodes that are read is limited to what the chunks
 * can hold. */
#include "counter_harvest.h"

#include <stdlib.h>
#include <string.h>

#include "format/counter_set.h"

enum { ATTEMPTS_MOST = 100 };

struct harvest {
    struct ag_recording *recording;
    uint64_t nodes_left; /* number of nodes that may still be read */
};

/* Whether the chunk holds counters of the process. */
static bool is_of(const struct ag_recording *recording, uint32_t chunk) {
    const struct ag_chunk_control *control = ag_session_control(recording->session, chunk);
    /* acquire: pairs with the recorder's release; slot and generation are set */
    return atomic_load_explicit(&control->state, memory_order_acquire) == AG_CHUNK_COUNTERS &&
           control->slot == recording->slot && control->slot_generation == recording->generation;
}

/* Returns the block to which REFERENCE refers. NULL: REFERENCE is 0, or does not refer to counters
 * of the process. */
static const void *block_at(const struct ag_recording *recording, uint32_t reference,
                            size_t bytes) {
    const uint32_t chunk = (reference - 1) / AG_COUNTER_BLOCKS_A_CHUNK;
    const size_t offset =
        (size_t)((reference - 1) % AG_COUNTER_BLOCKS_A_CHUNK) * AG_COUNTER_BLOCK_BYTES;
    if (reference == 0 || chunk >= ag_session_chunks_touched(recording->session) ||
        !is_of(recording, chunk) || offset + bytes > AG_CHUNK_BYTES) {
        return NULL;
    }
    return (const uint8_t *)ag_session_chunk_words(recording->session, chunk) + offset;
}

/* Returns the node NODE of the set. NULL: a reference that leads to the node is invalid. */
static const struct ag_counter_node *node_at(const struct ag_recording *recording,
                                             const struct ag_counter_set *set, uint32_t node) {
    const uint32_t at = node + AG_COUNTER_FIRST_NODES;
    if (at < 2 * AG_COUNTER_FIRST_NODES) {
        return &set->first[node];
    }
    if (at >= AG_COUNTER_LARGE_NODES) {
        const _Atomic uint32_t *table =
            block_at(recording, atomic_load_explicit(&set->table, memory_order_relaxed),
                     AG_COUNTER_LARGE_PAGES * sizeof(uint32_t));
        const struct ag_counter_node *page =
            table ? block_at(recording,
                             atomic_load_explicit(&table[at >> AG_COUNTER_LARGE_LOG2],
                                                  memory_order_relaxed),
                             AG_CHUNK_BYTES)
                  : NULL;
        return page ? &page[at & (AG_COUNTER_LARGE_NODES - 1)] : NULL;
    }
    const uint32_t top = 31 - (uint32_t)__builtin_clz(at);
    const struct ag_counter_node *page = block_at(
        recording,
        atomic_load_explicit(&set->pages[top - AG_COUNTER_FIRST_LOG2 - 1], memory_order_relaxed),
        sizeof(*page) << top);
    return page ? &page[at - (1u << top)] : NULL;
}

/* Copies a node to ROW. Returns 1; 0: the node only redirects to another node, and is skipped; -1:
 * the node is invalid. */
static int add_node(const struct ag_recording *recording, const struct ag_counter_set *set,
                    uint32_t number, struct ag_call_path *row) {
    const struct ag_counter_node *live = node_at(recording, set, number);
    if (!live) {
        return -1;
    }
    const struct ag_counter_node node = {.parent = live->parent,
                                         .function = live->function,
                                         .calls = ag_counter_value(&live->calls),
                                         .words = ag_counter_value(&live->words),
                                         .time = ag_counter_value(&live->time)};
    if (node.function & AG_COUNTER_FOLDED) {
        return 0;
    }
    if (number != 0 && node.parent >= number) {
        return -1;
    }
    *row = ag_counter_set_row(recording->session->header, set, /* snapshot= */ 0, number, &node);
    return 1;
}

static size_t add_rows(const struct ag_recording *recording, const struct ag_counter_set *set,
                       uint32_t n_nodes, struct ag_call_path *rows) {
    size_t n_rows = 0;
    for (uint32_t node = 1; node < n_nodes; node++) {
        const int n = add_node(recording, set, node, &rows[n_rows]);
        if (n < 0) {
            return n_rows;
        }
        n_rows += (size_t)n;
    }
    if (ag_counter_value(&set->first[0].words) > 0 &&
        add_node(recording, set, 0, &rows[n_rows]) > 0) {
        rows[n_rows].parent = 0;
        rows[n_rows++].node = n_nodes;
    }
    return n_rows;
}

static uint32_t version_of(const struct ag_counter_set *set) {
    /* acquire: pairs with the owner's release; the set is complete */
    return atomic_load_explicit(&set->version, memory_order_acquire);
}

/* Copies a consistent state of the set, with all rows (*ret_rows, freed by the caller). Returns
 * false if the set is not in use, if it has too many nodes, if it changed during each attempt, or
 * if there is no memory. */
static bool read_set(struct harvest *harvest, const struct ag_counter_set *live,
                     struct ag_counter_set *ret_set, struct ag_call_path **ret_rows,
                     size_t *ret_n_rows) {
    for (int attempt = 0; attempt < ATTEMPTS_MOST; attempt++) {
        const uint32_t version = version_of(live);
        if (version % 2 == 0) {
            continue; /* the set is being reset, or is not in use */
        }
        memcpy(ret_set, live, sizeof(*ret_set));
        uint32_t n_nodes = atomic_load_explicit(&live->n_nodes, memory_order_acquire);
        n_nodes = n_nodes < AG_COUNTER_NODES_MOST ? n_nodes : AG_COUNTER_NODES_MOST;
        if (n_nodes > harvest->nodes_left) {
            return false;
        }
        *ret_rows = malloc((n_nodes + 1) * sizeof(**ret_rows));
        if (!*ret_rows) {
            return false;
        }
        /* nodes in the set itself are read from the copy */
        *ret_n_rows = add_rows(harvest->recording, ret_set, n_nodes, *ret_rows);
        atomic_thread_fence(memory_order_acquire);
        if (version_of(live) == version && live->tree == ret_set->tree) {
            harvest->nodes_left -= n_nodes;
            return true;
        }
        free(*ret_rows);
    }
    return false;
}

static void harvest_set(struct harvest *harvest, const struct ag_counter_set *live) {
    struct ag_recording *recording = harvest->recording;
    const struct ag_session *session = recording->session;
    struct ag_counter_set set;
    struct ag_call_path *rows = NULL;
    size_t n_rows = 0;
    if (!read_set(harvest, live, &set, &rows, &n_rows)) {
        return;
    }
    const uint32_t n_resets =
        atomic_load_explicit(&session->header->n_resets, memory_order_relaxed);
    const uint32_t snapshot = atomic_load_explicit(&set.snapshot, memory_order_relaxed) + 1;
    if (atomic_load_explicit(&set.n_resets, memory_order_relaxed) != n_resets) {
        /* the set was not used since the reset; its owner applies the reset at the next use */
        n_rows = 0;
        memset(set.apart, 0, sizeof(set.apart));
        atomic_store_explicit(&set.n_resets, n_resets, memory_order_relaxed);
    }
    recording->lost[AG_LOST_NO_MEMORY] += ag_counter_value(&set.n_lost);
    for (size_t i = 0; i < n_rows; i++) {
        recording->has_counts |= rows[i].calls > 0;
    }
    if (n_rows > 0 || snapshot > 1 || ag_counter_set_has_apart(&set)) {
        const struct ag_record heading =
            ag_counter_set_heading(&set, snapshot, (uint32_t)n_rows, recording->last_event_ns);
        for (size_t i = 0; i < n_rows; i++) {
            rows[i].snapshot = snapshot;
        }
        /* an error stays in the blob; the function that writes the blob returns it */
        (void)ag_record_append(&recording->counters, &heading);
        (void)ag_record_append_calls(&recording->counters, rows, n_rows);
    }
    free(rows);
}

static void harvest_chunk(struct harvest *harvest, uint32_t chunk) {
    const struct ag_session *session = harvest->recording->session;
    const uint8_t *sets = (const uint8_t *)ag_session_chunk_words(session, chunk);
    for (uint32_t i = 0; i < AG_COUNTER_BLOCKS_A_CHUNK; i++) {
        const void *set = sets + (size_t)i * AG_COUNTER_BLOCK_BYTES;
        if (version_of(set) != 0) { /* the set was in use at least once */
            harvest_set(harvest, set);
        }
    }
}

void ag_counter_harvest(struct ag_recording *recording) {
    struct harvest harvest = {.recording = recording};
    const uint32_t n = ag_session_chunks_touched(recording->session);
    if (recording->has_counters) {
        return;
    }
    recording->has_counters = true;
    for (uint32_t chunk = 0; chunk < n; chunk++) {
        harvest.nodes_left += is_of(recording, chunk) ? AG_COUNTER_LARGE_NODES : 0;
    }
    for (uint32_t chunk = 0; chunk < n && harvest.nodes_left > 0; chunk++) {
        if (is_of(recording, chunk) &&
            ag_session_control(recording->session, chunk)->stream == AG_COUNTER_CHUNK_SETS) {
            harvest_chunk(&harvest, chunk);
        }
    }
}

void ag_counter_harvest_release(const struct ag_recording *recording) {
    const uint32_t n = ag_session_chunks_touched(recording->session);
    for (uint32_t chunk = 0; chunk < n; chunk++) {
        if (is_of(recording, chunk)) {
            ag_session_release_chunk(recording->session, chunk);
        }
    }
}
