/* mapped_residency.h: how many bytes of mapped ranges were resident at the moment of a look at the
 * resident memory (schema/resident_mapping.h). */
#ifndef AG_MAPPED_RESIDENCY_H
#define AG_MAPPED_RESIDENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/page_runs.h"
#include "schema/resident_mapping.h"

struct ag_mapped_residency { /* start with ag_mapped_residency_of */
    const struct ag_resident_look *look;
    size_t next;              /* the first mapping of the look that was not begun */
    uint64_t reached;         /* mappings that begin below it are left out: the trace is damaged */
    struct ag_page_runs runs; /* of the current mapping; its list has ended if it has none */
    uint64_t low, high; /* the current run: [low, high), of which `bytes` bytes are resident */
    uint64_t bytes;
};
struct ag_mapped_residency ag_mapped_residency_of(const struct ag_resident_look *look);
/* Returns the resident bytes in [low, high). The ranges of two successive calls must be disjoint
 * and in the order of their addresses. */
uint64_t ag_mapped_residency_in(struct ag_mapped_residency *residency, uint64_t low, uint64_t high);

#endif
