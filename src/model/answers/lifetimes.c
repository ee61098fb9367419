/* lifetimes.c: computes the distribution of the lifetimes of blocks by site, type or label, for the
 * lifetimes view. The memory for counters does not grow with the number of blocks.
 *
 * The range between two powers of two of nanoseconds is divided into 16 steps, and a lifetime is
 * counted in its step. So the error of a percentile is at most 1/32 of its value. The counters of
 * such a range are allocated when the first block needs them. The site (function, type ...) of each
 * stack is determined before the pass over the events, and the ledger (the code that computes sums
 * from events) gets the site in place of the stack. With a million stacks this saves a third of a
 * GiB.
 *
 * A garbage collector moves the blocks that stay alive, promotes them to an older generation, or
 * does both at once. So the number of collections that a block survived is the larger of its
 * numbers of moves and promotions.
 *
 * In a sampled trace each block has a weight. The interval of a percentile consists of the times at
 * which a 95 % band around the curve of Kaplan and Meier crosses the percentage (Brookmeyer and
 * Crowley, 1982). The variance of the curve is that of Greenwood (1926), for the effective number
 * of samples: the square of the sum of the weights, divided by the sum of their squares. */
#include "model/answers/lifetimes.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "model/answers/blocks.h"
#include "model/answers/types.h"
#include "model/interval.h"
#include "model/pass/weights.h"
#include "model/profile_state.h"

enum { STEPS = 16, STEP_BITS = 4, POWERS = 64 - STEP_BITS + 1, DECADES = 21 };

struct sketch { /* the counters of one row: a function, line, image, type, label or process */
    /* By power of two: STEPS counters of freed blocks by lifetime, then STEPS counters of the
     * blocks in use at the end by their age at the end. NULL: no block. */
    double *powers[POWERS];
    double blocks, bytes, ended, ended_bytes;
    /* of a sampled trace: the variances of these numbers, and more (struct ag_metrics) */
    double blocks_variance, bytes_variance, ended_variance, ended_bytes_variance;
    double squares; /* sum of the squares of the weights */
    double heaviest, portion_bytes;
    /* sum of the lifetimes of all freed blocks; not an integer of 64 bits, which overflows at five
     * million hours */
    long double sum_ns;
    struct ag_lifetime lifetime;
    struct {
        double blocks, survived, died_young, promoted, promoted_bytes, collections;
        uint32_t max_collections;
    } young; /* The members are as in struct ag_survival. collections: sum over all blocks of the
              * number of collections that the block survived */
    /* type: id of a text; valid if has_type, but not if has_types (the blocks have several
     * types) */
    uint32_t frame, type;
    uint32_t stack; /* one of the stacks of the row */
    bool has_type, has_types;
};
struct lifetime_pass {
    struct ag_profile *profile;
    struct sketch *sketches;
    size_t n_sketches;
    struct ag_index_map of_stack; /* made by ag_pass_group: (stack, via) -> index in sketches */
    struct sketch all;
    struct ag_lifetime_step decades[DECADES];
    double decade_blocks[DECADES], decade_bytes[DECADES];
    uint64_t end_ns; /* end of the recording, in session time (since the start of the session, the
                      * recording of all processes) */
    /* by via (allocation function): whether the garbage collector of its heap reports which blocks
     * it moves or promotes */
    bool is_moving[AG_MODEL_VIAS];
    int error;
};

/* ---- counting ---- */

static size_t power_of(uint64_t lifetime_ns) {
    return lifetime_ns < STEPS ? 0 : 63 - (size_t)__builtin_clzll(lifetime_ns) - STEP_BITS + 1;
}

static size_t step_of(uint64_t lifetime_ns, size_t power) {
    return power == 0 ? lifetime_ns : (lifetime_ns >> (power - 1)) & (STEPS - 1);
}

