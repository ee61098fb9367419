/* callgrind_format.c: exports a call graph with costs, for KCachegrind, QCachegrind and
 * callgrind_annotate.
 *
 * The format is specified in valgrind's manual, "Callgrind Format Specification", version 1. The
 * file has a section for each function, with its object, file and name. The section contains lines
 * `LINE COST...` for what the function allocated itself, and for each call the lines `cfn=`,
 * `calls=COUNT LINE` and a line with the cost of the call. A name is written as `(id) name` the
 * first time, and then as `(id)`.
 *
 * Each metric is an event of the format; the metric of --metric comes first, because viewers show
 * the first event. A stack adds to the cost of a call once, even if it contains the call several
 * times, so the cost of a recursion is not multiplied. A memory profile does not count calls, so
 * COUNT is the number of stacks that contain the call. */
#include <errno.h>
#include <stdlib.h>

#include "export/format_writer.h"
#include "export/numbering.h"
#include "table/array.h"
#include "text/number.h"

struct cost {       /* the cost of a line of a function, or of a call from that line */
    int64_t frame;  /* a frame of the line */
    int64_t callee; /* a frame of the called function; NO_CALLEE: own cost */
    uint32_t n_stacks;
    uint32_t last_row; /* 1 + the stack (row of the profile) that was added last; 0: none */
    /* 1 + index in `costs` of the next cost of the same function; 0: none */
    uint32_t next_of_function;
    struct ag_metrics metrics;
};
#define NO_CALLEE INT64_MIN

enum name_kind { NAME_OBJECT, NAME_FILE, NAME_FUNCTION, NAME_KINDS };
struct callgrind {
    struct ag_export *export;
    struct ag_numbering functions; /* function as (name, image) -> its number */
    /* (frame, 1 + number of the called function, or 0) -> index in `costs` */
    struct ag_numbering keys;
    struct cost *costs;
    uint32_t *first_cost, *last_cost; /* by function: 1 + index in `costs`; 0: none */
    size_t n_costs;
    struct ag_numbering names[NAME_KINDS]; /* names that were written, with their ids */
};

static uint32_t function_of(struct callgrind *all, int64_t frame) {
    return ag_numbering_function(&all->functions, ag_export_frame(all->export, frame));
}

/* Returns the cost of a line or a call, and adds it if it is missing. NULL: out of memory. */
static struct cost *cost_of(struct callgrind *all, int64_t frame, int64_t callee) {
    bool is_new;
    const uint32_t callee_key = callee == NO_CALLEE ? 0 : function_of(all, callee) + 1;
    const uint32_t at = ag_numbering_of(&all->keys, (uint64_t)frame, callee_key, &is_new);
    const struct cost made = {.frame = frame, .callee = callee};
    if (all->keys.has_failed || (is_new && AG_ARRAY_ADD(all->costs, all->n_costs, made) < 0)) {
        return NULL;
    }
    return &all->costs[at];
}

static int cost_count(struct cost *cost, uint32_t row, const struct ag_metrics *metrics) {
    if (cost && cost->last_row != row + 1) {
        cost->last_row = row + 1;
        cost->n_stacks++;
        ag_metrics_add(&cost->metrics, metrics);
    }
    return cost ? 0 : -ENOMEM;
}

static int count_row(struct callgrind *all, uint32_t row) {
    const struct ag_metrics *metrics = &all->export->rows[row].metrics;
    const struct ag_stack_frame *frames;
    const size_t n = ag_export_stack(all->export, row, &frames);
    int r = n > 0 ? cost_count(cost_of(all, frames[0].frame, NO_CALLEE), row, metrics) : -ENOMEM;
    for (size_t i = 1; i < n && r == 0; i++) {
        r = cost_count(cost_of(all, frames[i].frame, frames[i - 1].frame), row, metrics);
    }
    return r;
}

/* Links the costs of each function, in the order in which they were first seen. */
static int list_costs(struct callgrind *all) {
    for (size_t i = 0; i < all->keys.count; i++) {
        function_of(all, all->costs[i].frame);
    }
    all->first_cost = calloc(all->functions.count + 1, sizeof(*all->first_cost));
    all->last_cost = calloc(all->functions.count + 1, sizeof(*all->last_cost));
    if (!all->first_cost || !all->last_cost || all->functions.has_failed) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < all->keys.count; i++) {
        const uint32_t function = function_of(all, all->costs[i].frame);
        if (all->last_cost[function] != 0) {
            all->costs[all->last_cost[function] - 1].next_of_function = i + 1;
        } else {
            all->first_cost[function] = i + 1;
        }
        all->last_cost[function] = i + 1;
    }
    return 0;
}

/* ---- writing ---- */

