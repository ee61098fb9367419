/* firefox_format.c: exports a profile with native allocations for profiler.firefox.com, which shows
 * call trees and flame graphs of allocated, retained and deallocated bytes for any range of time.
 *
 * 1. The format is the "processed profile" of github.com/firefox-devtools/profiler
 *    (src/types/profile.ts). This file writes version 66, which later versions of the viewer
 *    convert. A table is an object with an array for each column. A row of the table of stacks has
 *    a frame and the distance to the row of the caller (0: no caller). A row of the table of a
 *    thread's allocations has a time, bytes (negative: a free), a stack and an address. A free
 *    belongs to the last earlier allocation with the same address. If the user selects a range of
 *    time, the viewer counts a block as retained if it is not freed in this range. A counter
 *    contains the bytes in use over time.
 *
 * 2. Blocks are added up before they are written, because the viewer, which runs in a browser,
 *    cannot open a hundred million rows. The recording is divided into slices of time. A span
 *    contains all blocks of one stack that were allocated in one slice and freed in one slice, the
 *    same or a later one. The blocks of one stack that were allocated in one slice and never freed
 *    are also a span. A span has an address of its own, one row for its allocation, and one row for
 *    its free. Sums are exact for the whole recording, and at the borders of slices. There are at
 *    most SLICES slices; adjacent slices are merged until there are at most ROWS_MOST spans.
 *
 * 3. In a sampled trace all bytes are estimates. "extra" in the metadata contains the interval of
 *    the sums; the viewer shows "extra" with the other facts about the profile. A replay rounds the
 *    bytes of each sample; a report rounds the bytes of each stack. So the bytes of a stack's spans
 *    are scaled to the sums of the report: the spans of freed blocks add up to the stack's freed
 *    bytes, and the other spans to its bytes in use.
 *
 * 4. The file has only one thread, "heap", because a block may be freed by a thread that did not
 *    allocate it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "export/call_tree.h"
#include "model/pass/replay.h"
#include "table/array.h"
#include "text/json_writer.h"

enum { SLICES = 512, ROWS_MOST = 1 << 20, VERSION = 66, GECKO_VERSION = 24 };
/* number in place of the slice of the free, in a span of blocks that are never freed */
enum { NEVER = SLICES };

struct allocation { /* a row of the table of allocations */
    uint64_t time_ns;
    int64_t bytes;
    uint32_t span;
};
struct firefox {
    struct ag_export *export;
    struct ag_call_tree tree;
    struct ag_json json;
    struct ag_numbering strings, libs, keys; /* keys: the spans, as (number of the stack in the
                                              * profile, slice of the allocation << 16 | slice of
                                              * the free) */
    uint64_t *span_bytes;                    /* by number of a span in `keys` */
    size_t n_spans;
    uint64_t slice_ns, duration_ns;
    struct allocation *allocations;
    size_t n_allocations;
};

/* ---- spans ---- */

static int add_span(struct firefox *all, uint64_t row, uint64_t slices, uint64_t bytes) {
    const uint32_t key = ag_numbering_of(&all->keys, row, slices, NULL);
    if (all->keys.has_failed) {
        return -ENOMEM;
    }
    const int r = AG_ARRAY_EXTEND(all->span_bytes, all->n_spans, key + (size_t)1);
    if (r == 0) {
        all->span_bytes[key] += bytes;
    }
    return r;
}

static uint64_t slices_of(uint64_t born, uint64_t died) {
    return born << 16 | died;
}

static uint64_t slice_of(const struct firefox *all, uint64_t time_ns) {
    const uint64_t slice = time_ns / all->slice_ns;
    return slice < SLICES ? slice : SLICES - 1;
}

/* Doubles the length of slices: each new slice consists of two old slices. */
static int halve(struct firefox *all) {
    struct ag_numbering keys = all->keys;
    uint64_t *bytes = all->span_bytes;
    int r = 0;
    all->keys = (struct ag_numbering){0};
    all->span_bytes = NULL;
    all->n_spans = 0;
    all->slice_ns *= 2;
    for (size_t i = 0; i < keys.count && r == 0; i++) {
        const uint64_t born = keys.things[i].b >> 16, died = keys.things[i].b & 0xffff;
        r = add_span(all, keys.things[i].a, slices_of(born / 2, died == NEVER ? NEVER : died / 2),
                     bytes[i]);
    }
    ag_numbering_done(&keys);
    free(bytes);
    return r;
}

