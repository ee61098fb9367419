/* counters.c: function counters: how often functions of a program (or of the virtual machine in it)
 * were called on each path, what they allocated and how long they took.
 *
 * 1. Data. A counter set is a tree of calls: a node is a function and the node that called it. So
 * no separate stack is needed: the current node contains the number of its caller's node. A tail
 * call is a step to a sibling. Nodes lie in pages that never move, and are found by a hash table.
 *
 * 2. Ownership. A set has one owner at a time, which alone adds nodes and counts, without a lock.
 * The nodes lie in the live segment (format/counter_set.h), the memory shared with the writer
 * process. The writer reads complete nodes at any time, also after the end of the process; the
 * counters are atomic only because of these reads. What only the owner needs lies in memory of the
 * process.
 *
 * A forked child with a trace of its own begins with counts of 0, on the path on which it was
 * forked, because it continues there. The child copies that path from its parent's nodes and then
 * uses nodes of its own. If the parent resets its counters meanwhile, the copied path may be wrong,
 * but the copying ends.
 *
 * 3. Balance. As long as a session runs, every enter and leave is followed. A pause stops only the
 * counting. A call for which there is no node (no memory, or a million paths) is counted in
 * `beyond` and as lost; its allocated words and its time are added to the innermost caller that has
 * a node. A leave without an enter is ignored: a session may begin in the middle of calls.
 *
 * 4. Time is counted per set, from step to step (a step is an enter, a leave or a tail call), for
 * the function that was current before the step.
 *
 * 5. Folded recursion. A step to a function that is already on the path may go to the function's
 * older node instead of a new one. The condition is that every function that was entered after the
 * older node is also the function of the older node or of one of its direct or indirect callers.
 * Then, for each function of the path, all counts stay below the outermost node of that function,
 * so the inclusive counts of functions do not change. If f calls f, the call always folds. If the
 * calls on a path are f-g-f-g, the first three get nodes, and the last one goes to the node of the
 * first g. Such a step is stored as a node that contains the number of the older node, so the older
 * node is searched only once. In a set with such nodes, the parent of a node need not be the node
 * of its caller; so `levels` holds the node that was current before each call. */
#include "counters.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "allogram/allogram.h"
#include "base/raw_syscall.h"
#include "counter_blocks.h"
#include "counter_memory.h"
#include "host_events.h"
#include "host_heaps.h"
#include "record/raw_clock.h"
#include "record/recorder.h"
#include "record/thread_state.h"

enum {
    FIRST_LEVELS = 64,
    FOLD_LEVELS = 256, /* how far up an older node is searched, once for each new path */
};
_Static_assert(sizeof(struct allogram_counters) <= 1024,
               "ag_counter_memory reserves 1024 bytes for a set");

static struct {
    _Atomic uint32_t last_tree;
    _Atomic uint32_t following; /* number of sessions begun */
} all;

static uint64_t elapsed_raw(void) {
    return ag_raw_clock_elapsed(ag_recorder.header);
}

/* Only the owner writes, so no read-modify-write is needed. */
static void add_to(_Atomic uint64_t *counter, uint64_t more) {
    const uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    atomic_store_explicit(counter, now + more, memory_order_relaxed);
}

/* A negative number is subtracted, but the result is never below 0: after a reset, the program may
 * give back words that were counted before the reset. */
static void add_signed(_Atomic uint64_t *counter, uint64_t more) {
    const uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
    const bool is_less = (int64_t)more < 0 && now < 0 - more;
    atomic_store_explicit(counter, is_less ? 0 : now + more, memory_order_relaxed);
}

/* Called after is_ready has returned true for the set. */
static bool counters_are_on(const struct allogram_counters *set) {
    return !set->is_paused && allogram_mode_ & ALLOGRAM_TELLS_ &&
           atomic_load_explicit(&ag_recorder.header->paused, memory_order_relaxed) ==
               AG_PAUSE_NONE &&
           atomic_load_explicit(&ag_recorder.paused, memory_order_relaxed) == AG_PAUSE_NONE;
}

/* ---- nodes ---- */

