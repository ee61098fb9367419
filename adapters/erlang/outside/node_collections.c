/* node_collections.c: reports the collections of Erlang heaps to the observer: their duration,
 * their process, the memory in use before and after, and the stack that caused them.
 *
 * A heap is collected when it is full. So each collection stands for all bytes that its process
 * allocated since the collection before, and the bytes of a process are exact. The stack at the
 * beginning of a collection is that of the allocation that found the heap full. If a process
 * repeats a round of allocations whose bytes are as many as the free bytes of its heap, the same
 * function finds the heap full in each round. So this file also chooses random words in the free
 * parts of heaps, for the observer to watch: a word is written by the function that allocates it.
 * The probability that a heap is chosen is its share of all allocated bytes.
 *
 * Up to MANY_PER_SECOND collections per second, all of them are reported. If there are more, the
 * kernel half (node.bpf.c) gets a period in bytes, so that about WANTED_PER_SECOND are reported,
 * and these stand for the others (node_pace.h).
 *
 * Dirty schedulers collect large heaps. The collecting function is called on the normal scheduler,
 * gives the heap up (`abandoned_heap`) and returns; later a dirty scheduler calls it again and
 * collects. These two calls are one collection, with the stack, the needed words and the bytes of
 * the first call and the time of the second. A process may switch collection off. Then the call
 * changes nothing, because the collection is postponed, and the call is not reported. */
#include "node_collections.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "node_capture.h"
#include "node_kernel.h"
#include "node_stacks.h"

enum {
    WAITING_MOST = 4096, /* heaps given up to a dirty scheduler and not yet collected */
    NOTED_MOST = 1 << 16,
    MANY_PER_SECOND = 2000,
    WANTED_PER_SECOND = 1000,    /* with this rate, shares of functions are exact to 1 % after ten
                                  * seconds */
    PACE_NS = 100 * 1000 * 1000, /* interval at which the rate is checked */
    SECOND_NS = 1000 * 1000 * 1000,
};
struct noted {
    struct noted *next;
    struct node_event event; /* allocated only up to the last word that it has */
};
struct node_collections {
    struct noted *first, **last;
    size_t n;
    struct noted *delegated; /* calls that gave up a heap, newest first */
    size_t n_delegated;
    uint64_t n_dropped;
    struct pace_look {
        uint64_t time_ns, n_seen, bytes;
    } look;                    /* the state at the last check of the rate */
    uint64_t reported_bytes;   /* sum of the weights of all reported collections */
    uint64_t period_bytes;     /* the period that the kernel half has */
    struct {                   /* for words to be watched: a collection chosen at random */
        uint64_t weight_bytes; /* sum over all collections since the last word */
        uint64_t low, high;    /* memory in which its process allocates afterward; low == high: no
                              * collection was seen yet */
        uint64_t random;
    } chosen;
};

void node_collections_note(struct node *node, const struct node_event *event, size_t n_words) {
    struct node_collections *collections = node->collections;
    if (collections == NULL) {
        return;
    }
    const size_t n_bytes = offsetof(struct node_event, words) + n_words * sizeof *event->words;
    struct noted *noted =
        collections->n < NOTED_MOST ? malloc(offsetof(struct noted, event) + n_bytes) : NULL;
    if (noted == NULL) {
        collections->n_dropped++;
        return;
    }
    collections->reported_bytes += event->weight_bytes;
    noted->next = NULL;
    memcpy(&noted->event, event, n_bytes);
    noted->event.n_words = n_words;
    *collections->last = noted;
    collections->last = &noted->next;
    collections->n++;
}

static uint64_t distance(uint64_t low, uint64_t high) {
    return high > low && high - low < (UINT64_C(1) << 46) ? high - low : 0;
}

static uint64_t used_bytes(const struct node_heap_state *state) {
    return distance(state->heap, state->heap_top) + distance(state->old_heap, state->old_top) +
           state->fragment_words * 8;
}

/* Bytes allocated since the last collection: those above the survivors of that collection. */
static uint64_t allocated_bytes(const struct node_heap_state *state) {
    const bool is_inside = state->high_water >= state->heap && state->high_water <= state->heap_top;
    return distance(is_inside ? state->high_water : state->heap, state->heap_top) +
           state->fragment_words * 8;
}

static bool is_sound(const struct node_heap_state *state) {
    return state->heap <= state->heap_top && state->heap_top <= state->stack_top &&
           state->stack_top <= state->heap_end && state->fragment_words < (UINT64_C(1) << 43);
}

static bool changed_nothing(const struct node_event *event) {
    return event->before.heap == event->after.heap &&
           event->before.heap_top == event->after.heap_top &&
           event->before.minor_count == event->after.minor_count &&
           event->before.abandoned_heap == event->after.abandoned_heap;
}

