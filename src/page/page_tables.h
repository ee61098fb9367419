/* page_tables.h: the tables of one trace, as blocks of the page. */
#ifndef AG_PAGE_TABLES_H
#define AG_PAGE_TABLES_H

#include <stdio.h>

#include "model/answers/history.h"
#include "page/name_table.h"
#include "page/slice_log.h"

struct ag_page_trace { /* of one trace, while its part of the page is written */
    struct ag_profile *profile;
    unsigned number; /* 0, or 1: the one before, without a history */
    struct ag_outline outline;
    struct ag_history history;
    struct ag_slice_log log;
    struct ag_name_table names;
    uint32_t *number_of; /* by group of the outline as it was made: its number on the page */
    size_t n_numbers;    /* groups of the page */
    uint64_t folded_rows, other_bytes;
};

/* Blocks: frames nodes groups history counts leaks threads calls names. 0 or negative errno. */
int ag_page_tables_write(struct ag_page_trace *trace, const uint32_t *target, FILE *out);

#endif