static uint32_t hash_of(uint32_t parent, uint32_t function) {
    const uint64_t mixed = ((uint64_t)parent << 32 | function) *
                           UINT64_C(0x9E3779B97F4A7C15); /* 2^64 / golden ratio */
    return (uint32_t)(mixed >> 32);
}

/* The place of a node in the table, or the free place where it belongs. */
static uint32_t *place_of(struct allogram_counters *set, uint32_t parent, uint32_t function) {
    const uint32_t mask = set->n_places - 1;
    for (uint32_t at = hash_of(parent, function) & mask;; at = (at + 1) & mask) {
        uint32_t *place = &set->places[at];
        const struct ag_counter_node *node = *place ? ag_counter_node(set, *place) : NULL;
        if (!node ||
            (node->parent == parent && (node->function & ~AG_COUNTER_FOLDED) == function)) {
            return place;
        }
    }
}

static void drop_places(struct allogram_counters *set) {
    if (set->places != set->first_places) {
        ag_counter_memory_free(set->places, set->n_places * sizeof(*set->places));
    }
}

static void fill_places(struct allogram_counters *set, uint32_t n_nodes) {
    for (uint32_t node = 1; node < n_nodes; node++) {
        const struct ag_counter_node *known = ag_counter_node(set, node);
        *place_of(set, known->parent, known->function & ~AG_COUNTER_FOLDED) = node;
    }
}

static bool grow_places(struct allogram_counters *set, uint32_t n_nodes) {
    if ((n_nodes + 1) * 2 < set->n_places) {
        return true;
    }
    const uint32_t n_places = set->n_places * 2;
    uint32_t *places = ag_counter_memory(n_places * sizeof(*places));
    if (!places) {
        return false;
    }
    drop_places(set);
    set->places = places;
    set->n_places = n_places;
    fill_places(set, n_nodes);
    return true;
}

static bool has_large_page(struct allogram_counters *set, uint32_t page) {
    if (!set->large) {
        set->large = ag_counter_memory(AG_COUNTER_LARGE_PAGES * sizeof(*set->large));
    }
    if (!set->table) {
        const struct ag_counter_block block =
            ag_counter_block_take(AG_COUNTER_LARGE_PAGES * sizeof(*set->table));
        set->table = block.memory;
        atomic_store_explicit(&set->shared->table, block.reference, memory_order_relaxed);
    }
    if (set->large && set->table && !set->large[page]) {
        const struct ag_counter_block block = ag_counter_block_take(AG_CHUNK_BYTES);
        set->large[page] = block.memory;
        atomic_store_explicit(&set->table[page], block.reference, memory_order_relaxed);
    }
    return set->large && set->large[page];
}

static size_t small_page_bytes(uint32_t page) {
    return ((size_t)AG_COUNTER_FIRST_NODES << page) * sizeof(struct ag_counter_node);
}

/* Makes sure that the node's page exists. */
static bool has_page(struct allogram_counters *set, uint32_t node) {
    const uint32_t at = node + AG_COUNTER_FIRST_NODES;
    if (node >= AG_COUNTER_NODES_MOST) {
        return false;
    }
    if (at >= AG_COUNTER_LARGE_NODES) {
        return has_large_page(set, at >> AG_COUNTER_LARGE_LOG2);
    }
    const uint32_t page = 31 - (uint32_t)__builtin_clz(at) - AG_COUNTER_FIRST_LOG2;
    if (!set->small[page]) {
        const struct ag_counter_block block = ag_counter_block_take(small_page_bytes(page));
        set->small[page] = block.memory;
        atomic_store_explicit(&set->shared->pages[page - 1], block.reference, memory_order_relaxed);
    }
    return set->small[page] != NULL;
}

/* Frees everything that the set has in the live segment of this recording. */
static void give_nodes(struct allogram_counters *set) {
    struct ag_counter_set *shared = set->shared;
    /* makes the version even, so that the writer does not read the set */
    atomic_fetch_add_explicit(&shared->version, 1, memory_order_release);
    for (uint32_t page = 1; set->large && page < AG_COUNTER_LARGE_PAGES; page++) {
        if (set->large[page]) {
            ag_counter_block_give(set->large[page],
                                  atomic_load_explicit(&set->table[page], memory_order_relaxed),
                                  AG_CHUNK_BYTES);
        }
    }
    ag_counter_block_give(set->table, atomic_load_explicit(&shared->table, memory_order_relaxed),
                          AG_COUNTER_LARGE_PAGES * sizeof(*set->table));
    for (uint32_t page = 1; page <= AG_COUNTER_SMALL_PAGES; page++) {
        ag_counter_block_give(set->small[page],
                              atomic_load_explicit(&shared->pages[page - 1], memory_order_relaxed),
                              small_page_bytes(page));
    }
    ag_counter_set_give(shared);
}

