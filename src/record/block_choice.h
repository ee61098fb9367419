/* block_choice.h: decides which blocks are recorded when a filter is set (`run --filter`, or a
 * recording that the program started itself), or when only one thread is recorded.
 *
 * 1. Heaps. The heaps of an adapter (the code for one runtime or allocator) are checked when the
 * adapter announces them. The program's own heaps are checked when they are registered and whenever
 * a recording begins (embed/host_heaps.c). An event of a heap that is left out costs one lookup by
 * its via, the number of the allocation function.
 *
 * 2. Sizes, types, one thread. Blocks are selected one by one, and only frees of selected blocks
 * may be recorded. So the address of each recorded block is kept in the table of sampled_blocks.h.
 * A free of any other block is ignored: it counts neither as a free of an unknown block nor as a
 * lost event. The table is also used when only some of an adapter's heaps are recorded, because a
 * free does not say which heap its block belongs to. A sampled recording always has this table, and
 * applies the filter after the sampler has selected a block.
 *
 * 3. Types. A caller that knows the type of a block when it allocates the block checks the type
 * itself (ag_block_choice_takes_type). For all other blocks the type is unknown. For each
 * allocation function (via) with blocks of unknown type, one record in the trace says that the
 * filter's terms about types could not be applied to these blocks. */
#ifndef AG_BLOCK_CHOICE_H
#define AG_BLOCK_CHOICE_H

#include "recorder.h"

struct ag_block_choice {
    bool asks;      /* each event has to be checked */
    bool remembers; /* recorded blocks are in the table of section 2 */
    /* recorded blocks of the adapters' heaps are in the table (blocks of all these heaps have
     * addresses in the memory of the process, so a free does not say which heap its block belongs
     * to) */
    bool remembers_adapters;
};
extern struct ag_block_choice ag_block_choice AG_HIDDEN;

/* Called when a recording begins, before any event: reads the filter from the header of the live
 * segment, the memory that the process shares with the writer of its trace. -EINVAL: the filter is
 * damaged; -ENOMEM: no memory for the table. */
int ag_block_choice_start(const struct ag_segment_header *header);
/* Applies the filter to the heaps of an adapter. Called before its heaps and vias are announced. */
void ag_block_choice_announce(const struct ag_announcement *announcement);
/* Sets whether only the calling thread is recorded (true), or all threads. Called before the
 * recording begins. */
void ag_block_choice_follow_thread(bool is_this_alone);
/* Resets the counts of vias and the reports of unknown types. Called in a forked child, which has
 * its own trace, before the child announces its heaps. */
void ag_block_choice_forked(void);

/* Whether a heap that the program registered is selected. */
bool ag_block_choice_takes_heap(uint32_t domain, const char *allocator, const char *name);
/* Whether a type with this name is selected. Can be called from any thread and signal handler. */
bool ag_block_choice_takes_type(const char *name);

enum ag_block_type { AG_BLOCK_TYPE_UNKNOWN, AG_BLOCK_TYPE_TAKEN };
bool ag_block_choice_takes_slow(uint32_t via, uint64_t bytes, enum ag_block_type type);
/* Whether a block that the calling thread allocates is to be recorded. type: AG_BLOCK_TYPE_TAKEN if
 * ag_block_choice_takes_type has selected the type. Can be called from any thread and signal
 * handler. */
AG_FAST bool ag_block_choice_selects(uint32_t via, uint64_t bytes, enum ag_block_type type) {
    return AG_LIKELY(!ag_block_choice.asks) || ag_block_choice_takes_slow(via, bytes, type);
}
/* Whether the addresses of the recorded blocks that VIA allocated are kept in the table. */
AG_FAST bool ag_block_choice_remembers(uint32_t via) {
    return ag_block_choice.remembers || (via < AG_VIA_HOST && ag_block_choice.remembers_adapters);
}
/* Whether a free (kind: FREE, REALLOC_FREE, UNDO_FREE or COLLECT) is of a recorded block. If the
 * table holds the addresses of VIA's blocks, the address is removed from it, or inserted again for
 * UNDO_FREE. Only for recordings that are not sampled and in which ag_block_choice.asks is set. */
bool ag_block_choice_takes_free(enum ag_word_kind kind, uint32_t via, uintptr_t address);
/* Whether mappings that VIA, an allocation function, makes are recorded. */
bool ag_block_choice_takes_mapping(uint32_t via);

#endif