static void count_weight(struct sketch *sketch, const struct ag_weight *weight, bool has_ended) {
    const double variance = weight->spread;
    const double bytes_variance = weight->spread * (double)weight->size * (double)weight->size;
    sketch->squares += weight->blocks * weight->blocks;
    sketch->blocks_variance += variance;
    sketch->bytes_variance += bytes_variance;
    sketch->ended_variance += has_ended ? variance : 0;
    sketch->ended_bytes_variance += has_ended ? bytes_variance : 0;
    sketch->heaviest = weight->blocks > sketch->heaviest ? weight->blocks : sketch->heaviest;
    sketch->portion_bytes = weight->portion_bytes > sketch->portion_bytes ? weight->portion_bytes
                                                                          : sketch->portion_bytes;
}

static int sketch_count(struct sketch *sketch, const struct ag_block_row *life,
                        uint64_t lifetime_ns, bool has_ended) {
    struct ag_lifetime *lifetime = &sketch->lifetime;
    const double n = life->stands_for, bytes = n * (double)life->size;
    sketch->blocks += n;
    sketch->bytes += bytes;
    if (life->weight) {
        count_weight(sketch, life->weight, has_ended);
    }
    const size_t power = power_of(lifetime_ns);
    if (!sketch->powers[power]) {
        sketch->powers[power] = calloc((size_t)2 * STEPS, sizeof(double));
        if (!sketch->powers[power]) {
            return -ENOMEM;
        }
    }
    sketch->powers[power][step_of(lifetime_ns, power) + (has_ended ? 0 : STEPS)] += n;
    if (!has_ended) {
        return 0;
    }
    sketch->sum_ns += (long double)lifetime_ns * (long double)n;
    lifetime->min_ns =
        sketch->ended == 0 || lifetime_ns < lifetime->min_ns ? lifetime_ns : lifetime->min_ns;
    lifetime->max_ns = lifetime_ns > lifetime->max_ns ? lifetime_ns : lifetime->max_ns;
    sketch->ended += n;
    sketch->ended_bytes += bytes;
    return 0;
}

static void count_decade(struct lifetime_pass *pass, uint64_t size, double n,
                         uint64_t lifetime_ns) {
    size_t decade = 0;
    while (decade + 1 < DECADES && lifetime_ns >= pass->decades[decade].to_ns) {
        decade++;
    }
    pass->decade_blocks[decade] += n;
    pass->decade_bytes[decade] += n * (double)size;
}

static void count_survival(struct sketch *sketch, const struct ag_block_row *life) {
    const uint32_t collections =
        life->n_moves > life->n_promotions ? life->n_moves : life->n_promotions;
    const double n = life->stands_for;
    sketch->young.blocks += n;
    sketch->young.survived += collections > 0 ? n : 0;
    sketch->young.died_young += collections == 0 && life->freed_ns != UINT64_MAX ? n : 0;
    if (life->n_promotions > 0) {
        sketch->young.promoted += n;
        sketch->young.promoted_bytes += n * (double)life->size;
    }
    sketch->young.collections += n * collections;
    if (collections > sketch->young.max_collections) {
        sketch->young.max_collections = collections;
    }
}

static void count_life(struct lifetime_pass *pass, uint32_t at, const struct ag_block_row *life) {
    if (at >= pass->n_sketches || pass->error < 0) {
        return;
    }
    const bool has_ended = life->freed_ns != UINT64_MAX;
    const uint64_t end_ns = has_ended ? life->freed_ns : pass->end_ns;
    const uint64_t lifetime_ns = end_ns > life->allocated_ns ? end_ns - life->allocated_ns : 0;
    const int r = sketch_count(&pass->sketches[at], life, lifetime_ns, has_ended);
    pass->error = r < 0 ? r : sketch_count(&pass->all, life, lifetime_ns, has_ended);
    if (has_ended) {
        count_decade(pass, life->size, life->stands_for, lifetime_ns);
    }
    if (life->is_of_moving) {
        count_survival(&pass->sketches[at], life);
        count_survival(&pass->all, life);
    }
}

/* Counts a block of a profile that is merged from several processes. */
static void lifetimes_visit(void *context, const struct ag_block_row *row) {
    struct lifetime_pass *pass = context;
    count_life(pass, ag_pass_group_of(&pass->of_stack, row->stack, row->via), row);
}

/* The same if rows are processes. The process is that of the allocating stream, not that of the
 * stack: all blocks whose stacks were not kept have the same stack. */