/* Whether the function is that of NODE, or that of a direct or indirect caller of NODE. */
static bool is_above(struct allogram_counters *set, uint32_t node, uint32_t function) {
    for (; node != 0; node = ag_counter_node(set, node)->parent) {
        if (ag_counter_node(set, node)->function == function) {
            return true;
        }
    }
    return false;
}

/* The older node to which a call of the function by PARENT goes. 0: the call gets a new node. */
static uint32_t fold_recursion(struct allogram_counters *set, uint32_t parent, uint32_t function) {
    uint32_t older = parent;
    for (uint32_t n = 0; older != 0 && ag_counter_node(set, older)->function != function; n++) {
        if (n == FOLD_LEVELS) {
            return 0;
        }
        older = ag_counter_node(set, older)->parent;
    }
    for (uint32_t node = parent; node != older; node = ag_counter_node(set, node)->parent) {
        if (!is_above(set, older, ag_counter_node(set, node)->function)) {
            return 0;
        }
    }
    return older;
}

AG_COLD static uint32_t new_child(struct allogram_counters *set, uint32_t parent,
                                  uint32_t function) {
    const uint32_t older = set->is_folding ? fold_recursion(set, parent, function) : 0;
    const uint32_t node = atomic_load_explicit(&set->shared->n_nodes, memory_order_relaxed);
    if (!has_page(set, node) || !grow_places(set, node)) {
        return older;
    }
    *ag_counter_node(set, node) =
        (struct ag_counter_node){.parent = parent,
                                 .function = function | (older != 0 ? AG_COUNTER_FOLDED : 0),
                                 .calls = older};
    *place_of(set, parent, function) = node;
    /* release: pairs with the writer's acquire; the node is complete */
    atomic_store_explicit(&set->shared->n_nodes, node + 1, memory_order_release);
    return older != 0 ? older : node;
}

/* The node of a function called by PARENT. 0: no room. */
static uint32_t child_of(struct allogram_counters *set, uint32_t parent, uint32_t function) {
    const uint32_t known = *place_of(set, parent, function);
    if (AG_UNLIKELY(known == 0)) {
        return new_child(set, parent, function);
    }
    struct ag_counter_node *node = ag_counter_node(set, known);
    return AG_LIKELY(!(node->function & AG_COUNTER_FOLDED))
               ? known
               : (uint32_t)atomic_load_explicit(&node->calls, memory_order_relaxed);
}

/* Makes room for one more entered function. */
static bool has_level(struct allogram_counters *set) {
    if (!set->is_folding || set->depth < set->n_levels) {
        return true;
    }
    const uint64_t n_levels = set->n_levels != 0 ? set->n_levels * 2 : FIRST_LEVELS;
    uint32_t *levels = ag_counter_memory(n_levels * sizeof(*levels));
    if (!levels) {
        return false;
    }
    if (set->levels) {
        memcpy(levels, set->levels, set->n_levels * sizeof(*levels));
        ag_counter_memory_free(set->levels, set->n_levels * sizeof(*levels));
    }
    set->levels = levels;
    set->n_levels = n_levels;
    return true;
}

/* ---- resetting ---- */

/* The functions on the current path, the outermost first, in memory of *RET_BYTES bytes. Returns
 * their number; 0: there are none, or there is no memory. */
static uint64_t copy_path(const struct allogram_counters *set, uint32_t **ret_functions,
                          size_t *ret_bytes) {
    const uint64_t n = set->depth - set->beyond;
    uint32_t node = set->current;
    *ret_bytes = n * sizeof(**ret_functions);
    *ret_functions = n > 0 ? ag_counter_memory(*ret_bytes) : NULL;
    if (!*ret_functions) {
        return 0;
    }
    for (uint64_t i = n; i-- > 0;) {
        const struct ag_counter_node *from = ag_counter_node(set, node);
        (*ret_functions)[i] = from->function & ~AG_COUNTER_FOLDED;
        node = set->is_folding       ? set->levels[i]
               : from->parent < node ? from->parent
                                     /* the parent process has reset its counter set meanwhile */
                                     : 0;
    }
    return n;
}