/* An allocation is added to a span that is never freed. A free moves the bytes of the block from
 * that span to the span with the slice of the free. */
static int count_step(void *context, const struct ag_replay_step *step) {
    struct firefox *all = context;
    if (all->keys.count >= ROWS_MOST && all->slice_ns <= all->duration_ns) {
        const int r = halve(all);
        if (r < 0) {
            return r;
        }
    }
    const uint64_t born = slice_of(all, step->born_ns);
    if (!step->is_death) {
        return add_span(all, step->row, slices_of(born, NEVER), step->bytes);
    }
    const int r = add_span(all, step->row, slices_of(born, NEVER), -step->bytes);
    return r < 0 ? r
                 : add_span(all, step->row, slices_of(born, slice_of(all, step->time_ns)),
                            step->bytes);
}

static int by_time(const void *left, const void *right) {
    const struct allocation *a = left, *b = right;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    if ((a->bytes > 0) != (b->bytes > 0)) {
        return a->bytes > 0 ? -1 : 1; /* allocations before frees */
    }
    return a->span < b->span ? -1 : a->span > b->span;
}

/* The sums of the spans of one stack, of freed blocks or of blocks in use. */
struct span_sum {
    uint64_t seen;  /* the sum of the replay */
    uint64_t given; /* the part of `seen` that belongs to spans that are already scaled */
};

/* Returns round(PART * WHOLE / SEEN); PART <= SEEN. */
static uint64_t scaled(uint64_t part, uint64_t whole, uint64_t seen) {
    return seen > 0 ? (uint64_t)(((unsigned __int128)part * whole + seen / 2) / seen) : 0;
}

/* Scales the bytes of the spans of a sampled trace (section 3 above). For each k, the first k spans
 * of a stack together get their rounded share of the stack's sum. So rounding errors do not add up,
 * and all spans together get exactly the sum. */
static int scale_spans(struct firefox *all) {
    const size_t n_rows = all->export->n_rows;
    struct span_sum *sums = calloc(2 * n_rows + 1, sizeof(*sums));
    if (!sums) {
        return -ENOMEM;
    }
    for (size_t i = 0; i < all->keys.count; i++) {
        const bool is_in_use = (all->keys.things[i].b & 0xffff) == NEVER;
        sums[2 * all->keys.things[i].a + is_in_use].seen += all->span_bytes[i];
    }
    for (size_t i = 0; i < all->keys.count; i++) {
        const bool is_in_use = (all->keys.things[i].b & 0xffff) == NEVER;
        struct span_sum *sum = &sums[2 * all->keys.things[i].a + is_in_use];
        const struct ag_metrics *metrics = &all->export->rows[all->keys.things[i].a].metrics;
        const uint64_t whole = is_in_use ? metrics->in_use_bytes : metrics->freed_bytes;
        const uint64_t before = scaled(sum->given, whole, sum->seen);
        sum->given += all->span_bytes[i];
        all->span_bytes[i] = scaled(sum->given, whole, sum->seen) - before;
    }
    free(sums);
    return 0;
}

/* Lists the rows of all spans. The time of an allocation is the start of its slice. The time of a
 * free is the middle of its slice, so that a free comes after all allocations of the same slice. */
static int list_allocations(struct firefox *all) {
    all->allocations = malloc((2 * all->keys.count + 1) * sizeof(*all->allocations));
    if (!all->allocations) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < all->keys.count; i++) {
        const uint64_t born = all->keys.things[i].b >> 16, died = all->keys.things[i].b & 0xffff;
        const int64_t bytes = (int64_t)all->span_bytes[i];
        if (bytes == 0) {
            continue;
        }
        all->allocations[all->n_allocations++] =
            (struct allocation){.time_ns = born * all->slice_ns, .bytes = bytes, .span = i};
        if (died != NEVER) {
            all->allocations[all->n_allocations++] = (struct allocation){
                .time_ns = died * all->slice_ns + all->slice_ns / 2, .bytes = -bytes, .span = i};
        }
    }
    qsort(all->allocations, all->n_allocations, sizeof(*all->allocations), by_time);
    return 0;
}

