/* call_tables.h: function counters, as a block of the page. */
#ifndef AG_CALL_TABLES_H
#define AG_CALL_TABLES_H

#include <stdio.h>

#include "page/page_tables.h"
#include "text/json_writer.h"

/* The block "calls"; none where nothing was counted. Names go into the trace's table. 0 or negative
 * errno. */
int ag_call_tables_write(struct ag_page_trace *trace, FILE *out);
/* "functions": sums, and what stands apart, for the facts. Nothing where nothing was counted, or
 * without memory. */
void ag_call_facts_write(const struct ag_page_trace *trace, struct ag_json *json);

#endif
