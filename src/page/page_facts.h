/* page_facts.h: the facts about a trace, as the JSON that the page reads first. */
#ifndef AG_PAGE_FACTS_H
#define AG_PAGE_FACTS_H

#include "page/page_tables.h"

/* The block "facts" of one trace, once its tables are written. 0 or negative errno. */
int ag_page_facts_write(const struct ag_page_trace *trace, FILE *out);

#endif
