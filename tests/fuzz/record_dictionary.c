/* record_dictionary.c: prints a dictionary for libFuzzer, from which the fuzzer takes parts of
 * inputs: a small record of each kind (record_fields.def), and the byte that precedes a record
 * between events. */
#include <inttypes.h>
#include <stdio.h>

#include "format/encode.h"
#include "format/record_layout.h"
#include "format/trace_layout.h"

static void print_entry(const char *name, const uint8_t *bytes, size_t n_bytes) {
    printf("%s=\"", name);
    for (size_t i = 0; i < n_bytes; i++) {
        printf("\\x%02" PRIx8, bytes[i]);
    }
    puts("\"");
}

int main(void) {
    const uint8_t announced = AG_OTHER_RECORD << AG_FORM_BITS | AG_FORM_OTHER;
    print_entry("record_among_events", &announced, sizeof(announced));
    for (uint32_t kind = 0; kind < 256; kind++) {
        struct ag_record record = {.kind = (enum ag_record_kind)kind};
        const uint64_t row[AG_ROW_MAX_BYTES / 8] = {0};
        struct ag_record_layout layout;
        struct ag_blob blob = {0};
        if (!ag_record_layout(kind, &layout)) {
            continue;
        }
        if (layout.row_bytes != 0) {
            record.u.rows.count = 1;
            record.u.rows.data.data = (const char *)row;
        }
        if (ag_record_append(&blob, &record) != 0) {
            return 1;
        }
        print_entry(ag_record_kind_name(record.kind), blob.data, blob.length);
        ag_blob_done(&blob);
    }
    return 0;
}
