/* page_facts.h: writes general facts about a trace as the JSON that the page reads first. */
#ifndef AG_PAGE_FACTS_H
#define AG_PAGE_FACTS_H

#include "page/page_tables.h"

/* Writes the block "facts" of one trace. Call it after ag_page_tables_write (page_tables.h). 0 or
 * negative errno. */
int ag_page_facts_write(const struct ag_page_trace *trace, FILE *out);

#endif
