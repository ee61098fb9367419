/* name_table.h: the names of a page, each stored once and referred to by a number. Names are
 * untrusted data of the trace: control characters and invalid UTF-8 become U+FFFD here, and the
 * page inserts names only as text, never as HTML. */
#ifndef AG_NAME_TABLE_H
#define AG_NAME_TABLE_H

#include "page/data_block.h"
#include "table/text_store.h"

struct ag_name_table { /* zero-initialize */
    struct ag_text_store names;
    struct ag_byte_list lengths, texts;
};

/* The number of NAME; 0 for "" and NULL. If out of memory it returns 0, and table->texts.is_short
 * is true. */
uint32_t ag_name_table_number(struct ag_name_table *table, const char *name);
int ag_name_table_write(const struct ag_name_table *table, unsigned trace, FILE *out);
void ag_name_table_done(struct ag_name_table *table);

#endif