/* Takes memory for the set in this recording of this process. */
static bool set_attach(struct allogram_counters *set) {
    struct ag_counter_set *shared = ag_counter_set_take();
    if (!shared) {
        return false;
    }
    shared->tree = set->tree;
    shared->word_bytes = set->word_bytes;
    shared->is_clocked = set->is_clocked;
    shared->thread_id = set->is_of_thread ? (uint32_t)ag_syscall1(SYS_gettid, 0) : 0;
    memcpy(shared->runtime, set->runtime, sizeof(shared->runtime));
    memcpy(shared->process, set->process, sizeof(shared->process));
    memcpy(shared->initial_call, set->initial_call, sizeof(shared->initial_call));
    memset(set->small, 0, sizeof(set->small));
    if (set->large) {
        memset(set->large, 0, AG_COUNTER_LARGE_PAGES * sizeof(*set->large));
    }
    set->table = NULL;
    set->small[0] = shared->first;
    set->shared = shared;
    set->recording = ag_recorder.recording;
    set->slot = ag_recorder.slot_index;
    set->slot_generation = ag_recorder.slot_generation;
    return true;
}

/* Resets all counters to 0, keeps the current path, and makes the set readable. IS_NEW: the set
 * takes new memory in the live segment. */
static bool begin_anew(struct allogram_counters *set, bool is_new) {
    uint32_t *functions = NULL;
    size_t bytes = 0;
    uint64_t n = copy_path(set, &functions, &bytes);
    if (is_new && !set_attach(set)) {
        ag_counter_memory_free(functions, bytes);
        return false;
    }
    struct ag_counter_set *shared = set->shared;
    if (!is_new) {
        /* a reader that sees one of the following stores also sees that the version has changed */
        atomic_fetch_add_explicit(&shared->version, 1, memory_order_seq_cst);
    }
    atomic_store_explicit(&shared->n_nodes, 1, memory_order_relaxed);
    *ag_counter_node(set, 0) = (struct ag_counter_node){.parent = 0};
    memset(shared->apart, 0, sizeof(shared->apart));
    memset(set->places, 0, set->n_places * sizeof(*set->places));
    set->current = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint32_t node = child_of(set, set->current, functions[i]);
        if (node == 0) { /* no memory */
            n = i;
            break;
        }
        if (set->is_folding) {
            set->levels[i] = set->current;
        }
        set->current = node;
    }
    set->beyond = set->depth - n;
    ag_counter_memory_free(functions, bytes);
    set->collecting.start_raw = 0;
    set->since_raw = elapsed_raw();
    atomic_store_explicit(&shared->n_resets,
                          atomic_load_explicit(&ag_recorder.header->n_resets, memory_order_relaxed),
                          memory_order_relaxed);
    /* release: pairs with the writer's acquire; the set is complete */
    atomic_fetch_add_explicit(&shared->version, 1, memory_order_release);
    return true;
}

/* Called before the set's first step in a recording, in a session or in a forked child, and after a
 * reset; false: the step cannot be counted. */
AG_COLD static bool renew(struct allogram_counters *set) {
    const uint32_t following = atomic_load_explicit(&all.following, memory_order_relaxed);
    /* ag_thread_ready begins a forked child's recording */
    if (!ag_recorder_is_active() || !ag_thread_ready()) {
        return false;
    }
    if (set->following != following) { /* calls between two sessions were not followed */
        set->current = 0;
        set->depth = set->beyond = 0;
        set->following = following;
    }
    const bool is_new = !set->shared || set->recording != ag_recorder.recording ||
                        set->slot != ag_recorder.slot_index ||
                        set->slot_generation != ag_recorder.slot_generation;
    if (!begin_anew(set, is_new)) {
        ag_record_lost(AG_LOST_NO_MEMORY, 1);
        return false;
    }
    return true;
}

