/* memory_table.h: the picture of who holds the process' memory, under the table of heaps. */
#ifndef AG_MEMORY_TABLE_H
#define AG_MEMORY_TABLE_H

#include "report/view.h"

/* Nothing where no heap was counted, and in a window of time: the counts are of the end. 0 or
 * -ENOMEM. */
int ag_memory_table_text(struct ag_view *view);
int ag_memory_table_json(struct ag_view *view); /* adds "memory" and "memory_total" */

#endif
