/* merge.c: merges the streams of a process by time (merge.h). There is a queue of events per
 * stream, and a binary heap of the streams that have events, ordered by the start of the first
 * window in the queue. The stream on top of the heap is applied up to the start of the next
 * stream's first window, so the events of a thread that runs alone are applied in long batches. */
#include "ledger/merge.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "table/array.h"
#include "table/index_map.h"

struct queue {
    uint32_t stream;
    struct ag_event *events;
    size_t head, tail, capacity; /* waiting: [head, tail) */
    uint64_t start_ns;           /* start of the window at head */
    uint32_t before, behind;     /* neighbors in the list of idle queues */
};
enum { IDLE_MOST = 64 };
struct ag_merge {
    struct ag_ledger *ledger;
    struct queue *queues;
    size_t n_queues;
    struct ag_index_map index; /* stream -> queue */
    uint32_t *heap;            /* queues with events, the earliest start on top */
    size_t heap_count, heap_capacity;
    uint64_t advanced_ns;
    /* The list of empty queues that have memory, in the order in which they became empty; queue
     * numbers + 1, 0: none. If there are more than IDLE_MOST, the memory of the oldest is freed, as
     * its thread may have ended. */
    uint32_t first_idle, last_idle;
    size_t n_idle;
};

struct ag_merge *ag_merge_new(struct ag_ledger *ledger) {
    struct ag_merge *merge = calloc(1, sizeof(*merge));
    if (merge) {
        merge->ledger = ledger;
    }
    return merge;
}

struct ag_merge *ag_merge_free(struct ag_merge *merge) {
    if (!merge) {
        return NULL;
    }
    for (size_t i = 0; i < merge->n_queues; i++) {
        free(merge->queues[i].events);
    }
    ag_index_map_done(&merge->index);
    free(merge->queues);
    free(merge->heap);
    free(merge);
    return NULL;
}

/* ---- the heap ---- */
static bool is_before(const struct ag_merge *merge, uint32_t a, uint32_t b) {
    const uint64_t left = merge->queues[a].start_ns, right = merge->queues[b].start_ns;
    /* makes the order of equal starts the same in every run */
    return left != right ? left < right : a < b;
}

