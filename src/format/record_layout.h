/* record_layout.h: the fields of each record kind as a table (record_fields.def), for whoever
 * treats records alike: the encoder, the decoder, a dump. */
#ifndef AG_RECORD_LAYOUT_H
#define AG_RECORD_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "decode.h"

enum ag_field_type {
    AG_FIELD_U8,
    AG_FIELD_U32,
    AG_FIELD_U64,
    AG_FIELD_ADDRESS, /* a U64, read in hexadecimal */
    AG_FIELD_TEXT,
    AG_FIELD_TEXTS, /* strings that each end in NUL */
    AG_FIELD_BYTES, /* binary */
};
enum { AG_ROW_MAX_BYTES = 128 }; /* of any batch's struct; asserted where the structs are listed */
struct ag_field {
    enum ag_field_type type;
    uint16_t offset; /* in struct ag_record, or in the struct of a batch's row */
    const char *name;
};
struct ag_record_layout {
    const struct ag_field *fields;
    uint32_t n_fields;
    uint32_t row_bytes; /* of the struct of a batch's row; 0: the record is no batch */
};

/* false when the kind is an event or unknown. */
bool ag_record_layout(enum ag_record_kind kind, struct ag_record_layout *ret_layout);

uint64_t ag_field_number(const struct ag_field *field, const void *base); /* of the number types */
bool ag_field_set_number(const struct ag_field *field, void *base,
                         uint64_t value); /* false: it does not fit */
static inline bool ag_field_is_number(const struct ag_field *field) {
    return field->type <= AG_FIELD_ADDRESS;
}

#endif
