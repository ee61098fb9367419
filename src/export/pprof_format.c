/* pprof_format.c: exports a heap profile in the format of pprof, which go tool pprof, Pyroscope,
 * Parca, Grafana and Datadog read.
 *
 * 1. The format is profile.proto of github.com/google/pprof (proto/profile.proto), compressed with
 *    gzip. All texts are in one table, whose entry 0 is the empty text. Samples refer to locations
 *    (a pc, with a line for each function that was inlined there, innermost first); locations refer
 *    to mappings and functions. The first mapping is the main program. Fields may come in any
 *    order, so samples are written as they are made, and the tables after them.
 *
 * 2. The first sample types are those of every heap profile, in the order that readers expect:
 *    alloc_objects, alloc_space, inuse_objects, inuse_space. Types that only allogram writes
 *    follow: peak_objects and peak_space (in use at the peak), temp_objects. Viewers show
 *    inuse_space first, unless --metric selects another type. The period is 1, because values need
 *    not be multiplied.
 *
 * 3. A sample is a stack with an allocation function. The labels of a sample are `via` (the
 *    allocation function) and `heap`; `type`, the type of the blocks, if known; `label`, the label
 *    that the program had set, if any; and `bytes`, the mean size of the blocks, as in the profiles
 *    of Go. The options -tagfocus and -tagroot of pprof use these labels.
 *
 *    If --metric is a metric of function counters, a sample is a call path, the sample types are
 *    calls, own_words, own_bytes and own_ns, and a location has a function, but no address.
 *
 * 4. In a sampled trace the values are unbiased estimates. A comment contains the intervals of the
 *    sums; the labels alloc_objects_ci95, alloc_space_ci95, inuse_objects_ci95 and inuse_space_ci95
 *    ("120 to 480") of a sample contain the intervals of its values.
 *
 * 5. The address of a location is within the call instruction, not after it, because this is the
 *    address that was symbolized. Mappings state whether they have functions, files and lines, so
 *    that pprof does not symbolize them again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "export/format_writer.h"
#include "export/numbering.h"
#include "model/answers/functions.h"
#include "model/answers/types.h"
#include "model/interval.h"
#include "table/byte_list.h"
#include "text/utf8.h"

/* ---- protocol buffers ---- */

/* Writes messages of protocol buffers, field by field.
 *
 * In the wire format (protobuf.dev/programming-guides/encoding), a field begins with a varint that
 * contains the number and the kind of the field. A varint follows, or a length and bytes. A nested
 * message is a field of bytes, so it is made before the message that contains it. Repeated integers
 * may be packed into one field of bytes. Each message is made in a list of bytes; setting the count
 * of the list to 0 begins a new message. The functions below are less code than the use of a
 * library would need. */

enum { KIND_VARINT = 0, KIND_BYTES = 2, KIND_BITS = 3 };

static void message_integer(struct ag_byte_list *message, uint32_t field, uint64_t number) {
    if (number != 0) {
        ag_byte_list_number(message, field << KIND_BITS | KIND_VARINT);
        ag_byte_list_number(message, number);
    }
}

static void message_bytes(struct ag_byte_list *message, uint32_t field, const void *bytes,
                          size_t length) {
    ag_byte_list_number(message, field << KIND_BITS | KIND_BYTES);
    ag_byte_list_number(message, length);
    ag_byte_list_add(message, bytes, length);
}

static void message_message(struct ag_byte_list *message, uint32_t field,
                            const struct ag_byte_list *inner) {
    message_bytes(message, field, inner->bytes, inner->count);
    message->is_short |= inner->is_short;
}

/* ---- gzip ---- */

/* Compresses with zlib's deflate and a gzip header. Equal input gives equal output, because the
 * header contains neither a time nor a name. */

enum { BUFFER_BYTES = 1 << 16, LEVEL = 6, WINDOW_BITS = 15, GZIP_WRAPPER = 16, MEMORY_LEVEL = 8 };

struct gzip {
    FILE *out;
    z_stream stream;
    size_t n_in;
    unsigned char in[BUFFER_BYTES], deflated[BUFFER_BYTES];
};