AG_FAST bool is_ready(struct allogram_counters *set) {
    const uint32_t following = atomic_load_explicit(&all.following, memory_order_relaxed);
    return AG_LIKELY(ag_counters_are_current(set) && set->following == following) || renew(set);
}

/* ---- steps ---- */

/* Counts the time since the last step for the current function. */
static void take_time(struct allogram_counters *set) {
    if (!set->is_clocked) {
        return;
    }
    const uint64_t now = elapsed_raw();
    if (set->current != 0 && counters_are_on(set) && now > set->since_raw) {
        add_to(&ag_counter_node(set, set->current)->time, now - set->since_raw);
    }
    set->since_raw = now;
}

/* Returns the function, or 0 if it is not registered. */
static uint32_t registered_or_none(allogram_function function) {
    return function <= atomic_load_explicit(&ag_host.functions.count, memory_order_acquire)
               ? function
               : 0;
}

/* Makes FUNCTION, called by PARENT, the current function. Returns its node; 0: there is none. */
static uint32_t step_to(struct allogram_counters *set, uint32_t parent,
                        allogram_function function) {
    const uint32_t node = set->beyond == 0 && has_level(set)
                              ? child_of(set, parent, registered_or_none(function))
                              : 0;
    if (node != 0 && set->is_folding) {
        set->levels[set->depth] = parent;
    }
    set->depth++;
    if (node != 0) {
        set->current = node;
    } else {
        set->current = parent;
        set->beyond++;
    }
    return node;
}

static void step_into(struct allogram_counters *set, uint32_t parent, allogram_function function) {
    const uint32_t node = step_to(set, parent, function);
    if (counters_are_on(set)) {
        add_to(node != 0 ? &ag_counter_node(set, node)->calls : &set->shared->n_lost, 1);
    }
}

static void step_out(struct allogram_counters *set) {
    if (set->depth == 0) {
        return;
    }
    set->depth--;
    if (set->beyond > 0) {
        set->beyond--;
    } else {
        set->current =
            set->is_folding ? set->levels[set->depth] : ag_counter_node(set, set->current)->parent;
    }
}

void allogram_count_enter_(allogram_counters *set, allogram_function function) {
    if (is_ready(set)) {
        take_time(set);
        step_into(set, set->current, function);
    }
}

void allogram_count_caller_(allogram_counters *set, allogram_function function) {
    if (is_ready(set)) {
        take_time(set);
        /* if the function gets no node, the functions that it calls get none, either */
        (void)step_to(set, set->current, function);
    }
}

void allogram_count_leave_(allogram_counters *set) {
    if (is_ready(set)) {
        take_time(set);
        step_out(set);
    }
}

void allogram_count_leave_to_(allogram_counters *set, uint64_t depth) {
    if (is_ready(set)) {
        take_time(set);
        while (set->depth > depth) {
            step_out(set);
        }
    }
}

void allogram_count_tail_call_(allogram_counters *set, allogram_function function) {
    if (is_ready(set)) {
        take_time(set);
        step_out(set);
        step_into(set, set->current, function);
    }
}

void allogram_count_words_(allogram_counters *set, uint64_t words) {
    if (is_ready(set) && counters_are_on(set)) {
        add_to(&ag_counter_node(set, set->current)->words, words);
    }
}

void allogram_count_time_(allogram_counters *set, uint64_t ns) {
    if (is_ready(set) && counters_are_on(set) && !set->is_clocked && set->current != 0) {
        add_to(&ag_counter_node(set, set->current)->time, ns);
    }
}

void allogram_count_step_(allogram_counters *set, uint64_t depth, allogram_function function,
                          uint64_t words, uint64_t ns) {
    if (!is_ready(set)) {
        return;
    }
    take_time(set);
    if (counters_are_on(set)) {
        struct ag_counter_node *node = ag_counter_node(set, set->current);
        add_signed(&node->words, words);
        add_signed(&node->time, set->is_clocked || set->current == 0 ? 0 : ns);
    }
    while (set->depth > depth) {
        step_out(set);
    }
    if (function != 0) {
        step_into(set, set->current, function);
    }
}