/* ---- columns ---- */

static void repeat(struct firefox *all, const char *key, size_t n, int64_t number) {
    ag_json_open(&all->json, key, '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_signed(&all->json, NULL, number);
    }
    ag_json_close(&all->json, ']');
}

static void repeat_null(struct firefox *all, const char *key, size_t n) {
    ag_json_open(&all->json, key, '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_null(&all->json, NULL);
    }
    ag_json_close(&all->json, ']');
}

static void repeat_false(struct firefox *all, const char *key, size_t n) {
    ag_json_open(&all->json, key, '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_bool(&all->json, NULL, false);
    }
    ag_json_close(&all->json, ']');
}

static uint32_t string(struct firefox *all, const char *text) {
    return ag_numbering_of(&all->strings, ag_numbering_pointer(text && *text ? text : "?"), 0,
                           NULL);
}

/* ---- shared tables ---- */

struct frames { /* the frames of the profile that occur in stacks, with their functions and source
                 * files */
    struct ag_numbering frames, functions, sources;
};

static const struct ag_frame *frame_at(const struct firefox *all, const struct frames *frames,
                                       size_t number) {
    return ag_export_frame(all->export, (int64_t)frames->frames.things[number].a);
}

static void write_stacks(struct firefox *all, struct frames *frames) {
    struct ag_json *json = &all->json;
    ag_json_open(json, "stackTable", '{');
    ag_json_open(json, "frame", '[');
    for (size_t i = 0; i < all->tree.count; i++) {
        ag_json_integer(
            json, NULL,
            ag_numbering_of(&frames->frames, (uint64_t)all->tree.nodes[i].frame.frame, 0, NULL));
    }
    ag_json_close(json, ']');
    ag_json_open(json, "prefixOffset", '[');
    for (size_t i = 0; i < all->tree.count; i++) {
        const uint32_t parent = all->tree.nodes[i].parent;
        ag_json_integer(json, NULL, parent == AG_CALL_ROOT ? 0 : i - parent);
    }
    ag_json_close(json, ']');
    ag_json_integer(json, "length", all->tree.count);
    ag_json_close(json, '}');
}

static void write_frames(struct firefox *all, struct frames *frames) {
    struct ag_json *json = &all->json;
    const size_t n = frames->frames.count;
    ag_json_open(json, "frameTable", '{');
    repeat(all, "address", n, -1);
    repeat(all, "inlineDepth", n, 0);
    repeat(all, "category", n, 0);
    repeat(all, "subcategory", n, 0);
    ag_json_open(json, "func", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_integer(json, NULL,
                        ag_numbering_function(&frames->functions, frame_at(all, frames, i)));
    }
    ag_json_close(json, ']');
    repeat_null(all, "nativeSymbol", n);
    repeat(all, "innerWindowID", n, 0);
    ag_json_open(json, "line", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_nonzero(json, NULL, frame_at(all, frames, i)->line);
    }
    ag_json_close(json, ']');
    repeat_null(all, "column", n);
    repeat_null(all, "originalLocation", n);
    ag_json_integer(json, "length", n);
    ag_json_close(json, '}');
}

/* Returns an array with the source file of each function: the file of the function's first frame.
 * NULL: out of memory. */
static const char **files_of(const struct firefox *all, struct frames *frames) {
    const char **files = calloc(frames->functions.count + 1, sizeof(*files));
    for (size_t i = frames->frames.count; files && i-- > 0;) {
        const struct ag_frame *frame = frame_at(all, frames, i);
        files[ag_numbering_function(&frames->functions, frame)] = frame->file;
    }
    return files;
}