static struct gzip *gzip_new(FILE *out) {
    struct gzip *gzip = calloc(1, sizeof(*gzip));
    if (gzip && deflateInit2(&gzip->stream, LEVEL, Z_DEFLATED, WINDOW_BITS + GZIP_WRAPPER,
                             MEMORY_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(gzip);
        return NULL;
    }
    if (gzip) {
        gzip->out = out;
    }
    return gzip;
}

static void gzip_flush(struct gzip *gzip, int how) {
    int r;
    gzip->stream.next_in = gzip->in;
    gzip->stream.avail_in = (uInt)gzip->n_in;
    do {
        gzip->stream.next_out = gzip->deflated;
        gzip->stream.avail_out = BUFFER_BYTES;
        r = deflate(&gzip->stream, how);
        fwrite(gzip->deflated, 1, BUFFER_BYTES - gzip->stream.avail_out, gzip->out);
    } while (gzip->stream.avail_out == 0 && r == Z_OK);
    gzip->n_in = 0;
}

static void gzip_put(struct gzip *gzip, const void *bytes, size_t n_bytes) {
    const unsigned char *from = bytes;
    for (size_t i = 0; i < n_bytes; i++) {
        if (gzip->n_in == BUFFER_BYTES) {
            gzip_flush(gzip, Z_NO_FLUSH);
        }
        gzip->in[gzip->n_in++] = from[i];
    }
}

static struct gzip *gzip_finish(struct gzip *gzip) {
    gzip_flush(gzip, Z_FINISH);
    deflateEnd(&gzip->stream);
    free(gzip);
    return NULL;
}

/* ---- profile.proto ---- */

enum { /* field numbers of profile.proto */
       PROFILE_SAMPLE_TYPE = 1,
       PROFILE_SAMPLE = 2,
       PROFILE_MAPPING = 3,
       PROFILE_LOCATION = 4,
       PROFILE_FUNCTION = 5,
       PROFILE_STRING_TABLE = 6,
       PROFILE_TIME_NANOS = 9,
       PROFILE_DURATION_NANOS = 10,
       PROFILE_PERIOD_TYPE = 11,
       PROFILE_PERIOD = 12,
       PROFILE_COMMENT = 13,
       PROFILE_DEFAULT_SAMPLE_TYPE = 14,
       SAMPLE_LOCATION_ID = 1,
       SAMPLE_VALUE = 2,
       SAMPLE_LABEL = 3,
       LABEL_KEY = 1,
       LABEL_STR = 2,
       LABEL_NUM = 3,
       LABEL_NUM_UNIT = 4,
       MAPPING_ID = 1,
       MAPPING_START = 2,
       MAPPING_LIMIT = 3,
       MAPPING_FILENAME = 5,
       MAPPING_BUILD_ID = 6,
       MAPPING_HAS_FUNCTIONS = 7,
       MAPPING_HAS_FILENAMES = 8,
       MAPPING_HAS_LINE_NUMBERS = 9,
       MAPPING_HAS_INLINE_FRAMES = 10,
       LOCATION_ID = 1,
       LOCATION_MAPPING_ID = 2,
       LOCATION_ADDRESS = 3,
       LOCATION_LINE = 4,
       LINE_FUNCTION_ID = 1,
       LINE_LINE = 2,
       FUNCTION_ID = 1,
       FUNCTION_NAME = 2,
       FUNCTION_SYSTEM_NAME = 3,
       FUNCTION_FILENAME = 4,
};

static const struct sample_type {
    const char *name, *unit;
    enum ag_metric metric;
} sample_types[] = {
    {"alloc_objects", "count", AG_METRIC_ALLOCATED_BLOCKS},
    {"alloc_space", "bytes", AG_METRIC_ALLOCATED_BYTES},
    {"inuse_objects", "count", AG_METRIC_IN_USE_BLOCKS},
    {"inuse_space", "bytes", AG_METRIC_IN_USE_BYTES},
    {"peak_objects", "count", AG_METRIC_PEAK_BLOCKS},
    {"peak_space", "bytes", AG_METRIC_PEAK_BYTES},
    {"temp_objects", "count", AG_METRIC_TEMPORARY_BLOCKS},
};
static const struct call_type {
    const char *unit;
    enum ag_call_metric metric;
} call_types[] = {
    {"count", AG_CALL_METRIC_CALLS},
    {"words", AG_CALL_METRIC_OWN_WORDS},
    {"bytes", AG_CALL_METRIC_OWN_BYTES},
    {"nanoseconds", AG_CALL_METRIC_OWN_NS},
};
enum { N_SAMPLE_TYPES = sizeof sample_types / sizeof sample_types[0], BUILD_ID_BYTES = 64 };

struct facts { /* of a mapping: whether any of its locations has a function, a file, a line, an
                * inlined frame */
    bool has_functions, has_files, has_lines, has_inlined;
};
enum { N_RANGES = 4 }; /* the first N_RANGES sample types have their interval as a label */
/* the texts of the intervals of a stack (a row of the profile); the text table refers to a text by
 * its address, so the texts must not move */
struct ranges {
    char text[N_RANGES][44];
};
static const char *const range_labels[N_RANGES] = {"alloc_objects_ci95", "alloc_space_ci95",
                                                   "inuse_objects_ci95", "inuse_space_ci95"};
struct build_id { /* the text table refers to `hex` by its address, so `hex` must not move */
    char hex[2 * BUILD_ID_BYTES + 1];
};
struct pprof {
    struct ag_export *export;
    struct gzip *gzip;
    struct ag_numbering strings, functions, locations;
    /* buffers for a field of the profile, for the message in the field, and for a part of that
     * message */
    struct ag_byte_list field, message, part;
    struct ag_image_row *images;
    struct facts *facts; /* by image */
    struct build_id *build_ids;
    uint32_t *mapping; /* by image: id of its mapping in the output */
    size_t n_images;
    struct ranges *ranges; /* by row; NULL: the trace is exact */
    char note[AG_EXPORT_NOTE_BYTES];
};

/* Returns the number of a text in the table of texts. Equal texts of the profile have equal
 * addresses, so addresses are compared. */
static uint64_t text(struct pprof *all, const char *text) {
    return ag_numbering_of(&all->strings, ag_numbering_pointer(text && *text ? text : ""), 0, NULL);
}

static void put_field(struct pprof *all, uint32_t field, const struct ag_byte_list *message) {
    all->field.count = 0;
    message_message(&all->field, field, message);
    gzip_put(all->gzip, all->field.bytes, all->field.count);
}

static void put_integer(struct pprof *all, uint32_t field, uint64_t number) {
    all->field.count = 0;
    message_integer(&all->field, field, number);
    gzip_put(all->gzip, all->field.bytes, all->field.count);
}

static void put_value_type(struct pprof *all, uint32_t field, const char *type, const char *unit) {
    all->message.count = 0;
    message_integer(&all->message, 1, text(all, type));
    message_integer(&all->message, 2, text(all, unit));
    put_field(all, field, &all->message);
}

/* Writes the sample types. Returns the name of the type that viewers show first. */
static const char *put_sample_types(struct pprof *all) {
    const struct ag_export *export = all->export;
    size_t shown = 3; /* inuse_space */
    for (size_t i = 0; export->functions && i < AG_ARRAY_SIZE(call_types); i++) {
        put_value_type(all, PROFILE_SAMPLE_TYPE, ag_call_metric_name(call_types[i].metric),
                       call_types[i].unit);
    }
    for (size_t i = 0; !export->functions && i < N_SAMPLE_TYPES; i++) {
        put_value_type(all, PROFILE_SAMPLE_TYPE, sample_types[i].name, sample_types[i].unit);
        if (export->has_metric && sample_types[i].metric == export->metric) {
            shown = i;
        }
    }
    return export->functions ? ag_call_metric_name(export->call_metric) : sample_types[shown].name;
}

static void put_head(struct pprof *all) {
    const struct ag_profile_identity *identity = ag_profile_identity(all->export->profile);
    text(all, "");
    const char *shown = put_sample_types(all);
    put_integer(all, PROFILE_TIME_NANOS, identity->start_realtime_ns);
    put_integer(all, PROFILE_DURATION_NANOS, ag_profile_summary(all->export->profile)->duration_ns);
    put_value_type(all, PROFILE_PERIOD_TYPE, "space", "bytes");
    put_integer(all, PROFILE_PERIOD, 1);
    put_integer(all, PROFILE_DEFAULT_SAMPLE_TYPE, text(all, shown));
    if (ag_export_note(all->export, all->note)[0]) {
        put_integer(all, PROFILE_COMMENT, text(all, all->note));
    }
}

/* ---- samples ---- */

/* The kinds of locations in `locations`: KEY_FUNCTION: of call paths; KEY_PLACE: all others. */
enum { KEY_PLACE = 0, KEY_FUNCTION = 1 };

static void put_label(struct pprof *all, const char *key, const char *value) {
    if (value) {
        all->part.count = 0;
        message_integer(&all->part, LABEL_KEY, text(all, key));
        message_integer(&all->part, LABEL_STR, text(all, value));
        message_message(&all->message, SAMPLE_LABEL, &all->part);
    }
}

static void put_ranges(struct pprof *all, uint32_t row) {
    for (size_t i = 0; all->ranges && i < N_RANGES; i++) {
        char *text = all->ranges[row].text[i];
        const struct ag_interval interval =
            ag_interval_of_metric(&all->export->rows[row].metrics, sample_types[i].metric);
        snprintf(text, sizeof(all->ranges[row].text[i]), "%" PRIu64 " to %" PRIu64, interval.low,
                 interval.high);
        put_label(all, range_labels[i], text);
    }
}

static void put_sample(struct pprof *all, uint32_t row) {
    const struct ag_stack_row *stack = &all->export->rows[row];
    const struct ag_stack_frame *frames;
    const size_t n = ag_export_stack(all->export, row, &frames);
    all->part.count = 0;
    for (size_t i = 0; i < n; i++) {
        if (frames[i].is_last) {
            const bool is_place = frames[i].place != AG_NO_PLACE;
            const uint32_t location = ag_numbering_of(
                &all->locations, is_place ? frames[i].place : (uint64_t)frames[i].frame, KEY_PLACE,
                NULL);
            ag_byte_list_number(&all->part, (uint64_t)location + 1);
        }
    }
    all->message.count = 0;
    message_message(&all->message, SAMPLE_LOCATION_ID, &all->part);
    all->part.count = 0;
    for (size_t i = 0; i < N_SAMPLE_TYPES; i++) {
        ag_byte_list_number(&all->part, ag_metric_of(&stack->metrics, sample_types[i].metric));
    }
    message_message(&all->message, SAMPLE_VALUE, &all->part);
    put_label(all, "via", stack->via_name);
    put_label(all, "heap", stack->heap_name);
    put_label(all, "type", ag_profile_stack_type(all->export->profile, stack->stack));
    put_label(all, "label", ag_profile_stack_label(all->export->profile, stack->stack));
    if (stack->metrics.allocated_blocks > 0) {
        all->part.count = 0;
        message_integer(&all->part, LABEL_KEY, text(all, "bytes"));
        message_integer(&all->part, LABEL_NUM,
                        stack->metrics.allocated_bytes / stack->metrics.allocated_blocks);
        message_integer(&all->part, LABEL_NUM_UNIT, text(all, "bytes"));
        message_message(&all->message, SAMPLE_LABEL, &all->part);
    }
    put_ranges(all, row);
    put_field(all, PROFILE_SAMPLE, &all->message);
}

static void put_call_path(struct pprof *all, uint32_t node) {
    const struct ag_functions *functions = all->export->functions;
    all->part.count = 0;
    for (uint32_t at = node; at != 0; at = functions->nodes[at].parent) {
        const uint32_t frame = functions->rows[functions->nodes[at].row].frame;
        const uint32_t location = ag_numbering_of(&all->locations, frame, KEY_FUNCTION, NULL);
        ag_byte_list_number(&all->part, (uint64_t)location + 1);
    }
    all->message.count = 0;
    message_message(&all->message, SAMPLE_LOCATION_ID, &all->part);
    all->part.count = 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(call_types); i++) {
        ag_byte_list_number(
            &all->part, ag_call_metric_of(&functions->nodes[node].counts, call_types[i].metric));
    }
    message_message(&all->message, SAMPLE_VALUE, &all->part);
    put_field(all, PROFILE_SAMPLE, &all->message);
}