static void visit_of_process(void *context, const struct ag_block_row *row) {
    struct lifetime_pass *pass = context;
    count_life(pass, ag_profile_process_of_stream(pass->profile, row->allocated_by), row);
}

/* Counts a block of a profile of one process: block->stack is the index of a sketch, and all times
 * are session times. */
static void visit_grouped(void *context, const struct ag_block *block) {
    struct lifetime_pass *pass = context;
    if (block->freed_ns >= pass->profile->pass.from_ns) {
        const struct ag_block_row life = {.size = block->size,
                                          .allocated_ns = block->allocated_ns,
                                          .freed_ns = block->freed_ns,
                                          .stands_for = block->weight ? block->weight->blocks : 1,
                                          .weight = block->weight,
                                          .is_of_moving = pass->is_moving[block->via],
                                          .n_moves = block->n_moves,
                                          .n_promotions = block->n_promotions};
        count_life(pass, block->stack, &life);
    }
}

/* ---- the sketch of each stack ---- */

static void note_type(struct sketch *sketch, uint32_t type) {
    sketch->has_types |= sketch->has_type && sketch->type != type;
    sketch->has_type = true;
    sketch->type = type;
}

static uint64_t key_of_row(struct ag_profile *profile, enum ag_site_key by,
                           const uint32_t *key_of_frame, size_t row, uint32_t *ret_frame) {
    *ret_frame = profile->frames.no_stack;
    if (!AG_IS_ROOT(profile->row_nodes[row])) {
        size_t n;
        *ret_frame = ag_profile_node_frames(profile, profile->row_nodes[row], &n)[0];
    }
    if (by == AG_BY_LABEL) {
        return ag_stack_nodes_leaf(&profile->definitions.nodes, profile->rows[row].stack).label;
    }
    return by == AG_BY_TYPE ? ag_profile_row_type(profile, row) : key_of_frame[*ret_frame];
}

static int assign(struct lifetime_pass *pass, enum ag_site_key by, const uint32_t *key_of_frame) {
    struct ag_profile *profile = pass->profile;
    struct ag_index_map keys = {0};
    int r = 0;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        uint32_t frame;
        const uint64_t key = key_of_row(profile, by, key_of_frame, i, &frame);
        uint32_t at;
        r = ag_index_map_number(&keys, key, &at);
        if (r > 0) {
            pass->sketches[at].stack = profile->rows[i].stack;
            pass->sketches[pass->n_sketches++].frame = frame;
        }
        if (r >= 0) {
            note_type(&pass->sketches[at], ag_profile_row_type(profile, i));
            r = ag_pass_group(&pass->of_stack, &profile->definitions.nodes, profile->rows[i].stack,
                              profile->rows[i].via, at);
        }
    }
    ag_index_map_done(&keys);
    return r;
}

/* Makes a sketch for each process; its number is that of the process. */
static int assign_processes(struct lifetime_pass *pass) {
    struct ag_profile *profile = pass->profile;
    int r = ag_profile_prepare_types(profile);
    pass->n_sketches = ag_profile_n_processes(profile);
    pass->sketches = calloc(pass->n_sketches, sizeof(*pass->sketches));
    r = r < 0 ? r : pass->sketches ? 0 : -ENOMEM;
    for (size_t i = 0; i < pass->n_sketches && r == 0; i++) {
        pass->sketches[i].frame = profile->frames.no_stack;
    }
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        const uint32_t at = ag_profile_process_of_row(profile, i);
        note_type(&pass->sketches[at], ag_profile_row_type(profile, i));
        r = ag_pass_group(&pass->of_stack, &profile->definitions.nodes, profile->rows[i].stack,
                          profile->rows[i].via, at);
    }
    return r;
}

static int assign_stacks(struct lifetime_pass *pass, enum ag_site_key by) {
    struct ag_profile *profile = pass->profile;
    uint32_t *key_of_frame = NULL, *frame_of_key = NULL;
    size_t n_keys;
    int r = ag_profile_prepare_types(profile);
    if (r == 0 && !ag_site_key_is_named(by)) {
        r = ag_profile_function_keys(profile, by, &key_of_frame, &frame_of_key, &n_keys);
    }
    pass->sketches = calloc(profile->n_rows + 1, sizeof(*pass->sketches));
    r = r < 0 ? r : pass->sketches ? assign(pass, by, key_of_frame) : -ENOMEM;
    free(key_of_frame);
    free(frame_of_key);
    return r;
}

