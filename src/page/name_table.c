/* name_table.c: open addressing over the names' contents; grown at half full. */
#include "page/name_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "text/utf8.h"

enum { FIRST_SLOTS = 1024, NAME_BYTES_MOST = 4096 };

static size_t hash_of(const char *name) {
    return (size_t)ag_keyed_hash_bytes(name, strlen(name));
}

static struct ag_name_slot *seek(const struct ag_name_table *table, const char *name) {
    size_t at = hash_of(name) & table->mask;
    while (table->slots[at].name && strcmp(table->slots[at].name, name) != 0) {
        at = (at + 1) & table->mask;
    }
    return &table->slots[at];
}

static int name_table_grow(struct ag_name_table *table) {
    const struct ag_name_table old = *table;
    const size_t n = table->slots ? (table->mask + 1) * 2 : FIRST_SLOTS;
    struct ag_name_slot *slots = calloc(n, sizeof(*slots));
    if (!slots) {
        return -ENOMEM;
    }
    table->slots = slots;
    table->mask = n - 1;
    for (size_t i = 0; old.slots && i <= old.mask; i++) {
        if (old.slots[i].name) {
            *seek(table, old.slots[i].name) = old.slots[i];
        }
    }
    free(old.slots);
    return 0;
}

/* Longer names than anybody reads are cut: a template's may take a megabyte. */
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
    name = name ? name : "";
    struct ag_name_slot *slot = seek(table, name);
    if (slot->name) {
        return slot->number;
    }
    if (table->count * 2 > table->mask) {
        if (name_table_grow(table) < 0) {
            table->texts.is_short = true;
            return 0;
        }
        slot = seek(table, name);
    }
    *slot = (struct ag_name_slot){.name = name, .number = (uint32_t)table->count++};
    add_text(table, name);
    return slot->number;
}

int ag_name_table_init(struct ag_name_table *table) {
    const int r = name_table_grow(table);
    return r < 0 ? r : (int)ag_name_table_number(table, "");
}

/* count, lengths, texts */
int ag_name_table_write(const struct ag_name_table *table, unsigned trace, FILE *out) {
    struct ag_byte_list list = {0};
    ag_byte_list_number(&list, table->count);
    ag_byte_list_add(&list, table->lengths.bytes, table->lengths.count);
    ag_byte_list_add(&list, table->texts.bytes, table->texts.count);
    list.is_short |= table->lengths.is_short || table->texts.is_short;
    const int r = ag_data_block_write(out, trace, "names", &list);
    ag_byte_list_done(&list);
    return r;
}

void ag_name_table_done(struct ag_name_table *table) {
    free(table->slots);
    ag_byte_list_done(&table->lengths);
    ag_byte_list_done(&table->texts);
    *table = (struct ag_name_table){0};
}
