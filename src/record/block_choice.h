/* block_choice.h: which blocks are recorded, where not all are: those that the session's filter
 * takes (`run --filter`, a session of the program's own), or those of one thread.
 *
 * 1. Heaps. An adapter's heaps are looked at when they are announced, the program's own when they
 * are registered and whenever a recording begins (embed/host_heaps.c). A heap that is left out
 * costs a look at its number.
 *
 * 2. Sizes, types, a thread. Then blocks are chosen one by one, and so are their ends: the address
 * of each recorded block is kept in the table of sampled blocks, and a free of any other is
 * nothing, no ghost and no loss. The same where only some of an adapter's heaps are recorded: whose
 * block a free ends is not known from the call. A sampled recording has that table anyway, and asks
 * when the sampler has taken a block.
 *
 * 3. Types. Who knows the type of a block when it is allocated asks for it himself
 * (ag_block_choice_takes_type); of all others the type is not known, and the trace is told once for
 * each of their heaps that the filter's words about types could not be followed there. */
#ifndef AG_BLOCK_CHOICE_H
#define AG_BLOCK_CHOICE_H

#include "recorder.h"

struct ag_block_choice {
    bool asks;               /* each event has to ask */
    bool remembers;          /* 2., of all heaps */
    bool remembers_adapters; /* 2., of adapters' heaps, which share the process' addresses */
};
extern struct ag_block_choice ag_block_choice AG_HIDDEN;

/* A recording begins: takes the filter out of the segment's header. -EINVAL: it is damaged; -ENOMEM
 * for the table. Before any event. */
int ag_block_choice_start(const struct ag_segment_header *header);
/* The heaps and vias of an adapter are about to be told. */
void ag_block_choice_announce(const struct ag_announcement *announcement);
/* Only what this thread allocates; false: what any does. Before the recording begins. */
void ag_block_choice_follow_thread(bool is_this_alone);
/* In a forked child, whose trace is its own: before its heaps are announced. */
void ag_block_choice_forked(void);

/* A heap of the program's own. */
bool ag_block_choice_takes_heap(uint32_t domain, const char *allocator, const char *name);
/* A type by its name. From any thread and handler. */
bool ag_block_choice_takes_type(const char *name);

enum ag_block_type { AG_BLOCK_TYPE_UNKNOWN, AG_BLOCK_TYPE_TAKEN };
bool ag_block_choice_takes_slow(uint32_t via, uint64_t bytes, enum ag_block_type type);
/* Whether a block that this thread allocates is to be recorded. type: TAKEN: takes_type has been
 * asked. From any thread and handler. */
AG_FAST bool ag_block_choice_selects(uint32_t via, uint64_t bytes, enum ag_block_type type) {
    return AG_LIKELY(!ag_block_choice.asks) || ag_block_choice_takes_slow(via, bytes, type);
}
/* Whether the recorded blocks of this heap stand in the table. */
AG_FAST bool ag_block_choice_remembers(uint32_t via) {
    return ag_block_choice.remembers || (via < AG_VIA_HOST && ag_block_choice.remembers_adapters);
}
/* Whether a free (FREE, REALLOC_FREE, UNDO_FREE, COLLECT) is of a recorded block; it is none any
 * more, or is one again. Of a recording that is not sampled, where it asks. */
bool ag_block_choice_takes_free(enum ag_word_kind kind, uint32_t via, uintptr_t address);
/* Mappings of an adapter's heap. */
bool ag_block_choice_takes_mapping(uint32_t via);

#endif