static void put_samples(struct pprof *all) {
    const struct ag_functions *functions = all->export->functions;
    for (uint32_t node = 1; functions && node < functions->n_nodes; node++) {
        const struct ag_call_counts *counts = &functions->nodes[node].counts;
        if (counts->calls > 0 || counts->own_words > 0 || counts->own_ns > 0) {
            put_call_path(all, node);
        }
    }
    for (uint32_t row = 0; !functions && row < all->export->n_rows; row++) {
        put_sample(all, row);
    }
}

/* ---- tables ---- */

static void add_line(struct pprof *all, int64_t number, struct facts *facts) {
    const struct ag_frame *frame = ag_export_frame(all->export, number);
    const uint32_t function = ag_numbering_of(&all->functions, ag_numbering_pointer(frame->label),
                                              ag_numbering_pointer(frame->file), NULL);
    all->part.count = 0;
    message_integer(&all->part, LINE_FUNCTION_ID, (uint64_t)function + 1);
    message_integer(&all->part, LINE_LINE, frame->line);
    message_message(&all->message, LOCATION_LINE, &all->part);
    facts->has_functions |= frame->is_known;
    facts->has_files |= frame->file != NULL;
    facts->has_lines |= frame->line > 0;
    facts->has_inlined |= frame->is_inlined;
}