void allogram_count_calls_(allogram_counters *set, allogram_function function, uint64_t calls,
                           uint64_t words, uint64_t ns) {
    if (!is_ready(set) || !counters_are_on(set)) {
        return;
    }
    const uint32_t node = child_of(set, set->current, registered_or_none(function));
    if (node == 0) {
        add_to(&set->shared->n_lost, calls);
        return;
    }
    add_to(&ag_counter_node(set, node)->calls, calls);
    add_to(&ag_counter_node(set, node)->words, words);
    add_to(&ag_counter_node(set, node)->time, set->is_clocked ? 0 : ns);
}

uint64_t allogram_count_depth_(allogram_counters *set) {
    return is_ready(set) ? set->depth : 0;
}

/* ---- by node ---- */

uint32_t ag_counters_path(struct allogram_counters *set, uint32_t parent, uint32_t function) {
    const bool is_on = allogram_mode_ & ALLOGRAM_COUNTS_;
    if (!is_on || !is_ready(set)) {
        return 0;
    }
    /* PARENT may be the number of a node from before a reset */
    const uint32_t n_nodes = atomic_load_explicit(&set->shared->n_nodes, memory_order_relaxed);
    return child_of(set, parent < n_nodes ? parent : 0, function);
}

uint32_t ag_counters_call(struct allogram_counters *set, uint32_t parent, uint32_t function) {
    const uint32_t node = ag_counters_path(set, parent, function);
    if (allogram_mode_ & ALLOGRAM_COUNTS_ && is_ready(set) && counters_are_on(set)) {
        add_to(node != 0 ? &ag_counter_node(set, node)->calls : &set->shared->n_lost, 1);
    }
    return node;
}

void ag_counters_words(struct allogram_counters *set, uint32_t node, uint64_t words) {
    if (allogram_mode_ & ALLOGRAM_COUNTS_ && is_ready(set) && counters_are_on(set) &&
        node < atomic_load_explicit(&set->shared->n_nodes, memory_order_relaxed)) {
        add_to(&ag_counter_node(set, node)->words, words);
    }
}

/* ---- rare operations ---- */

void allogram_pause_counters(allogram_counters *set) {
    if (allogram_mode_ & ALLOGRAM_COUNTS_ && is_ready(set)) {
        take_time(set);
    }
    set->is_paused = true;
}

void allogram_resume_counters(allogram_counters *set) {
    if (allogram_mode_ & ALLOGRAM_COUNTS_ && is_ready(set)) {
        take_time(set);
    }
    set->is_paused = false;
}

void allogram_tell_apart(allogram_counters *set, enum allogram_apart what, uint64_t count,
                         uint64_t words) {
    if ((uint32_t)what < AG_COUNTER_APARTS && is_ready(set) && counters_are_on(set)) {
        _Atomic uint64_t *sum = &set->shared->apart[what].words;
        const bool is_known =
            atomic_load_explicit(sum, memory_order_relaxed) != ALLOGRAM_UNKNOWN_WORDS &&
            words != ALLOGRAM_UNKNOWN_WORDS;
        add_to(&set->shared->apart[what].count, count);
        if (is_known) {
            add_to(sum, words);
        } else {
            atomic_store_explicit(sum, ALLOGRAM_UNKNOWN_WORDS, memory_order_relaxed);
        }
    }
}

void allogram_visit_counters(allogram_counters *set, void *context,
                             void (*visit)(void *context, const struct allogram_path *path)) {
    if (!(allogram_mode_ & ALLOGRAM_COUNTS_) || !is_ready(set)) {
        return;
    }
    take_time(set);
    const uint32_t n_nodes = atomic_load_explicit(&set->shared->n_nodes, memory_order_relaxed);
    for (uint32_t node = 0; node < n_nodes; node++) {
        const struct ag_counter_node *from = ag_counter_node(set, node);
        const struct allogram_path path = {
            .node = node,
            .parent = from->parent,
            .function = from->function,
            .calls = atomic_load_explicit(&from->calls, memory_order_relaxed),
            .words = atomic_load_explicit(&from->words, memory_order_relaxed),
            .ns = set->is_clocked ? 0 : atomic_load_explicit(&from->time, memory_order_relaxed),
        };
        if (!(from->function & AG_COUNTER_FOLDED)) {
            visit(context, &path);
        }
    }
}