static void heap_push(struct ag_merge *merge, uint32_t queue) {
    size_t at = merge->heap_count++;
    for (; at > 0 && is_before(merge, queue, merge->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        merge->heap[at] = merge->heap[(at - 1) / 2];
    }
    merge->heap[at] = queue;
}

/* Puts QUEUE on top, in place of a queue that was removed or whose start has become later, and
 * sifts it down. */
static void heap_sink(struct ag_merge *merge, uint32_t queue) {
    size_t at = 0;
    for (size_t child = 1; child < merge->heap_count; child = 2 * at + 1) {
        if (child + 1 < merge->heap_count &&
            is_before(merge, merge->heap[child + 1], merge->heap[child])) {
            child++;
        }
        if (!is_before(merge, merge->heap[child], queue)) {
            break;
        }
        merge->heap[at] = merge->heap[child];
        at = child;
    }
    merge->heap[at] = queue;
}

/* Returns the earliest start among the queues that are not on top. */
static uint64_t second_start(const struct ag_merge *merge) {
    uint64_t start = UINT64_MAX;
    for (size_t child = 1; child <= 2 && child < merge->heap_count; child++) {
        const uint64_t other = merge->queues[merge->heap[child]].start_ns;
        start = other < start ? other : start;
    }
    return start;
}

/* ---- queues ---- */
static int add_queue(struct ag_merge *merge, uint32_t stream) {
    int r = AG_ARRAY_RESERVE(merge->heap, merge->heap_capacity, merge->n_queues + 1);
    r = r < 0 ? r : ag_index_map_insert(&merge->index, stream, (uint32_t)merge->n_queues);
    r = r < 0 ? r : AG_ARRAY_ADD(merge->queues, merge->n_queues, (struct queue){.stream = stream});
    if (r == 0 && merge->n_queues == 2) {
        ag_ledger_expect_streams(merge->ledger);
    }
    return r;
}

/* ---- memory of queues ---- */
static void leave_idle(struct ag_merge *merge, uint32_t at) {
    struct queue *queue = &merge->queues[at];
    if (queue->before != 0) {
        merge->queues[queue->before - 1].behind = queue->behind;
    } else {
        merge->first_idle = queue->behind;
    }
    if (queue->behind != 0) {
        merge->queues[queue->behind - 1].before = queue->before;
    } else {
        merge->last_idle = queue->before;
    }
    merge->n_idle--;
}

static void become_idle(struct ag_merge *merge, uint32_t at) {
    struct queue *queue = &merge->queues[at];
    queue->before = merge->last_idle;
    queue->behind = 0;
    if (merge->last_idle != 0) {
        merge->queues[merge->last_idle - 1].behind = at + 1;
    } else {
        merge->first_idle = at + 1;
    }
    merge->last_idle = at + 1;
    if (++merge->n_idle > IDLE_MOST) {
        const uint32_t oldest = merge->first_idle - 1;
        struct queue *freed = &merge->queues[oldest];
        leave_idle(merge, oldest);
        free(freed->events);
        freed->events = NULL;
        freed->head = freed->tail = freed->capacity = 0;
    }
}

static int queue_make_room(struct queue *queue, size_t count) {
    if (queue->head == queue->tail) {
        queue->head = queue->tail = 0;
    }
    if (queue->tail + count <= queue->capacity) {
        return 0;
    }
    const size_t waiting = queue->tail - queue->head;
    if (queue->head > 0) {
        memmove(queue->events, queue->events + queue->head, waiting * sizeof(*queue->events));
        queue->head = 0;
        queue->tail = waiting;
    }
    const size_t wanted = waiting + count;
    return AG_ARRAY_RESERVE(queue->events, queue->capacity, wanted + wanted / 2);
}

int ag_merge_add(struct ag_merge *merge, uint32_t stream, const struct ag_event *events,
                 size_t count) {
    if (count == 0) {
        return 0;
    }
    uint32_t at = ag_index_map_find(&merge->index, stream);
    if (at == AG_INDEX_NONE) {
        const int r = add_queue(merge, stream);
        if (r < 0) {
            return r;
        }
        at = (uint32_t)merge->n_queues - 1;
    }
    struct queue *queue = &merge->queues[at];
    const bool was_empty = queue->head == queue->tail, had_memory = queue->capacity > 0;
    const int r = queue_make_room(queue, count);
    if (r < 0) {
        return r;
    }
    if (was_empty && had_memory) {
        leave_idle(merge, at);
    }
    memcpy(queue->events + queue->tail, events, count * sizeof(*events));
    queue->tail += count;
    if (was_empty) {
        if (events[0].kind == AG_RECORD_STAMP) {
            queue->start_ns = events[0].size;
        } else if (queue->start_ns < merge->advanced_ns) {
            /* the rest of a window whose beginning is applied already */
            queue->start_ns = merge->advanced_ns;
        }
        heap_push(merge, at);
    }
    return 0;
}

/* ---- applying ---- */
/* Returns the end of the events that may be applied in one batch: those of the windows that start
 * before LIMIT_NS, and always those of the first window. */
static size_t batch_end(const struct queue *queue, uint64_t limit_ns) {
    size_t at = queue->head + 1;
    while (at < queue->tail &&
           (queue->events[at].kind != AG_RECORD_STAMP || queue->events[at].size < limit_ns)) {
        at++;
    }
    return at;
}

/* Returns the end of the events that may be applied if there is only one stream: those of the
 * windows that have ended by LIMIT_NS. */
static size_t ended_windows(const struct queue *queue, uint64_t limit_ns) {
    size_t end = queue->head;
    for (size_t at = queue->head + 1; at < queue->tail; at++) {
        if (queue->events[at].kind == AG_RECORD_STAMP) {
            if (queue->events[at].size > limit_ns) {
                break;
            }
            end = at;
        }
    }
    return end;
}

static int apply_top(struct ag_merge *merge, size_t end) {
    const uint32_t at = merge->heap[0];
    struct queue *queue = &merge->queues[at];
    const int r = ag_ledger_apply(merge->ledger, queue->stream, queue->events + queue->head,
                                  end - queue->head);
    queue->head = end;
    if (queue->head < queue->tail) {
        queue->start_ns =
            queue->events[queue->head].size; /* batches end before a stamp or at the tail */
        heap_sink(merge, at);
        return r;
    }
    if (--merge->heap_count > 0) {
        heap_sink(merge, merge->heap[merge->heap_count]);
    }
    become_idle(merge, at);
    return r;
}

int ag_merge_advance(struct ag_merge *merge, uint64_t time_ns) {
    int r = 0;
    if (merge->n_queues == 1 && merge->heap_count == 1) {
        const size_t end = ended_windows(&merge->queues[0], time_ns);
        r = end > merge->queues[0].head ? apply_top(merge, end) : 0;
    } else {
        while (r == 0 && merge->heap_count > 0 &&
               merge->queues[merge->heap[0]].start_ns < time_ns) {
            const uint64_t second_ns = second_start(merge);
            r = apply_top(merge, batch_end(&merge->queues[merge->heap[0]],
                                           second_ns < time_ns ? second_ns : time_ns));
        }
    }
    merge->advanced_ns = time_ns > merge->advanced_ns ? time_ns : merge->advanced_ns;
    return r;
}

int ag_merge_finish(struct ag_merge *merge) {
    int r = 0;
    while (r == 0 && merge->heap_count > 0) {
        r = apply_top(merge, batch_end(&merge->queues[merge->heap[0]], second_start(merge)));
    }
    return r;
}