static void put_location(struct pprof *all, size_t number) {
    const int64_t key = (int64_t)all->locations.things[number].a;
    struct facts none = {0};
    all->message.count = 0;
    message_integer(&all->message, LOCATION_ID, number + 1);
    if (key < 0 /* a mark, see format_writer.h */ ||
        all->locations.things[number].b == KEY_FUNCTION) {
        add_line(all, key, &none);
    } else {
        const struct ag_place place = ag_profile_place(all->export->profile, (uint32_t)key);
        const bool has_image = place.image < all->n_images;
        if (has_image) {
            message_integer(&all->message, LOCATION_MAPPING_ID, all->mapping[place.image]);
        }
        message_integer(&all->message, LOCATION_ADDRESS, place.address);
        for (size_t i = 0; i < place.n_frames; i++) {
            add_line(all, place.frames[i], has_image ? &all->facts[place.image] : &none);
        }
    }
    put_field(all, PROFILE_LOCATION, &all->message);
}

static void put_functions(struct pprof *all) {
    for (size_t i = 0; i < all->functions.count; i++) {
        const char *name = (const char *)(uintptr_t)all->functions.things[i].a;
        const char *file = (const char *)(uintptr_t)all->functions.things[i].b;
        all->message.count = 0;
        message_integer(&all->message, FUNCTION_ID, i + 1);
        message_integer(&all->message, FUNCTION_NAME, text(all, name));
        message_integer(&all->message, FUNCTION_SYSTEM_NAME, text(all, name));
        message_integer(&all->message, FUNCTION_FILENAME, text(all, file));
        put_field(all, PROFILE_FUNCTION, &all->message);
    }
}