static int write_functions(struct firefox *all, struct frames *frames) {
    struct ag_json *json = &all->json;
    const size_t n = frames->functions.count;
    const char **files = files_of(all, frames);
    if (!files) {
        return -ENOMEM;
    }
    ag_json_open(json, "funcTable", '{');
    ag_json_open(json, "name", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_integer(json, NULL,
                        string(all, (const char *)(uintptr_t)frames->functions.things[i].a));
    }
    ag_json_close(json, ']');
    repeat_false(all, "isJS", n);
    repeat_false(all, "relevantForJS", n);
    ag_json_open(json, "resource", '[');
    for (size_t i = 0; i < n; i++) {
        const char *image = (const char *)(uintptr_t)frames->functions.things[i].b;
        ag_json_signed(json, NULL,
                       image && *image ? (int64_t)ag_numbering_of(
                                             &all->libs, ag_numbering_pointer(image), 0, NULL)
                                       : -1);
    }
    ag_json_close(json, ']');
    ag_json_open(json, "source", '[');
    for (size_t i = 0; i < n; i++) {
        if (files[i]) {
            ag_json_integer(
                json, NULL,
                ag_numbering_of(&frames->sources, ag_numbering_pointer(files[i]), 0, NULL));
        } else {
            ag_json_null(json, NULL);
        }
    }
    ag_json_close(json, ']');
    repeat_null(all, "lineNumber", n);
    repeat_null(all, "columnNumber", n);
    repeat_null(all, "originalLocation", n);
    ag_json_integer(json, "length", n);
    ag_json_close(json, '}');
    free(files);
    return 0;
}

static void write_strings_of(struct firefox *all, const char *key,
                             const struct ag_numbering *texts) {
    ag_json_open(&all->json, key, '[');
    for (size_t i = 0; i < texts->count; i++) {
        ag_json_integer(&all->json, NULL, string(all, (const char *)(uintptr_t)texts->things[i].a));
    }
    ag_json_close(&all->json, ']');
}

static void write_resources(struct firefox *all, const struct frames *frames) {
    struct ag_json *json = &all->json;
    const size_t n = all->libs.count;
    ag_json_open(json, "resourceTable", '{');
    repeat_null(all, "lib", n);
    write_strings_of(all, "name", &all->libs);
    repeat_null(all, "host", n);
    repeat(all, "type", n, 1); /* 1: a library */
    ag_json_integer(json, "length", n);
    ag_json_close(json, '}');
    const size_t n_sources = frames->sources.count;
    ag_json_open(json, "sources", '{');
    repeat_null(all, "id", n_sources);
    write_strings_of(all, "filename", &frames->sources);
    repeat(all, "startLine", n_sources, 1);
    repeat(all, "startColumn", n_sources, 1);
    repeat_null(all, "sourceMapURL", n_sources);
    repeat_null(all, "content", n_sources);
    ag_json_integer(json, "length", n_sources);
    ag_json_close(json, '}');
}

static void write_empty_tables(struct firefox *all) {
    static const struct {
        const char *name, *columns[5];
    } tables[] = {
        {"nativeSymbols", {"libIndex", "address", "name", "functionSize"}},
        {"sourceLocationTable", {"source", "line", "column"}},
    };
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++) {
        ag_json_open(&all->json, tables[i].name, '{');
        for (size_t k = 0; tables[i].columns[k]; k++) {
            repeat_null(all, tables[i].columns[k], 0);
        }
        ag_json_integer(&all->json, "length", 0);
        ag_json_close(&all->json, '}');
    }
}