void allogram_begin_counters_gc(allogram_counters *set, uint64_t needed_bytes,
                                uint64_t heap_bytes) {
    if (is_ready(set)) {
        take_time(set);
        set->collecting.start_raw = elapsed_raw();
        set->collecting.needed_bytes = needed_bytes;
        set->collecting.heap_bytes = heap_bytes;
        set->collecting.function = ag_counter_node(set, set->current)->function;
    }
}

void allogram_end_counters_gc(allogram_counters *set, const char *kind, uint64_t heap_bytes) {
    if (is_ready(set) && set->collecting.start_raw != 0) {
        set->since_raw = elapsed_raw(); /* no function gets the time of the collection */
        ag_host_get_ready();
        if (counters_are_on(set)) {
            ag_counters_report_collection(set, kind ? kind : "", heap_bytes);
        }
        set->collecting.start_raw = 0;
    }
}

int allogram_session_is_paused(void) {
    /* seq_cst: pairs with the end of a pause (resume in writer/session_control.c): either the code
     * there sees that slot->resting is set, or this load sees that the pause has ended */
    return ag_recorder_is_active() &&
           atomic_load_explicit(&ag_recorder.header->paused, memory_order_seq_cst) != AG_PAUSE_NONE;
}

void allogram_session_rest(int is_resting) {
    if (ag_recorder_is_active() && ag_recorder.slot) {
        atomic_store_explicit(&ag_recorder.slot->resting, is_resting != 0, memory_order_seq_cst);
    }
}

void allogram_reset_counters(allogram_counters *set) {
    if (allogram_mode_ & ALLOGRAM_COUNTS_ && is_ready(set)) {
        (void)begin_anew(set, /* is_new= */ false); /* cannot fail */
    }
}

void allogram_tell_counters(allogram_counters *set) {
    if (allogram_mode_ & ALLOGRAM_COUNTS_ && is_ready(set)) {
        take_time(set);
        ag_host_get_ready();
        ag_counters_report(set);
    }
}

void ag_counters_follow(void) {
    atomic_fetch_add_explicit(&all.following, 1, memory_order_relaxed);
}

/* ---- sets ---- */

allogram_counters *allogram_make_counters(const struct allogram_counters_options *options) {
    const struct allogram_counters_options defaults = {.size = sizeof(defaults)};
    enum { OLDEST_BYTES = offsetof(struct allogram_counters_options, recursion) };
    options = options ? options : &defaults;
    struct allogram_counters *set =
        options->size >= OLDEST_BYTES ? ag_counter_memory(sizeof(*set)) : NULL;
    if (!set) {
        return NULL;
    }
    set->word_bytes = options->word_bytes;
    set->is_clocked = options->clock != 0;
    set->is_folding = options->size >= sizeof(*options) && options->recursion != 0;
    set->is_of_thread = !options->process || !options->process[0];
    ag_host_text_copy(set->runtime, sizeof(set->runtime), options->runtime, "c");
    ag_host_text_copy(set->process, sizeof(set->process), options->process, "");
    ag_host_text_copy(set->initial_call, sizeof(set->initial_call), options->initial_call, "");
    set->places = set->first_places;
    set->n_places = AG_ARRAY_SIZE(set->first_places);
    set->tree = atomic_fetch_add_explicit(&all.last_tree, 1, memory_order_relaxed) + 1;
    return set;
}

void allogram_rename_counters(allogram_counters *set, const char *process) {
    if (process && process[0]) {
        ag_host_text_copy(set->process, sizeof(set->process), process, "");
        if (ag_counters_are_of_now(set)) {
            memcpy(set->shared->process, set->process, sizeof(set->process));
        }
    }
}

void allogram_free_counters(allogram_counters *set) {
    allogram_tell_counters(set);
    if (ag_counters_are_of_now(set)) {
        give_nodes(set);
    }
    drop_places(set);
    ag_counter_memory_free(set->levels, set->n_levels * sizeof(*set->levels));
    ag_counter_memory_free(set->large, AG_COUNTER_LARGE_PAGES * sizeof(*set->large));
    ag_counter_memory_free(set, sizeof(*set));
}