static void put_mapping(struct pprof *all, size_t image) {
    const struct ag_image_row *row = &all->images[image];
    const struct facts *facts = &all->facts[image];
    char *hex = all->build_ids[image].hex;
    for (size_t i = 0; i < row->build_id_bytes && i < BUILD_ID_BYTES; i++) {
        snprintf(hex + 2 * i, 3, "%02x", row->build_id[i]);
    }
    all->message.count = 0;
    message_integer(&all->message, MAPPING_ID, all->mapping[image]);
    message_integer(&all->message, MAPPING_START, row->low);
    message_integer(&all->message, MAPPING_LIMIT, row->high);
    message_integer(&all->message, MAPPING_FILENAME, text(all, row->path));
    message_integer(&all->message, MAPPING_BUILD_ID, text(all, hex));
    message_integer(&all->message, MAPPING_HAS_FUNCTIONS, facts->has_functions);
    message_integer(&all->message, MAPPING_HAS_FILENAMES, facts->has_files);
    message_integer(&all->message, MAPPING_HAS_LINE_NUMBERS, facts->has_lines);
    message_integer(&all->message, MAPPING_HAS_INLINE_FRAMES, facts->has_inlined);
    put_field(all, PROFILE_MAPPING, &all->message);
}

/* Writes a text to the table of texts: as valid UTF-8, which protocol buffers require, and without
 * control characters, because pprof prints names unchanged. */
