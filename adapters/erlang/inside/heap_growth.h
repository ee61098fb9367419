/* heap_growth.h: computes how many words an Erlang process allocated between two events of the
 * tracer (the code that Erlang's call tracing calls); see heap_growth.c. */
#ifndef AG_BEAM_HEAP_GROWTH_H
#define AG_BEAM_HEAP_GROWTH_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stdint.h>

#include "process_layout.h"

struct ag_heap_growth { /* state of a process at its last event */
    const uint64_t *heap, *end;
    uint64_t used_words, fragment_words;
    const void *message_fragments;
    bool is_abandoned; /* `heap` is small, used until a dirty scheduler collects the old heap */
    bool has_begun;    /* there was an event */
};

enum { AG_EVENT_TUPLE_WORDS = 4 };

/* Subtracts from HEAP the words of the tuple {Module, Function, Arity} that the emulator made on
 * the process' heap for this event. Returns the number of these words: 4, or 0 if TERM is not a
 * tuple of three elements. */
uint64_t ag_heap_take_off_tuple(struct ag_process_heap *heap, ERL_NIF_TERM term);
/* Words that the code of the process allocated since the last event; negative if the code gave back
 * words that it had allocated before the last event. */
int64_t ag_heap_growth_words(const struct ag_heap_growth *growth,
                             const struct ag_process_heap *heap);
/* Whether the term is on the heap and was made since the last event. */
bool ag_heap_growth_has_term(const struct ag_heap_growth *growth, ERL_NIF_TERM term);
/* Excludes from the growth a term of WORDS words, if the term is on the heap and was made since the
 * last event. */
void ag_heap_growth_skip_term(struct ag_heap_growth *growth, ERL_NIF_TERM term, uint64_t words);
/* Finds a tuple {_, _, THIRD, FOURTH} that was made on the heap since the last event. Returns 0 if
 * there is none. */
ERL_NIF_TERM ag_heap_growth_find_tuple(const struct ag_heap_growth *growth,
                                       const struct ag_process_heap *heap, ERL_NIF_TERM third,
                                       ERL_NIF_TERM fourth);
/* Restarts the growth at HEAP, which was read at this event. */
void ag_heap_growth_begin(struct ag_heap_growth *growth, const struct ag_process_heap *heap);

#endif
