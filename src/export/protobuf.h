/* protobuf.h: messages of protocol buffers, written field by field.
 *
 * The wire format (protobuf.dev/programming-guides/encoding) is three things: a field is its number
 * and its kind as a varint, then a varint or a length with bytes; a message inside of another is
 * bytes too, so it is made first; repeated integers may be packed into one field. That is less than
 * a library of it. A message is kept in memory, one at a time. */
#ifndef AG_PROTOBUF_H
#define AG_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_message { /* zero-initialise; reset reuses the memory */
    uint8_t *bytes;
    size_t length, capacity;
    bool has_failed; /* no memory */
};
void ag_message_reset(struct ag_message *message);
void ag_message_done(struct ag_message *message);
void ag_message_append(struct ag_message *message, const void *bytes, size_t length); /* bare */
void ag_message_varint(struct ag_message *message, uint64_t number);                  /* bare */
void ag_message_integer(struct ag_message *message, uint32_t field, uint64_t number); /* not 0 */
void ag_message_bytes(struct ag_message *message, uint32_t field, const void *bytes, size_t length);
void ag_message_message(struct ag_message *message, uint32_t field, const struct ag_message *inner);

#endif