/* Takes the process' call that gave up a heap out of the list; NULL: there is none. */
static struct noted *take_delegated(struct node_collections *collections, uint64_t id) {
    for (struct noted **at = &collections->delegated; *at != NULL; at = &(*at)->next) {
        if ((*at)->event.id == id) {
            struct noted *found = *at;
            *at = found->next;
            collections->n_delegated--;
            return found;
        }
    }
    return NULL;
}

static void keep_delegated(struct node_collections *collections, struct noted *noted) {
    free(take_delegated(collections,
                        noted->event.id)); /* an older call of the process, whose heap was never
                                            * collected */
    if (collections->n_delegated == WAITING_MOST) {
        struct noted **oldest = &collections->delegated;
        while ((*oldest)->next != NULL) {
            oldest = &(*oldest)->next;
        }
        free(*oldest);
        *oldest = NULL;
        collections->n_delegated--;
        collections->n_dropped++;
    }
    noted->next = collections->delegated;
    collections->delegated = noted;
    collections->n_delegated++;
}

/* A random number that is less than LIMIT, which is not 0. */
static uint64_t random_below(struct node_collections *collections, uint64_t limit) {
    collections->chosen.random =
        collections->chosen.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint64_t)(((unsigned __int128)collections->chosen.random * limit) >> 64);
}

/* Called for each collection. Keeps one of the collections since the last word was chosen, each
 * with a probability in proportion to its weight. */
static void choose_collection(struct node_collections *collections, const struct node_event *event,
                              uint64_t weight_bytes) {
    const struct node_heap_state *after = &event->after;
    collections->chosen.weight_bytes += weight_bytes;
    if (after->abandoned_heap == 0 && after->heap_top < after->stack_top && weight_bytes != 0 &&
        random_below(collections, collections->chosen.weight_bytes) < weight_bytes) {
        collections->chosen.low = after->heap_top;
        collections->chosen.high = after->stack_top;
    }
}

bool node_collections_choose_word(void *state, uint64_t *ret_address) {
    struct node_collections *collections = ((struct node *)state)->collections;
    if (collections == NULL || collections->chosen.low == collections->chosen.high) {
        return false;
    }
    const uint64_t n_words = (collections->chosen.high - collections->chosen.low) / 8;
    *ret_address = collections->chosen.low + 8 * random_below(collections, n_words);
    collections->chosen.weight_bytes = 0;
    return true;
}

bool node_collections_is_new_word(void *state, const struct allogram_sample *sample,
                                  uint64_t address) {
    struct node *node = state;
    const struct allogram_registers *registers = &sample->frames[0].registers;
    const struct node_captured *captured = node_capture_find(node, sample);
    if (captured == NULL || address < captured->heap || address >= captured->heap_end) {
        return false;
    }
    if (node_code_find(&node->code, sample->frames[0].pc) != NULL) {
        /* generated code has the top of the heap in r15, and writes an object before or after it
         * moves the top */
        return address + NODE_FRESH_BYTES >= registers->value[ALLOGRAM_R15] &&
               address < registers->value[ALLOGRAM_RSP];
    }
    return address < captured->stack_top;
}

/* Reports one collection. CAUSE is the call whose stack is reported, EVENT the call that collected.
 * CAUSE and EVENT are the same call, unless a dirty scheduler collected. */
static void report_collection(struct node *node, const struct node_event *cause,
                              const struct node_event *event, struct allogram_answers *answers) {
    char process[NODE_IDENTIFIER_BYTES];
    const struct node_moment moment = {
        .process = cause->process,
        .heap = cause->before.heap,
        .heap_end = cause->before.heap_end,
        .instruction = cause->instruction,
        .innermost = node_top_of((uint32_t)cause->state),
        .top = cause->top,
        .words = (const uint64_t *)cause->words,
        .n_words = (size_t)cause->n_words,
    };
    struct allogram_collection reported = {
        .size = sizeof reported,
        .kind = (event->after.minor_count & 0xffff) == 0 ? "major" : "minor",
        .process = node_identifier_text(node, event->id, process) == 0 ? process : NULL,
        .thread = event->thread,
        .start_ns = event->start_ns,
        .pause_ns = event->end_ns - event->start_ns,
        .heap_before_bytes = used_bytes(&cause->before),
        .heap_after_bytes = used_bytes(&event->after),
        .needed_bytes = cause->needed_words * 8,
        .allocated_bytes = allocated_bytes(&cause->before),
        .weight_bytes = cause->weight_bytes,
    };
    uint64_t n_written = 0;
    do {
        struct allogram_stack *stack = allogram_answers_stack(answers);
        const enum allogram_stack_verdict verdict = node_report_moment(node, &moment, stack);
        if (verdict == ALLOGRAM_STACK_INCOMPLETE) {
            allogram_stack_incomplete(stack);
        }
        reported.written_ns = n_written < cause->n_written ? cause->written_ns[n_written] : 0;
        allogram_answers_collection(answers, &reported,
                                    verdict == ALLOGRAM_STACK_STALE ? NULL : stack);
        reported.weight_bytes = 0; /* the bytes of the collection count only once */
        n_written++;
    } while (n_written < cause->n_written && n_written < NODE_WRITES);
    choose_collection(node->collections, event, cause->weight_bytes);
}

