/* name_table.h: the names of a page, each once. Names are untrusted data of the trace: control
 * characters and invalid UTF-8 become U+FFFD here, and the page shows names only as text. */
#ifndef AG_NAME_TABLE_H
#define AG_NAME_TABLE_H

#include "page/data_block.h"

struct ag_name_table { /* zero-initialise, then ag_name_table_init */
    struct ag_name_slot {
        const char *name;
        uint32_t number;
    } * slots;
    size_t mask, count;
    struct ag_byte_list lengths, texts;
};

int ag_name_table_init(struct ag_name_table *table); /* 0 or -ENOMEM; number 0 is "" */
/* NAME must live as long as the table. NULL: "". Without memory: 0, and the table is_short. */
uint32_t ag_name_table_number(struct ag_name_table *table, const char *name);
int ag_name_table_write(const struct ag_name_table *table, unsigned trace, FILE *out);
void ag_name_table_done(struct ag_name_table *table);

#endif
