/* record_layout.h: the fields of each record kind as a table (record_fields.def), for code that
 * handles all kinds alike: the encoder, the decoder, a dump. */
#ifndef AG_RECORD_LAYOUT_H
#define AG_RECORD_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/compiler.h"
#include "decode.h"

enum ag_field_type {
    AG_FIELD_U8,
    AG_FIELD_U32,
    AG_FIELD_U64,
    AG_FIELD_ADDRESS, /* a U64 that is shown in hexadecimal */
    AG_FIELD_TEXT,
    AG_FIELD_TEXTS, /* strings, each terminated by NUL */
    AG_FIELD_BYTES, /* binary data */
};
/* of the row struct of any batch; asserted where the structs are listed */
enum { AG_ROW_MAX_BYTES = 128 };
struct ag_field {
    enum ag_field_type type;
    uint16_t offset; /* in struct ag_record, or in the struct of a batch's row */
    const char *name;
};
struct ag_record_layout {
    const struct ag_field *fields;
    uint32_t n_fields;
    uint32_t row_bytes; /* size of the row struct of a batch; 0: the record is not a batch */
};

/* false when the kind is an event or unknown. */
bool ag_record_layout(enum ag_record_kind kind, struct ag_record_layout *ret_layout);

AG_FAST bool ag_field_is_number(const struct ag_field *field) {
    return field->type <= AG_FIELD_ADDRESS;
}

/* Reads a field of a number type; 0 for other types. */
AG_FAST uint64_t ag_field_number(const struct ag_field *field, const void *base) {
    const uint8_t *at = (const uint8_t *)base + field->offset;
    uint64_t value = 0;
    uint32_t value32;

    switch (field->type) {
    case AG_FIELD_U8:
        return *at;
    case AG_FIELD_U32:
        memcpy(&value32, at, sizeof(value32));
        return value32;
    case AG_FIELD_U64:
    case AG_FIELD_ADDRESS:
        memcpy(&value, at, sizeof(value));
        return value;
    case AG_FIELD_TEXT:
    case AG_FIELD_TEXTS:
    case AG_FIELD_BYTES:
        break;
    }
    return 0;
}

/* Stores a number. false: it does not fit. */
AG_FAST bool ag_field_set_number(const struct ag_field *field, void *base, uint64_t value) {
    uint8_t *at = (uint8_t *)base + field->offset;
    const uint32_t value32 = (uint32_t)value;

    switch (field->type) {
    case AG_FIELD_U8:
        *at = (uint8_t)value;
        return value <= UINT8_MAX;
    case AG_FIELD_U32:
        memcpy(at, &value32, sizeof(value32));
        return value <= UINT32_MAX;
    case AG_FIELD_U64:
    case AG_FIELD_ADDRESS:
        memcpy(at, &value, sizeof(value));
        return true;
    case AG_FIELD_TEXT:
    case AG_FIELD_TEXTS:
    case AG_FIELD_BYTES:
        break;
    }
    return false;
}

#endif
