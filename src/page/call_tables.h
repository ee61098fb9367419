/* call_tables.h: writes function counters (the calls, words and times that some runtimes count for
 * each function) as blocks (data_block.h) of `allogram view`'s page. */
#ifndef AG_CALL_TABLES_H
#define AG_CALL_TABLES_H

#include <stdio.h>

#include "page/page_tables.h"
#include "text/json_writer.h"

/* Writes the blocks "calls" and "paths", or nothing if no function was counted. Adds names to
 * trace->names. Returns 0 or negative errno. */
int ag_call_tables_write(struct ag_page_trace *trace, FILE *out);
/* Writes the key "functions" of the block "facts": the sums of the counters, and the words that no
 * function allocated. Writes nothing if no function was counted, or if memory is exhausted. */
void ag_call_facts_write(const struct ag_page_trace *trace, struct ag_json *json);

#endif
