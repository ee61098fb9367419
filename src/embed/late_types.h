/* late_types.h: blocks whose types are reported after their allocation: the recorded blocks of
 * heaps that were registered with the option has_late_types of allogram.h. The functions may be
 * called by any thread and signal handler. */
#ifndef AG_LATE_TYPES_H
#define AG_LATE_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "record/recorder.h"

/* Remember a block that was allocated without a type, forget a block that was freed, and follow a
 * block that was moved. */
void ag_late_types_born(allogram_heap heap, uint64_t address, size_t bytes,
                        const struct ag_block_site *block_site);
void ag_late_types_died(allogram_heap heap, uint64_t address);
void ag_late_types_moved(allogram_heap heap, uint64_t address, uint64_t new_address);
/* Records the type of a block. site: the number of the type in the stack tree of this recording
 * (ag_defined_names_site in defined_names.h). Returns false if the block was not
 * remembered in this recording. */
bool ag_late_types_report(allogram_heap heap, uint64_t address, uint32_t site);

#endif
