/* record_layout.c: records.def and record_fields.def as tables.
 *
 * A field is a type and an offset, so that encoding, decoding and printing a record are three loops
 * over one table, and none of them can omit a field. */
#include "record_layout.h"

#include <string.h>

#include "segment.h"

/* Two arrays with one entry per line of record_fields.def: the field, and its kind. */
static const struct ag_field fields[] = {
#define AG_FIELD(KIND, TYPE, part, field) \
    {AG_FIELD_##TYPE, offsetof(struct ag_record, u.part.field), #field},
#define AG_COLUMN(KIND, TYPE, row, field) {AG_FIELD_##TYPE, offsetof(struct row, field), #field},
#include "record_fields.def"
#undef AG_FIELD
#undef AG_COLUMN
};
static const uint8_t field_kinds[] = {
#define AG_FIELD(KIND, TYPE, part, field) AG_RECORD_##KIND,
#define AG_COLUMN(KIND, TYPE, row, field) AG_RECORD_##KIND,
#include "record_fields.def"
#undef AG_FIELD
#undef AG_COLUMN
};

_Static_assert(sizeof(struct ag_stack_sum) <= AG_ROW_MAX_BYTES &&
                   sizeof(struct ag_chunk_entry) <= AG_ROW_MAX_BYTES &&
                   sizeof(struct ag_heap_sum) <= AG_ROW_MAX_BYTES &&
                   sizeof(struct ag_call_path) <= AG_ROW_MAX_BYTES,
               "the longest rows fit a decoder's buffer");

/* One case per kind, so that -Wswitch reports a missing one. */
static uint32_t row_bytes_of(enum ag_record_kind kind) {
    switch (kind) {
    case AG_RECORD_NODES:
        return sizeof(struct ag_node);
    case AG_RECORD_CALLS:
        return sizeof(struct ag_call_path);
    case AG_RECORD_STACK_SUMS:
        return sizeof(struct ag_stack_sum);
    case AG_RECORD_TIMELINE:
        return sizeof(struct ag_timeline_point);
    case AG_RECORD_THREAD_SUMS:
        return sizeof(struct ag_thread_sum);
    case AG_RECORD_HEAP_SUMS:
        return sizeof(struct ag_heap_sum);
    case AG_RECORD_THREAD_PAIRS:
        return sizeof(struct ag_thread_pair);
    case AG_RECORD_CHUNKS:
        return sizeof(struct ag_chunk_entry);
    case AG_RECORD_CPU_SAMPLES:
        return sizeof(struct ag_cpu_sample);
    case AG_RECORD_ALLOC:
    case AG_RECORD_FREE:
    case AG_RECORD_REALLOC_FREE:
    case AG_RECORD_UNDO_FREE:
    case AG_RECORD_STAMP:
    case AG_RECORD_FREE_STACK:
    case AG_RECORD_PROCESS:
    case AG_RECORD_IMAGE_LOAD:
    case AG_RECORD_IMAGE_UNLOAD:
    case AG_RECORD_THREAD:
    case AG_RECORD_HEAP:
    case AG_RECORD_VIA:
    case AG_RECORD_RUNTIME:
    case AG_RECORD_SAMPLING:
    case AG_RECORD_MAP:
    case AG_RECORD_UNMAP:
    case AG_RECORD_RESIDENT:
    case AG_RECORD_FRAME:
    case AG_RECORD_FUNCTIONS:
    case AG_RECORD_GC:
    case AG_RECORD_TYPE:
    case AG_RECORD_MEMORY:
    case AG_RECORD_STACK_TYPE:
    case AG_RECORD_MOVE:
    case AG_RECORD_PROMOTE:
    case AG_RECORD_COLLECT:
    case AG_RECORD_BLOCK_TYPE:
    case AG_RECORD_CODE:
    case AG_RECORD_FILTER:
    case AG_RECORD_UNDECIDED:
    case AG_RECORD_RESET:
    case AG_RECORD_LABEL:
    case AG_RECORD_MARK:
    case AG_RECORD_LOST:
    case AG_RECORD_END:
    case AG_RECORD_PROFILER:
    case AG_RECORD_SAMPLER:
    case AG_RECORD_SUMMARY:
    case AG_RECORD_OBSERVED:
        return 0;
    }
    return 0;
}

bool ag_record_layout(enum ag_record_kind kind, struct ag_record_layout *ret_layout) {
    uint32_t first = 0;
    while (first < AG_ARRAY_SIZE(field_kinds) && field_kinds[first] != kind) {
        first++;
    }
    uint32_t end = first;
    while (end < AG_ARRAY_SIZE(field_kinds) && field_kinds[end] == kind) {
        end++;
    }
    if (end == first) {
        return false;
    }
    *ret_layout = (struct ag_record_layout){
        .fields = fields + first, .n_fields = end - first, .row_bytes = row_bytes_of(kind)};
    return true;
}

/* ---- names ---- */

const char *ag_record_kind_name(enum ag_record_kind kind) {
    switch (kind) {
#define AG_RECORD(number, NAME, name) \
    case AG_RECORD_##NAME:            \
        return #name;
#include "records.def"
#undef AG_RECORD
    }
    return NULL;
}

const char *ag_lost_cause_name(uint32_t cause) {
    static const char *const names[] = {
        [AG_LOST_RING_FULL] = "ring_full",
        [AG_LOST_NO_MEMORY] = "no_memory",
        [AG_LOST_STOPPED] = "stopped",
        [AG_LOST_DAMAGED] = "damaged",
    };
    _Static_assert(AG_ARRAY_SIZE(names) == AG_LOST_CAUSES, "every cause has its name");

    return cause < AG_LOST_CAUSES ? names[cause] : "unknown";
}

const char *ag_decode_code_text(enum ag_decode_code code) {
    switch (code) {
    case AG_DECODE_OK:
        return "whole";
    case AG_DECODE_EMPTY:
        return "empty";
    case AG_DECODE_NOT_A_TRACE:
        return "not an allogram trace";
    case AG_DECODE_NEWER:
        return "of a newer version than this allogram can read";
    case AG_DECODE_LIVE:
        return "a live recording, not a trace yet";
    case AG_DECODE_NOT_REGULAR:
        return "not a regular file";
    case AG_DECODE_CUT:
        return "cut short";
    case AG_DECODE_CHECKSUM:
        return "damaged, a checksum does not match";
    case AG_DECODE_BAD_CHUNK:
        return "damaged, a chunk contradicts itself";
    case AG_DECODE_BAD_RECORD:
        return "damaged, a record contradicts itself";
    case AG_DECODE_UNSEALED:
        return "not sealed, the recording never finished";
    case AG_DECODE_NO_MEMORY:
        return "too large for the memory there is";
    case AG_DECODE_IO:
        return "not readable";
    }
    return "damaged";
}
