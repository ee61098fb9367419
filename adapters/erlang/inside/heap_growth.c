/* heap_growth.c: computes the words that an Erlang process allocated between two events, for the
 * tracer (tracer.c).
 *
 * 1. A process allocates by moving the top of its heap or, if the heap is full, by adding a
 * fragment (a separate block that belongs to the heap). So the words allocated since the last event
 * are the growth of the heap and of the fragments together. The tracer reads the growth at the
 * event at which a collection begins, and restarts it at the event at which the collection ends. So
 * words that a collection copies are never counted.
 *
 * 2. A delayed collection. A dirty scheduler collects a large heap later; until then the process
 * continues with a small heap. The old heap is abandoned, and the emulator writes the number of its
 * used words into its last word. When the small heap is full as well, it becomes a fragment, and
 * another small heap follows. There is no event for these changes: the growth at the next event
 * includes the words that were allocated in the heap before the change.
 *
 * 3. If the heap changed and there is no abandoned heap, the heap was collected without an event
 * (hibernation, the purge of a module's literals). No code of the process ran in that time, so
 * nothing is counted.
 *
 * 4. Received messages are linked to the process as another list of fragments. If the number of
 * fragment words has grown and the list of messages has a new head, the growth comes from messages,
 * which are counted elsewhere (tracer.c, section 3).
 *
 * 5. A built-in function may take all the rest of the heap and give back the words that it did not
 * need (maps:from_list/1 does). If the built-in function yields before it gives words back, the
 * process is scheduled out with a full heap, and the words given back later are a negative growth
 * of the same function. */
#include "heap_growth.h"

#include "allogram/allogram.h"

enum {
    TAG_MASK = 3,
    TAG_LIST = 1,
    TAG_BOXED = 2,
    HEADER_TUPLE_3 = 3 << 6,
    HEADER_TUPLE_4 = 4 << 6
};

/* The tuple of the event is the newest term on the heap, or is in a fragment. */
uint64_t ag_heap_take_off_tuple(struct ag_process_heap *heap, ERL_NIF_TERM term) {
    if ((term & TAG_MASK) != TAG_BOXED) {
        return 0;
    }
    const uint64_t *tuple = (const uint64_t *)(uintptr_t)(term - TAG_BOXED);
    if (tuple[0] != HEADER_TUPLE_3) {
        return 0;
    }
    if (tuple + AG_EVENT_TUPLE_WORDS == heap->top) {
        heap->top = tuple;
    } else {
        heap->fragment_words -= AG_EVENT_TUPLE_WORDS;
    }
    return AG_EVENT_TUPLE_WORDS;
}

/* Used words of the heap that was abandoned since the last event. */
static uint64_t abandoned_words(const struct ag_heap_growth *growth) {
    const uint64_t size = (uint64_t)(growth->end - growth->heap);
    const uint64_t used = growth->end[-1];
    return used >= growth->used_words && used <= size ? used : growth->used_words;
}

static uint64_t used_words(const struct ag_process_heap *heap) {
    return (uint64_t)(heap->top - heap->heap);
}

int64_t ag_heap_growth_words(const struct ag_heap_growth *growth,
                             const struct ag_process_heap *heap) {
    int64_t words = (int64_t)used_words(heap) - (int64_t)growth->used_words;
    int64_t fragments = (int64_t)heap->fragment_words - (int64_t)growth->fragment_words;
    if (AG_UNLIKELY(heap->heap != growth->heap)) {
        if (heap->abandoned == NULL) {
            return 0;
        }
        if (!growth->is_abandoned) {
            words += (int64_t)abandoned_words(growth);
        }
        words = words > 0 ? words : 0;
    }
    if (AG_UNLIKELY(heap->message_fragments != growth->message_fragments) && fragments > 0) {
        fragments = 0;
    }
    return words + fragments;
}

bool ag_heap_growth_has_term(const struct ag_heap_growth *growth, ERL_NIF_TERM term) {
    const uint64_t *at = (const uint64_t *)(uintptr_t)(term & ~(ERL_NIF_TERM)TAG_MASK);
    const ERL_NIF_TERM tag = term & TAG_MASK;
    return growth->has_begun && (tag == TAG_LIST || tag == TAG_BOXED) &&
           at >= growth->heap + growth->used_words && at < growth->end;
}

void ag_heap_growth_skip_term(struct ag_heap_growth *growth, ERL_NIF_TERM term, uint64_t words) {
    if (words != ALLOGRAM_UNKNOWN_WORDS && ag_heap_growth_has_term(growth, term)) {
        growth->used_words += words;
    }
}

ERL_NIF_TERM ag_heap_growth_find_tuple(const struct ag_heap_growth *growth,
                                       const struct ag_process_heap *heap, ERL_NIF_TERM third,
                                       ERL_NIF_TERM fourth) {
    enum { THIRD = 3, FOURTH = 4, WORDS = 5 };
    if (!growth->has_begun || heap->heap != growth->heap) {
        return 0;
    }
    for (const uint64_t *at = growth->heap + growth->used_words; at + WORDS <= heap->top; at++) {
        if (at[0] == HEADER_TUPLE_4 && at[THIRD] == third && at[FOURTH] == fourth) {
            return (ERL_NIF_TERM)(uintptr_t)at + TAG_BOXED;
        }
    }
    return 0;
}

void ag_heap_growth_begin(struct ag_heap_growth *growth, const struct ag_process_heap *heap) {
    *growth = (struct ag_heap_growth){.heap = heap->heap,
                                      .end = heap->end,
                                      .used_words = used_words(heap),
                                      .fragment_words = heap->fragment_words,
                                      .message_fragments = heap->message_fragments,
                                      .is_abandoned = heap->abandoned != NULL,
                                      .has_begun = true};
}
