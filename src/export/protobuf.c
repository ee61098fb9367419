/* protobuf.c: see protobuf.h. */
#include "export/protobuf.h"

#include <stdlib.h>
#include <string.h>

enum { KIND_VARINT = 0, KIND_BYTES = 2, KIND_BITS = 3 };

void ag_message_append(struct ag_message *message, const void *bytes, size_t length) {
    if (message->length + length > message->capacity) {
        const size_t capacity = (message->length + length) * 2 + 64;
        uint8_t *grown = realloc(message->bytes, capacity);
        if (!grown) {
            message->has_failed = true;
            return;
        }
        message->bytes = grown;
        message->capacity = capacity;
    }
    if (length > 0) {
        memcpy(message->bytes + message->length, bytes, length);
        message->length += length;
    }
}

void ag_message_reset(struct ag_message *message) {
    message->length = 0;
}

void ag_message_done(struct ag_message *message) {
    free(message->bytes);
    *message = (struct ag_message){0};
}

void ag_message_varint(struct ag_message *message, uint64_t number) {
    uint8_t bytes[10]; /* of 64 bits, 7 at a time */
    size_t length = 0;
    for (; number >= 0x80; number >>= 7) {
        bytes[length++] = (uint8_t)(number | 0x80);
    }
    bytes[length++] = (uint8_t)number;
    ag_message_append(message, bytes, length);
}

void ag_message_integer(struct ag_message *message, uint32_t field, uint64_t number) {
    if (number != 0) {
        ag_message_varint(message, field << KIND_BITS | KIND_VARINT);
        ag_message_varint(message, number);
    }
}

void ag_message_bytes(struct ag_message *message, uint32_t field, const void *bytes,
                      size_t length) {
    ag_message_varint(message, field << KIND_BITS | KIND_BYTES);
    ag_message_varint(message, length);
    ag_message_append(message, bytes, length);
}

void ag_message_message(struct ag_message *message, uint32_t field,
                        const struct ag_message *inner) {
    ag_message_bytes(message, field, inner->bytes, inner->length);
    message->has_failed |= inner->has_failed;
}
