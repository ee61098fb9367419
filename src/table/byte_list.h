/* byte_list.h: a growing array of bytes. A failure is stored in the list, so a caller that appends
 * many pieces needs to check only once, at the end. */
#ifndef AG_BYTE_LIST_H
#define AG_BYTE_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_byte_list { /* zero-initialize; freed by ag_byte_list_done */
    uint8_t *bytes;
    size_t count, capacity;
    bool is_short; /* true: there was no memory, so the contents are incomplete */
};

void ag_byte_list_add(struct ag_byte_list *list, const void *bytes, size_t count);
void ag_byte_list_number(struct ag_byte_list *list, uint64_t number); /* a varint */
void ag_byte_list_signed(struct ag_byte_list *list, int64_t number);  /* a zigzag-encoded varint */
/* Appends the contents of PARTS, an array of N lists, and frees the contents of PARTS. */
void ag_byte_list_join(struct ag_byte_list *list, struct ag_byte_list *parts, size_t n);
void ag_byte_list_done(struct ag_byte_list *list);

#endif
