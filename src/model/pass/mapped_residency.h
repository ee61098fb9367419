/* mapped_residency.h: computes how many bytes of mapped ranges were resident at the time of a look,
 * which is one reading of a process's resident memory (schema/resident_mapping.h). */
#ifndef AG_MAPPED_RESIDENCY_H
#define AG_MAPPED_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/page_runs.h"
#include "schema/resident_mapping.h"

struct ag_mapped_residency { /* start with ag_mapped_residency_of */
    const struct ag_resident_look *look;
    size_t next; /* index of the first mapping of the look that was not read yet */
    /* mappings that begin below this address are left out: they occur only in a damaged trace */
    uint64_t reached;
    struct ag_page_runs runs; /* the runs of the current mapping that are left; may be empty */
    uint64_t low, high; /* the current run: [low, high), of which `bytes` bytes are resident */
    uint64_t bytes;
};
struct ag_mapped_residency ag_mapped_residency_of(const struct ag_resident_look *look);
/* Returns the resident bytes in [low, high). The ranges of two successive calls must be disjoint
 * and in the order of their addresses. */
uint64_t ag_mapped_residency_in(struct ag_mapped_residency *residency, uint64_t low, uint64_t high);

#endif
