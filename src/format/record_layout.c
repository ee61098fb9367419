/* record_layout.c: the table of record_fields.def.
 *
 * A field is a type and an offset, so that encoding, decoding and printing a record are three loops
 * over one table, and none of them can omit a field. The recorder uses this file inside the
 * profiled program, so it must not call functions of the C library. */
#include "record_layout.h"

#include "segment.h"

static const struct ag_field fields[] = {
#define AG_EVENT(number, NAME, name)
#define AG_RECORD(number, NAME, name, type, source)
#define AG_BATCH(number, NAME, name, type, source)
#define AG_FIELD(NAME, type, TYPE, field) {AG_FIELD_##TYPE, offsetof(struct type, field), #field},
#define AG_END(NAME)
#include "schema/record_fields.def"
};

/* FIRST_kind and END_kind are indexes in `fields`. The value of each enumerator is the previous
 * value plus one. After FIRST_kind and END_kind, a PAUSE enumerator sets the value back by one, so
 * that only fields increase the index. */
enum {
#define AG_EVENT(number, NAME, name)
#define AG_RECORD(number, NAME, name, type, source) \
    FIRST_##NAME, PAUSE_BEFORE_##NAME = FIRST_##NAME - 1,
#define AG_BATCH(number, NAME, name, type, source) AG_RECORD(number, NAME, name, type, source)
#define AG_FIELD(NAME, type, TYPE, field) INDEX_##NAME##_##field,
#define AG_END(NAME) END_##NAME, PAUSE_AFTER_##NAME = END_##NAME - 1,
#include "schema/record_fields.def"
};

static const struct ag_record_layout layouts[] = {
#define AG_EVENT(number, NAME, name)
#define LAYOUT(number, NAME, bytes, from)              \
    [number] = {.fields = &fields[FIRST_##NAME],       \
                .n_fields = END_##NAME - FIRST_##NAME, \
                .row_bytes = (bytes),                  \
                .source = AG_SOURCE_##from},
#define AG_RECORD(number, NAME, name, type, source) LAYOUT(number, NAME, 0, source)
#define AG_BATCH(number, NAME, name, type, source) LAYOUT(number, NAME, sizeof(struct type), source)
#define AG_FIELD(NAME, type, TYPE, field)
#define AG_END(NAME)
#include "schema/record_fields.def"
#undef LAYOUT
};

#define AG_EVENT(number, NAME, name)
#define AG_RECORD(number, NAME, name, type, source)
#define AG_BATCH(number, NAME, name, type, source)          \
    _Static_assert(sizeof(struct type) <= AG_ROW_MAX_BYTES, \
                   "a row fits into the buffer of a decoder");
#define AG_FIELD(NAME, type, TYPE, field)
#define AG_END(NAME)
#include "schema/record_fields.def"

bool ag_record_layout(uint32_t kind, struct ag_record_layout *ret_layout) {
    if (kind >= AG_ARRAY_SIZE(layouts) || layouts[kind].n_fields == 0) {
        return false;
    }
    *ret_layout = layouts[kind];
    return true;
}

const char *ag_record_kind_name(enum ag_record_kind kind) {
    static const char *const names[] = {
#define AG_EVENT(number, NAME, name) [number] = #name,
#define AG_RECORD(number, NAME, name, type, source) [number] = #name,
#define AG_BATCH(number, NAME, name, type, source) [number] = #name,
#define AG_FIELD(NAME, type, TYPE, field)
#define AG_END(NAME)
#include "schema/record_fields.def"
    };
    return (size_t)kind < AG_ARRAY_SIZE(names) ? names[kind] : NULL;
}

const char *ag_lost_cause_name(uint32_t cause) {
    static const char *const names[] = {
        [AG_LOST_RING_FULL] = "ring_full",
        [AG_LOST_NO_MEMORY] = "no_memory",
        [AG_LOST_STOPPED] = "stopped",
        [AG_LOST_DAMAGED] = "damaged",
    };
    _Static_assert(AG_ARRAY_SIZE(names) == AG_LOST_CAUSES, "every cause has a name");

    return cause < AG_LOST_CAUSES ? names[cause] : "unknown";
}
