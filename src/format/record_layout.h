/* record_layout.h: record_fields.def as a table, for code that handles records of all kinds in the
 * same way: the encoder, the decoder, and the command that prints records. */
#ifndef AG_RECORD_LAYOUT_H
#define AG_RECORD_LAYOUT_H

#include <string.h>

#include "base/compiler.h"
#include "schema/records.h"

enum ag_field_type { /* see record_fields.def */
                     AG_FIELD_U8,
                     AG_FIELD_U32,
                     AG_FIELD_STACK,
                     AG_FIELD_U64,
                     AG_FIELD_ADDRESS, /* the last of the number types (see ag_field_is_number) */
                     AG_FIELD_TEXT,
                     AG_FIELD_TEXTS,
                     AG_FIELD_BYTES,
};
struct ag_field {
    enum ag_field_type type;
    uint16_t offset; /* bytes from the start of ag_record.u, or of a row of a batch */
    const char *name;
};

enum ag_record_source { AG_SOURCE_WRITER, AG_SOURCE_RECORDER };
struct ag_record_layout {
    const struct ag_field *fields;
    uint16_t n_fields;
    uint16_t row_bytes; /* size of the struct of a batch's row; 0: the record is not a batch */
    enum ag_record_source source;
};
/* largest size of a row of any batch; asserted in record_layout.c */
enum { AG_ROW_MAX_BYTES = 128 };

/* Returns false if the kind is an event or unknown. */
bool ag_record_layout(uint32_t kind, struct ag_record_layout *ret_layout);

AG_FAST bool ag_field_is_number(const struct ag_field *field) {
    return field->type <= AG_FIELD_ADDRESS;
}

/* Reads a field of a number type; 0 for other types. BASE: a record's u, or a row. */
AG_FAST uint64_t ag_field_number(const struct ag_field *field, const void *base) {
    const uint8_t *at = (const uint8_t *)base + field->offset;
    uint64_t value = 0;
    uint32_t value32;

    switch (field->type) {
    case AG_FIELD_U8:
        return *at;
    case AG_FIELD_U32:
    case AG_FIELD_STACK:
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

/* Stores a number in a field. Returns false if the number does not fit into the field (its low bits
 * are stored nevertheless), or if the field has a text or bytes type (nothing is stored). */
AG_FAST bool ag_field_set_number(const struct ag_field *field, void *base, uint64_t value) {
    uint8_t *at = (uint8_t *)base + field->offset;
    const uint32_t value32 = (uint32_t)value;

    switch (field->type) {
    case AG_FIELD_U8:
        *at = (uint8_t)value;
        return value <= UINT8_MAX;
    case AG_FIELD_U32:
    case AG_FIELD_STACK:
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

/* Reads a field of a text or bytes type. */
AG_FAST struct ag_bytes ag_field_bytes(const struct ag_field *field, const void *base) {
    struct ag_bytes bytes;
    memcpy(&bytes, (const uint8_t *)base + field->offset, sizeof(bytes));
    return bytes;
}

#endif
