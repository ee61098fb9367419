/* dhat_format.c: exports the format of valgrind's DHAT, version 2, which its viewer (dh_view.html),
 * Firefox Profiler and the tools of dhat-rs read.
 *
 * The format is described in valgrind's dhat/dh_main.c, above `dhat_fini`; dh_view.js checks files
 * of this format. The file is one JSON object. "pps" is the list of program points, which are the
 * stacks. The frames of a point, "fs", are indices into the table "ftbl", innermost first; entry 0
 * of "ftbl" is the root. The viewer rejects a file in which two points have equal frames. So the
 * first frame of a point is the allocation function, as in valgrind's files, and the last frame of
 * an incomplete stack is a mark such as "[incomplete]".
 *
 *     tb, tbk    bytes and blocks that the point allocated   gb, gbk    in use at the process' peak
 *     mb, mbk    the most that the point had in use at once  eb, ebk    in use at the end
 *     tl         sum of the lifetimes of the point's blocks in "tu"; a block that was never freed
 *                lives until the end
 *
 * "tu" is the unit of time, the microsecond; "tuth" is the lifetime below which a block counts as
 * short-lived. "bkacc" is false, because reads and writes are not recorded. In a sampled trace all
 * numbers are estimates, and "cmd" ends with the intervals of the sums. The numbers mb, mbk and tl
 * need a pass over the events. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "export/format_writer.h"
#include "export/numbering.h"
#include "model/pass/replay.h"
#include "text/json_writer.h"

enum { SHORT_LIVED_US = 10, NS_PER_US = 1000 };

struct dhat {
    struct ag_export *export;
    struct ag_json json;
    /* entries of "ftbl": frames as (frame, place), and allocation functions as (name, VIA) */
    struct ag_numbering frames;
};
#define VIA (UINT64_MAX - 1)

static void write_head(struct dhat *all) {
    const struct ag_profile_identity *identity = ag_profile_identity(all->export->profile);
    const struct ag_summary *summary = ag_profile_summary(all->export->profile);
    struct ag_json *json = &all->json;
    ag_json_integer(json, "dhatFileVersion", 2);
    ag_json_string(json, "mode", "heap");
    ag_json_string(json, "verb", "Allocated");
    ag_json_bool(json, "bklt", true);
    ag_json_bool(json, "bkacc", false);
    ag_json_string(json, "tu", "µs");
    ag_json_string(json, "Mtu", "s");
    ag_json_integer(json, "tuth", SHORT_LIVED_US);
    char *command = NULL;
    size_t length = 0;
    FILE *words = open_memstream(&command, &length);
    for (uint32_t i = 0; words && i < identity->n_arguments; i++) {
        fprintf(words, "%s%s", i > 0 ? " " : "", identity->arguments[i]);
    }
    char note[AG_EXPORT_NOTE_BYTES];
    if (words && ag_export_note(all->export, note)[0]) {
        fprintf(words, " [%s]", note); /* the viewer shows no other free text */
    }
    if (words) {
        fclose(words);
    }
    ag_json_string(json, "cmd", command ? command : "");
    free(command);
    ag_json_integer(json, "pid", identity->pid);
    ag_json_integer(json, "te", summary->duration_ns / NS_PER_US);
    ag_json_integer(json, "tg", summary->peak_time_ns / NS_PER_US);
}

static void write_point(struct dhat *all, uint32_t row, const struct ag_stack_life *life) {
    const struct ag_stack_row *stack = &all->export->rows[row];
    const struct ag_metrics *metrics = &stack->metrics;
    struct ag_json *json = &all->json;
    const struct ag_stack_frame *frames;
    const size_t n = ag_export_stack(all->export, row, &frames);
    const struct {
        const char *key;
        uint64_t value;
    } fields[] = {
        {"tb", metrics->allocated_bytes}, {"tbk", metrics->allocated_blocks},
        {"tl", life->lifetime_us},        {"mb", life->max_bytes},
        {"mbk", life->max_blocks},        {"gb", metrics->peak_bytes},
        {"gbk", metrics->peak_blocks},    {"eb", metrics->in_use_bytes},
        {"ebk", metrics->in_use_blocks},
    };
    ag_json_open(json, NULL, '{');
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        ag_json_integer(json, fields[i].key, fields[i].value);
    }
    ag_json_open(json, "fs", '[');
    const char *via = stack->via_name ? stack->via_name : "[allocation]";
    ag_json_integer(json, NULL,
                    ag_numbering_of(&all->frames, ag_numbering_pointer(via), VIA, NULL) + 1u);
    for (size_t i = 0; i < n; i++) {
        ag_json_integer(
            json, NULL,
            ag_numbering_of(&all->frames, (uint64_t)frames[i].frame, frames[i].place, NULL) + 1u);
    }
    ag_json_close(json, ']');
    ag_json_close(json, '}');
}

/* Writes a frame as valgrind does: "0x4011D6: main (main.c:12)". */
static void write_frame(struct dhat *all, const struct ag_numbered *number) {
    char text[4096];
    if (number->b == VIA) {
        ag_json_string(&all->json, NULL, (const char *)(uintptr_t)number->a);
        return;
    }
    const struct ag_frame *frame = ag_export_frame(all->export, (int64_t)number->a);
    if (number->b == AG_NO_PLACE) {
        ag_json_string(&all->json, NULL, frame->label);
        return;
    }
    const struct ag_place place = ag_profile_place(all->export->profile, (uint32_t)number->b);
    int length =
        snprintf(text, sizeof text, "0x%" PRIX64 ": %.2000s (", place.address, frame->label);
    if (frame->file && frame->line > 0) {
        snprintf(text + length, sizeof text - (size_t)length, "%.1500s:%" PRIu32 ")", frame->file,
                 frame->line);
    } else {
        snprintf(text + length, sizeof text - (size_t)length, "in %.1500s)",
                 frame->file ? frame->file : frame->image);
    }
    ag_json_string(&all->json, NULL, text);
}

int ag_dhat_format(struct ag_export *export) {
    struct dhat all = {.export = export, .json = {.out = export->out, .line_depth = 2}};
    struct ag_stack_life *lives;
    int r = ag_profile_stack_lives(export->profile, &lives);
    if (r < 0) {
        return r;
    }
    ag_json_open(&all.json, NULL, '{');
    write_head(&all);
    ag_json_open(&all.json, "pps", '[');
    for (uint32_t row = 0; row < export->n_rows; row++) {
        if (export->rows[row].metrics.allocated_blocks > 0) {
            write_point(&all, row, &lives[row]);
        }
    }
    ag_json_close(&all.json, ']');
    ag_json_open(&all.json, "ftbl", '[');
    ag_json_string(&all.json, NULL, "[root]");
    for (size_t i = 0; i < all.frames.count; i++) {
        write_frame(&all, &all.frames.things[i]);
    }
    ag_json_close(&all.json, ']');
    ag_json_close(&all.json, '}');
    r = all.frames.has_failed ? -ENOMEM : 0;
    ag_numbering_done(&all.frames);
    free(lives);
    return r;
}