/* ---- results ---- */

/* The middle of a step, limited to the range from the shortest to the longest lifetime. */
static uint64_t middle_of(const struct ag_lifetime *lifetime, size_t power, size_t step) {
    const uint64_t width = power == 0 ? 1 : UINT64_C(1) << (power - 1);
    const uint64_t low = power == 0 ? step : (STEPS + step) * width;
    const uint64_t middle = low + width / 2;
    return middle < lifetime->min_ns   ? lifetime->min_ns
           : middle > lifetime->max_ns ? lifetime->max_ns
                                       : middle;
}

/* The percentile of freed blocks, by nearest rank. */
static uint64_t percentile(const struct sketch *sketch, unsigned percent) {
    const uint64_t n = (uint64_t)sketch->ended;
    const uint64_t rank = n / 100 * percent + (n % 100 * percent + 99) / 100;
    double seen = 0;
    for (size_t power = 0; power < POWERS; power++) {
        for (size_t step = 0; sketch->powers[power] && step < STEPS; step++) {
            seen += sketch->powers[power][step];
            if (seen >= (double)rank) {
                return middle_of(&sketch->lifetime, power, step);
            }
        }
    }
    return sketch->lifetime.max_ns;
}

/* The percentile of all blocks, by the estimator of Kaplan and Meier (1958): a block that is in use
 * at the end has a lifetime of at least its age at the end, so it belongs to the population up to
 * this age. DEVIATIONS 0: the estimate; otherwise where the curve, moved by so many standard
 * deviations, crosses the percentage. Returns AG_LIFETIME_UNKNOWN if too few blocks were freed. */
static uint64_t survival_percentile(const struct sketch *sketch, unsigned percent,
                                    double deviations) {
    const double scale = sketch->squares > 0 ? sketch->blocks / sketch->squares : 1;
    double at_risk = sketch->blocks, alive = 1, greenwood = 0;
    for (size_t power = 0; power < POWERS; power++) {
        for (size_t step = 0; sketch->powers[power] && step < STEPS; step++) {
            const double died = sketch->powers[power][step];
            /* rounding errors may leave a rest of the blocks of the last step */
            const double left = at_risk - died > 1e-9 * sketch->blocks ? at_risk - died : 0;
            const double before = alive;
            alive *= at_risk > 0 ? left / at_risk : 1;
            greenwood += left > 0 ? died / (at_risk * left * scale) : 0;
            /* After the last death the curve is 0 and has no variance. The upper bound there is
             * unknown. */
            const double bound = left > 0          ? alive * (1 + deviations * sqrt(greenwood))
                                 : deviations <= 0 ? alive
                                                   : before;
            if (died > 0 && bound <= 1 - percent / 100.0 + 1e-9) {
                return middle_of(&sketch->lifetime, power, step);
            }
            at_risk -= died + sketch->powers[power][step + STEPS];
        }
    }
    return AG_LIFETIME_UNKNOWN;
}

static void add_intervals(struct ag_lifetime *lifetime, const struct sketch *sketch) {
    static const double deviations[2] = {-1.959963985, 1.959963985};
    struct ag_metrics *metrics = &lifetime->metrics;
    *metrics = (struct ag_metrics){.allocated_blocks = lifetime->blocks,
                                   .allocated_bytes = lifetime->bytes,
                                   .freed_blocks = lifetime->ended,
                                   .freed_bytes = lifetime->ended_bytes,
                                   .heaviest = ag_estimate_variance(sketch->heaviest),
                                   .portion_bytes = ag_estimate_variance(sketch->portion_bytes)};
    const struct {
        enum ag_metric metric;
        double variance;
    } variances[] = {{AG_METRIC_ALLOCATED_BLOCKS, sketch->blocks_variance},
                     {AG_METRIC_ALLOCATED_BYTES, sketch->bytes_variance},
                     {AG_METRIC_FREED_BLOCKS, sketch->ended_variance},
                     {AG_METRIC_FREED_BYTES, sketch->ended_bytes_variance}};
    for (size_t i = 0; i < AG_ARRAY_SIZE(variances); i++) {
        metrics->variance[variances[i].metric - AG_METRIC_FIRST] =
            ag_estimate_variance(variances[i].variance);
    }
    lifetime->has_intervals = true;
    for (size_t i = 0; i < 2; i++) {
        lifetime->p50_interval_ns[i] = survival_percentile(sketch, 50, deviations[i]);
        lifetime->p90_interval_ns[i] = survival_percentile(sketch, 90, deviations[i]);
        lifetime->p99_interval_ns[i] = survival_percentile(sketch, 99, deviations[i]);
    }
}