static void put_string(struct pprof *all, const char *from) {
    all->part.count = 0;
    for (uint32_t c; (c = ag_utf8_next(&from)) != 0;) {
        char bytes[16];
        const size_t length = ag_utf8_is_control(c)
                                  ? (size_t)snprintf(bytes, sizeof bytes, "\\x%02x", (unsigned)c)
                                  : ag_utf8_put(bytes, c);
        ag_byte_list_add(&all->part, bytes, length);
    }
    put_field(all, PROFILE_STRING_TABLE, &all->part);
}

static void put_mappings(struct pprof *all) {
    for (size_t i = 0; i < all->n_images; i++) {
        if (all->mapping[i] == 1) {
            put_mapping(all, i);
        }
    }
    for (size_t i = 0; i < all->n_images; i++) {
        if (all->mapping[i] != 1) {
            put_mapping(all, i);
        }
    }
}

static void put_tables(struct pprof *all) {
    for (size_t i = 0; i < all->locations.count; i++) {
        put_location(all, i);
    }
    put_mappings(all);
    put_functions(all);
    for (size_t i = 0; i < all->strings.count; i++) {
        put_string(all, (const char *)(uintptr_t)all->strings.things[i].a);
    }
}

/* Sets the ids of mappings: 1 for the main program, and 2, 3 ... for the other images in the order
 * in which they were loaded. */
static void number_mappings(struct pprof *all) {
    const char *exe = ag_profile_identity(all->export->profile)->exe;
    size_t first = 0;
    while (first < all->n_images && exe && strcmp(all->images[first].path, exe) != 0) {
        first++;
    }
    first = first < all->n_images ? first : 0;
    for (size_t i = 0; i < all->n_images; i++) {
        all->mapping[i] = (uint32_t)(i == first ? 1 : i < first ? i + 2 : i + 1);
    }
}

static int pprof_start(struct pprof *all) {
    const int r = ag_profile_images(all->export->profile, &all->images, &all->n_images);
    if (r < 0) {
        return r;
    }
    all->facts = calloc(all->n_images + 1, sizeof(*all->facts));
    all->build_ids = calloc(all->n_images + 1, sizeof(*all->build_ids));
    all->mapping = calloc(all->n_images + 1, sizeof(*all->mapping));
    if (ag_export_is_estimate(all->export)) {
        all->ranges = calloc(all->export->n_rows + 1, sizeof(*all->ranges));
        if (!all->ranges) {
            return -ENOMEM;
        }
    }
    if (!all->facts || !all->build_ids || !all->mapping) {
        return -ENOMEM;
    }
    number_mappings(all);
    all->gzip = gzip_new(all->export->out);
    return all->gzip ? 0 : -ENOMEM;
}

int ag_pprof_format(struct ag_export *export) {
    struct pprof all = {.export = export};
    int r = pprof_start(&all);
    if (r == 0) {
        put_head(&all);
        put_samples(&all);
        put_tables(&all);
        all.gzip = gzip_finish(all.gzip);
        const bool has_failed = all.strings.has_failed || all.functions.has_failed ||
                                all.locations.has_failed || all.field.is_short;
        r = has_failed ? -ENOMEM : 0;
    }
    ag_byte_list_done(&all.field);
    ag_byte_list_done(&all.message);
    ag_byte_list_done(&all.part);
    ag_numbering_done(&all.strings);
    ag_numbering_done(&all.functions);
    ag_numbering_done(&all.locations);
    free(all.images);
    free(all.facts);
    free(all.build_ids);
    free(all.ranges);
    free(all.mapping);
    return r;
}