static int write_shared(struct firefox *all) {
    struct ag_json *json = &all->json;
    struct frames frames = {0};
    ag_json_open(json, "shared", '{');
    write_stacks(all, &frames);
    write_frames(all, &frames);
    int r = write_functions(all, &frames);
    write_resources(all, &frames);
    write_empty_tables(all);
    ag_json_open(json, "stringArray", '[');
    for (size_t i = 0; i < all->strings.count; i++) {
        ag_json_string(json, NULL, (const char *)(uintptr_t)all->strings.things[i].a);
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    if (frames.frames.has_failed || frames.functions.has_failed || frames.sources.has_failed) {
        r = -ENOMEM;
    }
    ag_numbering_done(&frames.frames);
    ag_numbering_done(&frames.functions);
    ag_numbering_done(&frames.sources);
    return r;
}

/* ---- the thread, its allocations, the counter ---- */

static void write_allocations(struct firefox *all) {
    struct ag_json *json = &all->json;
    const size_t n = all->n_allocations;
    ag_json_open(json, "nativeAllocations", '{');
    ag_json_open(json, "time", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_milliseconds(json, NULL, all->allocations[i].time_ns);
    }
    ag_json_close(json, ']');
    ag_json_open(json, "weight", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_signed(json, NULL, all->allocations[i].bytes);
    }
    ag_json_close(json, ']');
    ag_json_string(json, "weightType", "bytes");
    ag_json_open(json, "stack", '[');
    for (size_t i = 0; i < n; i++) {
        const uint64_t row = all->keys.things[all->allocations[i].span].a;
        ag_json_integer(json, NULL, all->tree.node_of_row[row]);
    }
    ag_json_close(json, ']');
    ag_json_open(json, "memoryAddress", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_integer(json, NULL, all->allocations[i].span + UINT64_C(1));
    }
    ag_json_close(json, ']');
    repeat(all, "threadId", n, 0);
    ag_json_integer(json, "length", n);
    ag_json_close(json, '}');
}

static void write_thread(struct firefox *all, const char *name) {
    static const char *const columns[] = {"data",    "name",  "startTime",
                                          "endTime", "phase", "category"};
    struct ag_json *json = &all->json;
    char pid[24];
    snprintf(pid, sizeof pid, "%u", ag_profile_identity(all->export->profile)->pid);
    ag_json_open(json, "threads", '[');
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "processType", "default");
    ag_json_integer(json, "processStartupTime", 0);
    ag_json_null(json, "processShutdownTime");
    ag_json_integer(json, "registerTime", 0);
    ag_json_null(json, "unregisterTime");
    repeat_null(all, "pausedRanges", 0);
    ag_json_string(json, "name", "heap");
    ag_json_bool(json, "isMainThread", true);
    ag_json_string(json, "processName", name);
    ag_json_string(json, "pid", pid);
    ag_json_string(json, "tid", pid);
    ag_json_bool(json, "showMarkersInTimeline", false);
    ag_json_open(json, "samples", '{');
    repeat_null(all, "stack", 0);
    repeat_null(all, "timeDeltas", 0);
    ag_json_null(json, "weight");
    ag_json_string(json, "weightType", "samples");
    ag_json_integer(json, "length", 0);
    ag_json_close(json, '}');
    ag_json_open(json, "markers", '{');
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        repeat_null(all, columns[i], 0);
    }
    ag_json_integer(json, "length", 0);
    ag_json_close(json, '}');
    write_allocations(all);
    ag_json_close(json, '}');
    ag_json_close(json, ']');
}

/* Writes how the viewer draws the counter: as a line of accumulated values. */
static void write_display(struct ag_json *json) {
    static const char *const sources[][2] = {{"accumulated", "bytes in use at this time"},
                                             {"count-range", "bytes between lowest and highest"}};
    ag_json_open(json, "display", '{');
    ag_json_string(json, "graphType", "line-accumulated");
    ag_json_string(json, "unit", "bytes");
    ag_json_string(json, "color", "orange");
    ag_json_string(json, "markerSchemaLocation", "timeline-memory");
    ag_json_integer(json, "sortWeight", 20);
    ag_json_string(json, "label", "Memory");
    ag_json_open(json, "tooltipRows", '[');
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "type", "value");
        ag_json_string(json, "source", sources[i][0]);
        ag_json_open(json, "format", '{');
        ag_json_string(json, "unit", "bytes");
        ag_json_close(json, '}');
        ag_json_string(json, "label", sources[i][1]);
        ag_json_close(json, '}');
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

/* Writes the bytes in use over time as a counter: for each point of the timeline, the difference
 * from the point before. */