static struct ag_lifetime result_of(const struct lifetime_pass *pass, const struct sketch *sketch) {
    struct ag_lifetime lifetime = sketch->lifetime;
    const bool is_sampled = pass->profile->definitions.is_sampled;
    lifetime.blocks = ag_estimate_whole(sketch->blocks);
    lifetime.bytes = ag_estimate_whole(sketch->bytes);
    lifetime.ended = ag_estimate_whole(sketch->ended);
    lifetime.ended_bytes = ag_estimate_whole(sketch->ended_bytes);
    if (lifetime.ended > 0) {
        const double none = 0;
        lifetime.mean_ns = (uint64_t)(sketch->sum_ns / (long double)sketch->ended + 0.5L);
        lifetime.p50_ns =
            is_sampled ? survival_percentile(sketch, 50, none) : percentile(sketch, 50);
        lifetime.p90_ns =
            is_sampled ? survival_percentile(sketch, 90, none) : percentile(sketch, 90);
        lifetime.p99_ns =
            is_sampled ? survival_percentile(sketch, 99, none) : percentile(sketch, 99);
    }
    if (is_sampled) {
        add_intervals(&lifetime, sketch);
    }
    return lifetime;
}

static const char *label_of(const struct lifetime_pass *pass, enum ag_site_key by,
                            const struct sketch *sketch, const char *type) {
    return by == AG_BY_LABEL  ? ag_profile_stack_label(pass->profile, sketch->stack)
           : by == AG_BY_TYPE ? type
           : by == AG_BY_OS_PROCESS
               ? ag_profile_process_name(pass->profile, (uint32_t)(sketch - pass->sketches))
               : NULL;
}

static struct ag_survival survival_of(const struct sketch *sketch) {
    return (struct ag_survival){
        .blocks = ag_estimate_whole(sketch->young.blocks),
        .survived_blocks = ag_estimate_whole(sketch->young.survived),
        .died_young_blocks = ag_estimate_whole(sketch->young.died_young),
        .promoted_blocks = ag_estimate_whole(sketch->young.promoted),
        .promoted_bytes = ag_estimate_whole(sketch->young.promoted_bytes),
        .mean_collections =
            sketch->young.blocks > 0 ? sketch->young.collections / sketch->young.blocks : 0,
        .max_collections = sketch->young.max_collections};
}

static int lifetimes_take(struct lifetime_pass *pass, enum ag_site_key by,
                          struct ag_lifetimes *result) {
    struct ag_lifetime_row *rows = calloc(pass->n_sketches + 1, sizeof(*rows));
    struct ag_lifetime_step *steps = calloc(DECADES, sizeof(*steps));
    result->rows = rows;
    result->steps = steps;
    if (!rows || !steps) {
        return -ENOMEM;
    }
    const struct ag_text_store *texts = &pass->profile->definitions.texts;
    for (size_t i = 0; i < pass->n_sketches; i++) {
        const struct sketch *sketch = &pass->sketches[i];
        const bool is_reported = sketch->has_type && !sketch->has_types && sketch->type != 0;
        const char *type = is_reported ? ag_text(texts, sketch->type) : NULL;
        if (sketch->blocks > 0) {
            rows[result->n_rows++] =
                (struct ag_lifetime_row){.frame = sketch->frame,
                                         .label = label_of(pass, by, sketch, type),
                                         .process = (uint32_t)i,
                                         .type = type,
                                         .lifetime = result_of(pass, sketch),
                                         .survival = survival_of(sketch)};
        }
    }
    for (size_t i = 0; i < DECADES; i++) {
        pass->decades[i].blocks = ag_estimate_whole(pass->decade_blocks[i]);
        pass->decades[i].bytes = ag_estimate_whole(pass->decade_bytes[i]);
    }
    size_t first = 0, end = DECADES;
    while (first < DECADES && pass->decades[first].blocks == 0) {
        first++;
    }
    while (end > first && pass->decades[end - 1].blocks == 0) {
        end--;
    }
    result->n_steps = end - first;
    memcpy(steps, pass->decades + first, result->n_steps * sizeof(*steps));
    result->all = result_of(pass, &pass->all);
    result->all_survival = survival_of(&pass->all);
    return 0;
}

