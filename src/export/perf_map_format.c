/* perf_map_format.c: exports the names of functions that were compiled at run time, in the file
 * that perf reads as /tmp/perf-PID.map. Each function has a line `START SIZE NAME`, with addresses
 * and sizes in hexadecimal.
 *
 * The format is specified in tools/perf/Documentation/jit-interface.txt of the Linux kernel. A
 * trace contains the addresses that were in stacks, but not where functions begin and end. So a
 * line covers the range of known addresses of one function, between which no known address belongs
 * to another function. The names that perf finds are therefore correct, but an address outside of
 * all ranges has no name. An inlined function has no line in the file, because its code belongs to
 * the function into which it is inlined. `allogram observe --perf-map` writes the exact bounds of
 * all functions of a running program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/format_writer.h"
#include "table/array.h"
#include "text/number.h"

struct code_place {
    uint64_t address;
    const struct ag_frame *frame; /* the function of the code */
};

struct code {
    struct code_place *places;
    size_t count;
    bool *is_seen; /* by place, a code address with its frames (model/answers/places.h) */
    uint32_t *stack;
};

static int add_place(struct code *code, const struct ag_export *export, uint32_t number) {
    const struct ag_place place = ag_profile_place(export->profile, number);
    if (place.image != AG_NO_IMAGE || place.address == 0 || place.n_frames == 0) {
        return 0;
    }
    const struct ag_frame *frame =
        ag_profile_frame(export->profile, place.frames[place.n_frames - 1]);
    if (!frame->is_known) {
        return 0;
    }
    return AG_ARRAY_ADD(code->places, code->count,
                        (struct code_place){.address = place.address, .frame = frame});
}

static int find_places(struct code *code, const struct ag_export *export) {
    code->is_seen = calloc((size_t)ag_profile_place_limit(export->profile) + 1, sizeof(bool));
    code->stack = malloc(AG_PLACES_MOST * sizeof(*code->stack));
    int r = code->is_seen != NULL && code->stack != NULL ? 0 : -ENOMEM;
    for (size_t row = 0; row < export->n_rows && r == 0; row++) {
        const size_t n = ag_profile_stack_places(export->profile, (uint32_t)row, code->stack);
        for (size_t i = 0; i < n && r == 0; i++) {
            bool *is_seen = &code->is_seen[code->stack[i]];
            r = *is_seen ? 0 : add_place(code, export, code->stack[i]);
            *is_seen = true;
        }
    }
    return r;
}

static int by_address(const void *left, const void *right) {
    const uint64_t a = ((const struct code_place *)left)->address;
    const uint64_t b = ((const struct code_place *)right)->address;
    return (a > b) - (a < b);
}

static bool is_same_function(const struct code_place *a, const struct code_place *b) {
    return strcmp(a->frame->function, b->frame->function) == 0 &&
           strcmp(a->frame->runtime, b->frame->runtime) == 0;
}

int ag_perf_map_format(struct ag_export *export) {
    struct code code = {0};
    int r = find_places(&code, export);
    if (r == 0 && code.count == 0) {
        r = -ENODATA;
    }
    if (r == 0) {
        qsort(code.places, code.count, sizeof(*code.places), by_address);
    }
    for (size_t i = 0; i < code.count && r == 0;) {
        const struct code_place *first = &code.places[i];
        while (++i < code.count && is_same_function(first, &code.places[i])) {
        }
        ag_put_hex(export->out, first->address);
        putc_unlocked(' ', export->out);
        ag_put_hex(export->out, code.places[i - 1].address + 1 - first->address);
        putc_unlocked(' ', export->out);
        ag_put_function(export->out, first->frame, 0, 0);
        putc_unlocked('\n', export->out);
    }
    free(code.places);
    free(code.is_seen);
    free(code.stack);
    return r;
}
