/* massif_format.c: exports the output file of valgrind's massif, for ms_print and
 * massif-visualizer.
 *
 * The format is described in valgrind's massif/ms_main.c ("Writing snapshots"). The file has a head
 * and then snapshots. A snapshot has a time, the bytes in the heap at this time, and a tree of the
 * stacks that allocated these bytes, from the allocation functions to their callers. A line `nK:
 * BYTES LABEL` of a tree is followed by the K lines of its children, indented by one more blank.
 * Stacks with less than 1 % of a snapshot are combined in a line `in N places`. A tree has at most
 * 30 levels, as in massif.
 *
 * There are about a hundred snapshots at equal distances in time, the last one at the end, and an
 * additional snapshot for the peak. Every tenth snapshot, the peak and the end have a tree
 * ("detailed"). The bytes of the peak are those of the report, even if the peak lasted less than a
 * clock tick. Each other snapshot has the bytes in use at its time, counted in one pass over the
 * events. Times are milliseconds with a fraction, because ms_print supports only the units i, ms
 * and B. In a sampled trace all bytes are estimates, and the line `desc` contains the intervals of
 * the sums. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "export/format_writer.h"
#include "model/pass/replay.h"

enum { SNAPSHOTS = 100, DETAILED_EVERY = 10, DEPTH_MOST = 30, THRESHOLD_PERCENT = 1 };

struct listed { /* a stack with its innermost frames, for sorting stacks by frames */
    uint32_t row;
    uint32_t n_frames;
    const struct ag_stack_frame *frames;
};
struct snapshot {
    uint64_t time_ns, bytes;
    /* by row: bytes of the stack; NULL: the snapshot has no tree ("empty") */
    const uint64_t *row_bytes;
    bool is_peak;
};
struct child { /* a node of a tree: the stacks from index `first` to `end` - 1 in massif.stacks,
                * whose innermost frames are equal */
    size_t first, end;
    uint64_t bytes;
};
struct massif {
    struct ag_export *export;
    struct listed *stacks; /* one for each row of the profile (a stack), sorted by frames */
    struct ag_stack_frame *frames;
    uint64_t *bytes; /* by index in `stacks`: bytes in the current snapshot */
    struct ag_moment *moments;
    struct snapshot *snapshots;
    size_t n_moments, n_snapshots;
    uint64_t *peak_bytes; /* by row: bytes at the peak */
};

/* ---- stacks in the order of their frames ---- */

static int by_frames(const void *left, const void *right) {
    const struct listed *a = left, *b = right;
    for (uint32_t i = 0; i < a->n_frames && i < b->n_frames; i++) {
        const struct ag_stack_frame *x = &a->frames[i], *y = &b->frames[i];
        if (x->frame != y->frame) {
            return x->frame < y->frame ? -1 : 1;
        }
        if (x->place != y->place) {
            return x->place < y->place ? -1 : 1;
        }
    }
    if (a->n_frames != b->n_frames) {
        return a->n_frames < b->n_frames ? -1 : 1;
    }
    return a->row < b->row ? -1 : a->row > b->row;
}

static int list_stacks(struct massif *all) {
    const size_t n = all->export->n_rows;
    all->stacks = calloc(n + 1, sizeof(*all->stacks));
    all->bytes = calloc(n + 1, sizeof(*all->bytes));
    all->frames = malloc((n * DEPTH_MOST + 1) * sizeof(*all->frames));
    if (!all->stacks || !all->bytes || !all->frames) {
        return -ENOMEM;
    }
    size_t used = 0;
    for (uint32_t row = 0; row < n; row++) {
        const struct ag_stack_frame *frames;
        const size_t n_all = ag_export_stack(all->export, row, &frames);
        const size_t n_kept = n_all < DEPTH_MOST ? n_all : DEPTH_MOST;
        if (n_all == 0) {
            return -ENOMEM;
        }
        memcpy(all->frames + used, frames, n_kept * sizeof(*frames));
        all->stacks[row] =
            (struct listed){.row = row, .n_frames = (uint32_t)n_kept, .frames = all->frames + used};
        used += n_kept;
    }
    qsort(all->stacks, n, sizeof(*all->stacks), by_frames);
    return 0;
}

/* ---- the moments of snapshots ---- */

