/* mapped_memory.h: sums of the memory that a program mapped. For each call stack, these are the
 * number and bytes of its mappings, and the bytes that were mapped at the peak and at the end.
 *
 * A mapping is what one call made: mmap, mremap, brk or sbrk. Later calls may unmap a part of a
 * mapping, or map over a part of it. A mapping counts as in use until the last of its bytes is
 * unmapped or mapped over. The peak is the moment with the most mapped bytes; if there are several
 * such moments, the latest. */
#ifndef AG_MAPPED_MEMORY_H
#define AG_MAPPED_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "ledger/ledger.h"
#include "schema/resident_mapping.h"

struct ag_mapped_memory;
struct ag_mapped_memory *ag_mapped_memory_new(void); /* NULL: no memory */
struct ag_mapped_memory *ag_mapped_memory_free(struct ag_mapped_memory *memory);
struct ag_mapping_origin { /* who made a mapping */
    uint32_t recorded_stack;
    uint32_t stack;  /* the stack in the results: recorded_stack, or what replaces it */
    uint32_t via;    /* the called function: mmap ... */
    uint32_t stream; /* the thread */
};
/* Maps [address, address + bytes) at TIME_NS, over whatever was mapped there. Calls must be in the
 * order of their times. An empty range, or one that wraps around, is ignored. Returns 0 or
 * -ENOMEM. */
int ag_mapped_memory_map(struct ag_mapped_memory *memory, uint64_t time_ns, uint64_t address,
                         uint64_t bytes, const struct ag_mapping_origin *origin);
/* Unmaps what is mapped in [address, address + bytes). CALL_TIME_NS is the time when the program
 * called munmap. Mappings that other streams than STREAM made after that time are kept: the kernel
 * gave them addresses that this call had already unmapped. CALL_TIME_NS UINT64_MAX: nothing is
 * kept. Sets *ret_via to the via of the first mapping in this range; UINT32_MAX: nothing was mapped
 * there. Returns 0 or -ENOMEM. */
int ag_mapped_memory_unmap(struct ag_mapped_memory *memory, uint64_t call_time_ns, uint64_t address,
                           uint64_t bytes, uint32_t stream, uint32_t *ret_via);
/* Sets the counts of mappings made and unmapped to 0, and forgets the peak so far. Mappings that
 * exist stay mapped. */
void ag_mapped_memory_restart(struct ag_mapped_memory *memory, uint64_t time_ns);
/* Calls VISIT for each mapped range [low, high), in the order of addresses, with the recorded stack
 * and the via that mapped it. */
typedef void ag_mapped_range_visit(void *context, uint64_t low, uint64_t high,
                                   uint32_t recorded_stack, uint32_t via);
void ag_mapped_memory_ranges(const struct ag_mapped_memory *memory, ag_mapped_range_visit *visit,
                             void *context);
/* Further sums over the mappings of a stack and via. */
struct ag_mapped_sum {
    uint64_t half_way_bytes;  /* mapped at ag_mapped_memory_note_half_way */
    uint64_t resident_bytes;  /* mapped and resident at ag_mapped_memory_note_resident */
    uint64_t untouched_bytes; /* mapped and not resident then */
};
void ag_mapped_memory_note_half_way(struct ag_mapped_memory *memory);
/* To be called when MEMORY has what was mapped at the moment of LOOK. */
void ag_mapped_memory_note_resident(struct ag_mapped_memory *memory,
                                    const struct ag_resident_look *look);
/* Copies the sums of each stack and via to new arrays of ag_mapped_memory_count elements, which the
 * caller frees, and sets the members of *summary that describe allocated, freed and used memory,
 * and the peak. Returns 0 or -ENOMEM; then no array was made. */
size_t ag_mapped_memory_count(const struct ag_mapped_memory *memory);
int ag_mapped_memory_sums(const struct ag_mapped_memory *memory, struct ag_stack_sum **ret_stacks,
                          struct ag_live_sum **ret_live, struct ag_mapped_sum **ret_mapped,
                          struct ag_summary *summary);

#endif
