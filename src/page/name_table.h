/* name_table.h: the names of a page, each once. Names are untrusted data of the trace: control
 * characters and invalid UTF-8 become U+FFFD here, and the page shows names only as text. */
#ifndef AG_NAME_TABLE_H
#define AG_NAME_TABLE_H

#include "page/data_block.h"
#include "table/text_store.h"

struct ag_name_table { /* zero-initialize */
    struct ag_text_store names;
    struct ag_byte_list lengths, texts;
};

/* 0 is "", also for NULL. Without memory: 0, and the table is_short. */
uint32_t ag_name_table_number(struct ag_name_table *table, const char *name);
int ag_name_table_write(const struct ag_name_table *table, unsigned trace, FILE *out);
void ag_name_table_done(struct ag_name_table *table);

#endif