static int by_time(const void *left, const void *right) {
    const struct snapshot *a = left, *b = right;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    return a->is_peak - b->is_peak; /* the peak comes after another snapshot at the same time */
}

/* Computes the bytes at the moments of all snapshots, except for the peak, in one replay of the
 * events. The last moment is the end of the recording. */
static int take_moments(struct massif *all) {
    const struct ag_summary *summary = ag_profile_summary(all->export->profile);
    all->moments = calloc(SNAPSHOTS + 1, sizeof(*all->moments));
    all->snapshots = calloc(SNAPSHOTS + 2, sizeof(*all->snapshots));
    all->peak_bytes = calloc(all->export->n_rows + 1, sizeof(*all->peak_bytes));
    if (!all->moments || !all->snapshots || !all->peak_bytes) {
        return -ENOMEM;
    }
    const uint64_t step_ns = summary->duration_ns / SNAPSHOTS + 1;
    for (size_t i = 0; i <= SNAPSHOTS && i * step_ns <= summary->duration_ns; i++) {
        struct ag_moment *moment = &all->moments[all->n_moments++];
        moment->time_ns = i * step_ns;
        if (i % DETAILED_EVERY == DETAILED_EVERY - 1) {
            moment->row_bytes = calloc(all->export->n_rows + 1, sizeof(*moment->row_bytes));
            if (!moment->row_bytes) {
                return -ENOMEM;
            }
        }
    }
    struct ag_moment *end = &all->moments[all->n_moments - 1];
    end->time_ns = UINT64_MAX; /* later than every event */
    if (!end->row_bytes) {
        end->row_bytes = calloc(all->export->n_rows + 1, sizeof(*end->row_bytes));
    }
    const int r = end->row_bytes
                      ? ag_profile_moments(all->export->profile, all->moments, all->n_moments)
                      : -ENOMEM;
    end->time_ns = summary->duration_ns;
    return r;
}

static void take_snapshots(struct massif *all) {
    for (size_t i = 0; i < all->n_moments; i++) {
        all->snapshots[all->n_snapshots++] =
            (struct snapshot){.time_ns = all->moments[i].time_ns,
                              .bytes = all->moments[i].in_use_bytes,
                              .row_bytes = all->moments[i].row_bytes};
    }
    struct snapshot peak = {.time_ns = ag_profile_summary(all->export->profile)->peak_time_ns,
                            .row_bytes = all->peak_bytes,
                            .is_peak = true};
    for (size_t row = 0; row < all->export->n_rows; row++) {
        all->peak_bytes[row] = all->export->rows[row].metrics.peak_bytes;
        peak.bytes += all->peak_bytes[row];
    }
    all->snapshots[all->n_snapshots++] = peak;
    qsort(all->snapshots, all->n_snapshots, sizeof(*all->snapshots), by_time);
}

/* ---- the tree of a snapshot ---- */

static bool is_same_frame(const struct listed *a, const struct listed *b, uint32_t depth) {
    return a->frames[depth].frame == b->frames[depth].frame &&
           a->frames[depth].place == b->frames[depth].place;
}

