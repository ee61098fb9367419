/* protobuf.h: messages of protocol buffers, written field by field.
 *
 * The wire format (protobuf.dev/programming-guides/encoding) is three things: a field is its number
 * and its kind as a varint, then a varint or a length with bytes; a message inside of another is
 * bytes too, so it is made first; repeated integers may be packed into one field. That is less than
 * a library of it. A message is a list of bytes, one at a time; a count of 0 begins a new one. */
#ifndef AG_PROTOBUF_H
#define AG_PROTOBUF_H

#include "table/byte_list.h"

void ag_message_integer(struct ag_byte_list *message, uint32_t field, uint64_t number); /* not 0 */
void ag_message_bytes(struct ag_byte_list *message, uint32_t field, const void *bytes,
                      size_t length);
void ag_message_message(struct ag_byte_list *message, uint32_t field,
                        const struct ag_byte_list *inner);

#endif
