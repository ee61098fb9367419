/* protobuf.c: see protobuf.h. */
#include "export/protobuf.h"

enum { KIND_VARINT = 0, KIND_BYTES = 2, KIND_BITS = 3 };

void ag_message_integer(struct ag_byte_list *message, uint32_t field, uint64_t number) {
    if (number != 0) {
        ag_byte_list_number(message, field << KIND_BITS | KIND_VARINT);
        ag_byte_list_number(message, number);
    }
}

void ag_message_bytes(struct ag_byte_list *message, uint32_t field, const void *bytes,
                      size_t length) {
    ag_byte_list_number(message, field << KIND_BITS | KIND_BYTES);
    ag_byte_list_number(message, length);
    ag_byte_list_add(message, bytes, length);
}

void ag_message_message(struct ag_byte_list *message, uint32_t field,
                        const struct ag_byte_list *inner) {
    ag_message_bytes(message, field, inner->bytes, inner->count);
    message->is_short |= inner->is_short;
}