static void end_sketch(struct sketch *sketch) {
    for (size_t power = 0; power < POWERS; power++) {
        free(sketch->powers[power]);
    }
}

static int see_blocks(struct lifetime_pass *pass, enum ag_site_key by) {
    struct ag_profile *profile = pass->profile;
    if (profile->n_parts > 0) {
        return ag_profile_blocks(profile, AG_BLOCK_OPEN | AG_BLOCK_CLOSED,
                                 by == AG_BY_OS_PROCESS ? visit_of_process : lifetimes_visit, pass);
    }
    struct ag_pass_options options = profile->pass;
    options.groups = &pass->of_stack;
    options.visit_block = visit_grouped;
    options.visit_context = pass;
    return ag_profile_visit(profile, &options);
}

static int lifetimes_run(struct ag_profile *profile, enum ag_site_key by,
                         struct ag_lifetimes *result) {
    struct lifetime_pass pass = {
        .profile = profile, .end_ns = profile->definitions.start_ns + profile->summary.duration_ns};
    uint64_t to_ns = 10;
    for (size_t i = 0; i < DECADES; i++) {
        pass.decades[i].from_ns = i > 0 ? pass.decades[i - 1].to_ns : 0;
        pass.decades[i].to_ns = i + 1 < DECADES - 1 ? to_ns : UINT64_MAX;
        to_ns = i + 1 < DECADES - 1 ? to_ns * 10 : to_ns;
    }
    for (uint32_t via = 0; via < AG_MODEL_VIAS; via++) {
        const struct ag_model_heap *heap = ag_definitions_heap_of_via(&profile->definitions, via);
        pass.is_moving[via] = heap && heap->is_moving;
    }
    int r = by == AG_BY_OS_PROCESS ? assign_processes(&pass) : assign_stacks(&pass, by);
    r = r < 0 ? r : see_blocks(&pass, by);
    r = r < 0 ? r : pass.error;
    r = r < 0 ? r : lifetimes_take(&pass, by, result);
    for (size_t i = 0; i < pass.n_sketches; i++) {
        end_sketch(&pass.sketches[i]);
    }
    end_sketch(&pass.all);
    free(pass.sketches);
    ag_index_map_done(&pass.of_stack);
    return r;
}

int ag_profile_lifetimes(struct ag_profile *profile, enum ag_site_key by,
                         const struct ag_lifetimes **ret_lifetimes) {
    if (by != AG_BY_FUNCTION && by != AG_BY_LINE && by != AG_BY_IMAGE && by != AG_BY_TYPE &&
        by != AG_BY_LABEL && by != AG_BY_OS_PROCESS) {
        return -EINVAL;
    }
    struct ag_lifetimes *result = &profile->lifetimes[by];
    if (!result->rows) {
        const int r = lifetimes_run(profile, by, result);
        if (r < 0) {
            ag_lifetimes_end(result);
            return r;
        }
    }
    *ret_lifetimes = result;
    return 0;
}

void ag_lifetimes_end(struct ag_lifetimes *lifetimes) {
    /* the casts remove `const`, which is for callers only */
    free((void *)(uintptr_t)lifetimes->rows);
    free((void *)(uintptr_t)lifetimes->steps);
    *lifetimes = (struct ag_lifetimes){0};
}
