/* byte_list.c: a growing array of bytes and varints, see byte_list.h. */
#include "table/byte_list.h"

#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "table/array.h"

void ag_byte_list_add(struct ag_byte_list *list, const void *bytes, size_t count) {
    if (AG_ARRAY_RESERVE(list->bytes, list->capacity, list->count + count) < 0) {
        list->is_short = true;
    } else if (count > 0) {
        memcpy(list->bytes + list->count, bytes, count);
        list->count += count;
    }
}

void ag_byte_list_number(struct ag_byte_list *list, uint64_t number) {
    uint8_t bytes[AG_VARINT_MAX_BYTES];
    ag_byte_list_add(list, bytes, (size_t)(ag_varint_put(bytes, number) - bytes));
}

void ag_byte_list_signed(struct ag_byte_list *list, int64_t number) {
    ag_byte_list_number(list, ag_zigzag((uint64_t)number));
}

void ag_byte_list_join(struct ag_byte_list *list, struct ag_byte_list *parts, size_t n) {
    for (size_t i = 0; i < n; i++) {
        ag_byte_list_add(list, parts[i].bytes, parts[i].count);
        list->is_short |= parts[i].is_short;
        ag_byte_list_done(&parts[i]);
    }
}

void ag_byte_list_done(struct ag_byte_list *list) {
    free(list->bytes);
    *list = (struct ag_byte_list){0};
}