static void write_counter(struct firefox *all) {
    struct ag_json *json = &all->json;
    const struct ag_timeline_point *points;
    const size_t n = ag_profile_timeline(all->export->profile, &points);
    char pid[24];
    snprintf(pid, sizeof pid, "%u", ag_profile_identity(all->export->profile)->pid);
    ag_json_open(json, "counters", '[');
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "name", "malloc");
    ag_json_string(json, "category", "Memory");
    ag_json_string(json, "description", "bytes in use");
    write_display(json);
    ag_json_string(json, "pid", pid);
    ag_json_integer(json, "mainThreadIndex", 0);
    ag_json_open(json, "samples", '{');
    ag_json_open(json, "time", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_milliseconds(json, NULL, points[i].time_ns);
    }
    ag_json_close(json, ']');
    ag_json_open(json, "count", '[');
    for (size_t i = 0; i < n; i++) {
        ag_json_signed(
            json, NULL,
            (int64_t)(points[i].in_use_bytes - (i > 0 ? points[i - 1].in_use_bytes : 0)));
    }
    ag_json_close(json, ']');
    ag_json_integer(json, "length", n);
    ag_json_close(json, '}');
    ag_json_close(json, '}');
    ag_json_close(json, ']');
}

static void write_note(struct firefox *all) {
    struct ag_json *json = &all->json;
    char note[AG_EXPORT_NOTE_BYTES];
    if (!ag_export_note(all->export, note)[0]) {
        return;
    }
    ag_json_open(json, "extra", '[');
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "label", "allogram");
    ag_json_open(json, "entries", '[');
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "label", "Bytes");
    ag_json_string(json, "format", "string");
    ag_json_string(json, "value", note);
    ag_json_close(json, '}');
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    ag_json_close(json, ']');
}

static void write_meta(struct firefox *all, const char *name) {
    struct ag_json *json = &all->json;
    const struct ag_profile_identity *identity = ag_profile_identity(all->export->profile);
    ag_json_open(json, "meta", '{');
    ag_json_integer(json, "version", GECKO_VERSION);
    ag_json_integer(json, "preprocessedProfileVersion", VERSION);
    ag_json_string(json, "importedFrom", "allogram");
    ag_json_string(json, "product", name);
    write_note(all);
    ag_json_milliseconds(json, "startTime", identity->start_realtime_ns);
    ag_json_integer(json, "interval", 1);
    ag_json_integer(json, "processType", 0);
    ag_json_bool(json, "debug", false);
    ag_json_bool(json, "symbolicated", true);
    ag_json_bool(json, "usesOnlyOneStackType", true);
    ag_json_bool(json, "sourceCodeIsNotOnSearchfox", true);
    repeat_null(all, "pausedRanges", 0);
    repeat_null(all, "markerSchema", 0);
    ag_json_open(json, "categories", '[');
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "name", "Other");
    ag_json_string(json, "color", "grey");
    ag_json_open(json, "subcategories", '[');
    ag_json_string(json, NULL, "Other");
    ag_json_close(json, ']');
    ag_json_close(json, '}');
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

static int write_file(struct firefox *all) {
    const struct ag_profile_identity *identity = ag_profile_identity(all->export->profile);
    const char *name = identity->exe ? ag_base_name(identity->exe) : "";
    struct ag_json *json = &all->json;
    ag_json_open(json, NULL, '{');
    write_meta(all, name);
    repeat_null(all, "libs", 0);
    repeat_null(all, "pages", 0);
    const int r = write_shared(all);
    write_thread(all, name);
    write_counter(all);
    ag_json_close(json, '}');
    return r;
}

int ag_firefox_format(struct ag_export *export) {
    struct firefox all = {
        .export = export,
        .json = {.out = export->out, .line_depth = 2},
        .duration_ns = ag_profile_summary(export->profile)->duration_ns,
        .slice_ns = ag_profile_summary(export->profile)->duration_ns / SLICES + 1,
    };
    int r = ag_call_tree_start(&all.tree, export, AG_CALL_FRAME);
    if (r < 0) {
        return r;
    }
    r = ag_profile_replay(export->profile, count_step, &all);
    if (r == 0 && ag_export_is_estimate(export)) {
        r = scale_spans(&all);
    }
    r = r < 0 ? r : list_allocations(&all);
    r = r < 0 ? r : write_file(&all);
    r = all.strings.has_failed || all.libs.has_failed ? -ENOMEM : r;
    ag_call_tree_end(&all.tree);
    ag_numbering_done(&all.strings);
    ag_numbering_done(&all.libs);
    ag_numbering_done(&all.keys);
    free(all.span_bytes);
    free(all.allocations);
    return r;
}