static int largest_first(const void *left, const void *right) {
    const struct child *a = left, *b = right;
    if (a->bytes != b->bytes) {
        return a->bytes > b->bytes ? -1 : 1;
    }
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Finds the children of a node: groups of the stacks from FIRST to END - 1 with equal frames at
 * DEPTH, largest group first. A stack with at most DEPTH frames belongs to no group. */
static size_t find_children(const struct massif *all, size_t first, size_t end, uint32_t depth,
                            struct child *ret_children) {
    size_t count = 0;
    for (size_t i = first; i < end;) {
        struct child child = {.first = i};
        if (all->stacks[i].n_frames <= depth) {
            i++;
            continue;
        }
        for (; i < end && is_same_frame(&all->stacks[child.first], &all->stacks[i], depth); i++) {
            child.bytes += all->bytes[i];
        }
        child.end = i;
        if (child.bytes > 0) {
            ret_children[count++] = child;
        }
    }
    qsort(ret_children, count, sizeof(*ret_children), largest_first);
    return count;
}

static void put_label(struct massif *all, const struct ag_stack_frame *at) {
    FILE *out = all->export->out;
    const struct ag_frame *frame = ag_export_frame(all->export, at->frame);
    if (at->place != AG_NO_PLACE) {
        const struct ag_place place = ag_profile_place(all->export->profile, at->place);
        fprintf(out, "0x%" PRIX64 ": ", place.address);
    }
    ag_put_function(out, frame, 0, 0);
    fputs(" (", out);
    if (frame->file && frame->line > 0) {
        ag_put_plain(out, ag_base_name(frame->file), 0, 0);
        fprintf(out, ":%" PRIu32 ")\n", frame->line);
    } else {
        fputs("in ", out);
        ag_put_plain(out, frame->file ? frame->file : frame->image, 0, 0);
        fputs(")\n", out);
    }
}

/* Writes the node PARENT, whose stacks have DEPTH equal frames, and the nodes below it. Recurses at
 * most DEPTH_MOST levels. */
static int put_below(struct massif *all, const struct child *parent, uint32_t depth,
                     uint64_t total) {
    FILE *out = all->export->out;
    struct child *children = malloc((parent->end - parent->first + 1) * sizeof(*children));
    if (!children) {
        return -ENOMEM;
    }
    const size_t n = find_children(all, parent->first, parent->end, depth, children);
    size_t n_shown = 0;
    while (n_shown < n && children[n_shown].bytes >= total * THRESHOLD_PERCENT / 100) {
        n_shown++;
    }
    fprintf(out, "%*sn%zu: %" PRIu64 " ", (int)depth, "", n_shown + (n_shown < n), parent->bytes);
    if (depth == 0) {
        fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.\n", out);
    } else {
        put_label(all, &all->stacks[parent->first].frames[depth - 1]);
    }
    int r = 0;
    for (size_t i = 0; i < n_shown && r == 0; i++) {
        r = put_below(all, &children[i], depth + 1, total);
    }
    uint64_t rest = 0;
    for (size_t i = n_shown; i < n; i++) {
        rest += children[i].bytes;
    }
    if (n_shown < n && r == 0) {
        fprintf(out, "%*sn0: %" PRIu64 " in %zu place%s below massif's threshold (%d.00%%)\n",
                (int)depth + 1, "", rest, n - n_shown, n - n_shown == 1 ? "," : "s, all",
                THRESHOLD_PERCENT);
    }
    free(children);
    return r;
}

static int put_snapshot(struct massif *all, size_t number) {
    FILE *out = all->export->out;
    const struct snapshot *snapshot = &all->snapshots[number];
    fprintf(out, "#-----------\nsnapshot=%zu\n#-----------\n", number);
    fprintf(out, "time=%" PRIu64 ".%06" PRIu64 "\n", snapshot->time_ns / 1000000,
            snapshot->time_ns % 1000000);
    fprintf(out, "mem_heap_B=%" PRIu64 "\nmem_heap_extra_B=0\nmem_stacks_B=0\n", snapshot->bytes);
    fprintf(out, "heap_tree=%s\n",
            snapshot->is_peak     ? "peak"
            : snapshot->row_bytes ? "detailed"
                                  : "empty");
    if (!snapshot->row_bytes) {
        return 0;
    }
    for (size_t i = 0; i < all->export->n_rows; i++) {
        all->bytes[i] = snapshot->row_bytes[all->stacks[i].row];
    }
    const struct child whole = {.end = all->export->n_rows, .bytes = snapshot->bytes};
    return put_below(all, &whole, 0, snapshot->bytes);
}

int ag_massif_format(struct ag_export *export) {
    struct massif all = {.export = export};
    int r = list_stacks(&all);
    r = r < 0 ? r : take_moments(&all);
    if (r == 0) {
        take_snapshots(&all);
        char note[AG_EXPORT_NOTE_BYTES];
        const char *text = ag_export_note(export, note);
        fprintf(export->out, "desc: allogram %s, %s\ncmd: ", export->version,
                text[0] ? text : "exact");
        ag_put_command(export);
        fputs("\ntime_unit: ms\n", export->out);
    }
    for (size_t i = 0; i < all.n_snapshots && r == 0; i++) {
        r = put_snapshot(&all, i);
    }
    for (size_t i = 0; i < all.n_moments; i++) {
        free(all.moments[i].row_bytes);
    }
    free(all.stacks);
    free(all.frames);
    free(all.bytes);
    free(all.moments);
    free(all.snapshots);
    free(all.peak_bytes);
    return r;
}
