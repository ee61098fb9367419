/* page_tables.h: writes the tables of one trace as blocks (data_block.h) of the page.
 *
 * The outline is the call tree without its small parts (model/answers/outline.h). A group is the
 * stacks of one process that end in one node of the outline, with one allocation function, blamed
 * line, type and label (a name that the program gives to a part of its work). Folding (slice_log.h)
 * replaces small groups by groups at nodes "other" closer to the root, until the tables are small
 * enough for the page. */
#ifndef AG_PAGE_TABLES_H
#define AG_PAGE_TABLES_H

#include <stdio.h>

#include "model/answers/findings.h"
#include "model/answers/history.h"
#include "page/name_table.h"
#include "page/slice_log.h"

struct ag_page_trace { /* the state of one trace while its part of the page is written */
    struct ag_profile *profile;
    unsigned number; /* 0: the trace; 1: the earlier trace to compare with, which has no history */
    struct ag_outline outline;
    struct ag_history history;
    struct ag_slice_log log;
    struct ag_name_table names;
    uint32_t *number_of; /* by group of the outline before folding: its number on the page */
    size_t n_numbers;    /* number of groups on the page */
    /* stacks that were folded into nodes "other": their number, and the bytes that they
     * allocated */
    uint64_t folded_rows, other_bytes;
    struct ag_findings findings; /* those of `report`; of the trace number 0 only */
    /* by finding: 1 + the number of its line in the block "frames"; 0: it has no line there */
    uint32_t finding_frames[AG_FINDINGS_MOST];
};

/* Writes the blocks frames, nodes, groups, totals, threads, history, counts, leaks, processes,
 * calls, paths and names. If stacks were folded into nodes "other", it also folds the profile (ag_profile_fold).
 * TARGET is what ag_slice_log_fold (slice_log.h) stored in RET_TARGET. 0 or negative errno. */
int ag_page_tables_write(struct ag_page_trace *trace, const uint32_t *target, FILE *out);

#endif