/* Writes "fn=(3) name", or "fn=(3)" if the name was written before. */
static void put_name(struct callgrind *all, const char *key, enum name_kind kind,
                     const struct ag_frame *frame) {
    const char *name = kind == NAME_OBJECT ? frame->image
                       : kind == NAME_FILE ? frame->file
                                           : frame->label;
    /* "???" is callgrind's name for an unknown object, file or function. */
    const char *known = name && *name ? name : "???";
    bool is_new;
    /* Functions with equal names in different images are different functions. */
    const uint32_t id =
        ag_numbering_of(&all->names[kind], ag_numbering_pointer(known),
                        kind == NAME_FUNCTION ? ag_numbering_pointer(frame->image) : 0, &is_new);
    fprintf(all->export->out, "%s=(%u)", key, id + 1);
    if (is_new) {
        putc_unlocked(' ', all->export->out);
        if (kind == NAME_FUNCTION) {
            ag_put_function(all->export->out, frame, 0, 0);
        } else {
            ag_put_plain(all->export->out, known, 0, 0);
        }
    }
    putc_unlocked('\n', all->export->out);
}

static enum ag_metric event_metric(const struct callgrind *all, enum ag_metric at) {
    /* the metric of --metric and AG_METRIC_FIRST are exchanged */
    const enum ag_metric first = all->export->metric;
    return at == AG_METRIC_FIRST ? first : at == first ? AG_METRIC_FIRST : at;
}

static void put_costs(struct callgrind *all, const struct ag_metrics *metrics) {
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        putc_unlocked(' ', all->export->out);
        ag_put_number(all->export->out, ag_metric_of(metrics, event_metric(all, metric)));
    }
    putc_unlocked('\n', all->export->out);
}

static void put_cost(struct callgrind *all, const struct cost *cost) {
    FILE *out = all->export->out;
    const struct ag_frame *frame = ag_export_frame(all->export, cost->frame);
    if (cost->callee != NO_CALLEE) {
        const struct ag_frame *callee = ag_export_frame(all->export, cost->callee);
        put_name(all, "cob", NAME_OBJECT, callee);
        put_name(all, "cfi", NAME_FILE, callee);
        put_name(all, "cfn", NAME_FUNCTION, callee);
        fprintf(out, "calls=%u %u\n", cost->n_stacks, callee->line);
    }
    ag_put_number(out, frame->line);
    put_costs(all, &cost->metrics);
}

static void put_function(struct callgrind *all, uint32_t function) {
    uint32_t at = all->first_cost[function];
    if (at == 0) {
        return; /* no line of this function has a cost */
    }
    const struct ag_frame *first = ag_export_frame(all->export, all->costs[at - 1].frame);
    const char *file = first->file;
    putc_unlocked('\n', all->export->out);
    put_name(all, "ob", NAME_OBJECT, first);
    put_name(all, "fl", NAME_FILE, first);
    put_name(all, "fn", NAME_FUNCTION, first);
    for (; at != 0; at = all->costs[at - 1].next_of_function) {
        const struct ag_frame *frame = ag_export_frame(all->export, all->costs[at - 1].frame);
        if (frame->file != file) {
            file = frame->file;
            put_name(all, "fi", NAME_FILE, frame);
        }
        put_cost(all, &all->costs[at - 1]);
    }
}

static void put_head(struct callgrind *all) {
    FILE *out = all->export->out;
    const struct ag_profile_identity *identity = ag_profile_identity(all->export->profile);
    fprintf(out, "# callgrind format\nversion: 1\ncreator: allogram %s\n", all->export->version);
    fprintf(out, "pid: %u\ncmd: ", identity->pid);
    ag_put_command(all->export);
    char note[AG_EXPORT_NOTE_BYTES];
    if (ag_export_note(all->export, note)[0]) {
        fprintf(out, "\ndesc: %s", note);
    }
    fputs("\npart: 1\n\npositions: line\nevents:", out);
    for (enum ag_metric metric = AG_METRIC_FIRST; metric < AG_METRIC_END; metric++) {
        fprintf(out, " %s", ag_metric_name(event_metric(all, metric)));
    }
    fputs("\nsummary:", out);
    put_costs(all, ag_profile_total(all->export->profile));
}

int ag_callgrind_format(struct ag_export *export) {
    struct callgrind all = {.export = export};
    int r = 0;
    for (uint32_t row = 0; row < export->n_rows && r == 0; row++) {
        r = count_row(&all, row);
    }
    r = r < 0 ? r : list_costs(&all);
    if (r == 0) {
        put_head(&all);
        for (uint32_t i = 0; i < all.functions.count; i++) {
            put_function(&all, i);
        }
    }
    free(all.costs);
    free(all.first_cost);
    free(all.last_cost);
    ag_numbering_done(&all.functions);
    ag_numbering_done(&all.keys);
    for (size_t i = 0; i < NAME_KINDS; i++) {
        ag_numbering_done(&all.names[i]);
    }
    return r;
}
