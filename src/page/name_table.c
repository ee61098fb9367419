/* name_table.c: the names of a page and their numbers, see name_table.h. A text store
 * (table/text_store.h) numbers the names. A new name is encoded for the page when it gets its
 * number. */
#include "page/name_table.h"

#include <string.h>

#include "text/utf8.h"

enum { NAME_BYTES_MOST = 4096 };

/* Encodes a name. A very long name is cut, because the name of a C++ template can have a
 * megabyte. */
static void add_text(struct ag_name_table *table, const char *name) {
    const size_t before = table->texts.count;
    for (;;) {
        char bytes[AG_UTF8_BYTES];
        uint32_t c = ag_utf8_next(&name);
        if (c == 0) {
            break;
        }
        if (table->texts.count - before > NAME_BYTES_MOST) {
            ag_byte_list_add(&table->texts, "...", 3);
            break;
        }
        c = ag_utf8_is_control(c) ? AG_UTF8_REPLACEMENT : c;
        ag_byte_list_add(&table->texts, bytes, ag_utf8_put(bytes, c));
    }
    ag_byte_list_number(&table->lengths, table->texts.count - before);
}

uint32_t ag_name_table_number(struct ag_name_table *table, const char *name) {
    const size_t n_before = table->names.count;
    const uint32_t number = ag_text_id(&table->names, name, name ? strlen(name) : 0);
    if (table->names.count > n_before) {
        add_text(table, name);
    }
    table->texts.is_short |= number == 0 && name && name[0];
    return number;
}

/* Writes the block "names": the number of names, the length of each in bytes, then all texts
 * without separators. Name 0 is "". */
int ag_name_table_write(const struct ag_name_table *table, unsigned trace, FILE *out) {
    struct ag_byte_list list = {0};
    ag_byte_list_number(&list, table->names.count + 1);
    ag_byte_list_number(&list, 0); /* the length of "" */
    ag_byte_list_add(&list, table->lengths.bytes, table->lengths.count);
    ag_byte_list_add(&list, table->texts.bytes, table->texts.count);
    list.is_short |= table->lengths.is_short || table->texts.is_short;
    return ag_data_block_write(out, trace, "names", &list);
}

void ag_name_table_done(struct ag_name_table *table) {
    ag_text_store_done(&table->names);
    ag_byte_list_done(&table->lengths);
    ag_byte_list_done(&table->texts);
    *table = (struct ag_name_table){0};
}
