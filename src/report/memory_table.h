/* memory_table.h: how much memory each runtime of the process holds: the second table of `report
 * --view=heaps`. */
#ifndef AG_MEMORY_TABLE_H
#define AG_MEMORY_TABLE_H

#include "report/view.h"

/* Both are empty if no heap was counted, or if the report has a time window, because the numbers
 * are those at the end of the recording. 0 or -ENOMEM. */
int ag_memory_table_text(struct ag_view *view);
int ag_memory_table_json(struct ag_view *view); /* adds "memory" and "memory_total" */

#endif