static void report_noted(struct node *node, struct noted *noted, struct allogram_answers *answers) {
    struct node_collections *collections = node->collections;
    struct node_event *event = &noted->event;
    if (!is_sound(&event->before) || !is_sound(&event->after)) {
        collections->n_dropped++;
    } else if (event->before.abandoned_heap == 0 && event->after.abandoned_heap != 0) {
        keep_delegated(collections, noted);
        return;
    } else if (event->before.abandoned_heap != 0 && event->after.abandoned_heap == 0) {
        struct noted *cause = take_delegated(collections, event->id);
        if (cause != NULL) { /* else the call that gave up the heap came before the probes were
                              * attached, or is not reported */
            report_collection(node, &cause->event, event, answers);
        }
        free(cause);
    } else if (!changed_nothing(event)) {
        report_collection(node, event, event, answers);
    }
    free(noted);
}

/* The period with which WANTED_PER_SECOND collections would have been reported since the previous
 * check; 0: there were few collections. */
static uint64_t wanted_period(const struct pace_look *before, const struct pace_look *now) {
    const double seconds = (double)(now->time_ns - before->time_ns) / SECOND_NS;
    if ((double)(now->n_seen - before->n_seen) <= MANY_PER_SECOND * seconds) {
        return 0;
    }
    const double period = (double)(now->bytes - before->bytes) / (WANTED_PER_SECOND * seconds);
    return period < 1 ? 1 : period > UINT32_MAX ? UINT32_MAX : (uint64_t)period;
}

/* Sets a new period if the current one is wrong by more than a factor of two. */
static void keep_pace(struct node *node, uint64_t n_seen) {
    struct node_collections *collections = node->collections;
    const struct pace_look now = {
        .time_ns = ag_monotonic_ns(),
        .n_seen = n_seen,
        .bytes = collections->reported_bytes,
    };
    if (now.time_ns - collections->look.time_ns < PACE_NS) {
        return;
    }
    const uint64_t wanted = wanted_period(&collections->look, &now),
                   period = collections->period_bytes;
    collections->look = now;
    if ((wanted == 0) != (period == 0) || wanted > 2 * period || wanted < period / 2) {
        collections->period_bytes = wanted;
        node_kernel_set_period(node, wanted);
    }
}

int node_collections_report(void *state, struct allogram_answers *answers) {
    struct node *node = state;
    struct node_collections *collections = node->collections;
    node_kernel_drain(node);
    struct noted *noted = collections->first;
    collections->first = NULL;
    collections->last = &collections->first;
    collections->n = 0;
    while (noted != NULL) {
        struct noted *next = noted->next;
        report_noted(node, noted, answers);
        noted = next;
    }
    if (node->kernel != NULL) {
        const uint64_t n_seen = node_kernel_collections_seen(node);
        keep_pace(node, n_seen);
        allogram_answers_collections_seen(answers, n_seen);
    }
    const uint64_t n_lost = node_kernel_take_lost(node) + collections->n_dropped;
    collections->n_dropped = 0;
    if (n_lost > 0) {
        allogram_answers_lost(answers, n_lost, "collections for which there was no room");
    }
    return 0;
}

int node_collections_watch(void *state, char *ret_problem, size_t problem_bytes) {
    struct node *node = state;
    if (node->collections == NULL) {
        node->collections = calloc(1, sizeof *node->collections);
        if (node->collections == NULL) {
            return -ENOMEM;
        }
        node->collections->last = &node->collections->first;
        node->collections->chosen.random = ag_monotonic_ns();
    }
    const int r = node_kernel_watch_collections(node, ret_problem, problem_bytes);
    return r < 0 ? r : node_kernel_readable(node);
}

static void noted_free_all(struct noted *noted) {
    while (noted != NULL) {
        struct noted *next = noted->next;
        free(noted);
        noted = next;
    }
}

void node_collections_close(struct node *node) {
    if (node->collections != NULL) {
        noted_free_all(node->collections->first);
        noted_free_all(node->collections->delegated);
        free(node->collections);
        node->collections = NULL;
    }
}
