/* gate.c: `report --fail-if`: reads the values that an expression names from a trace, computes the
 * expression (gate_expression.c), and keeps the results for the files that gate_files.c writes. */
#include "report/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/answers/blamed_lines.h"
#include "model/answers/call_difference.h"
#include "model/answers/difference.h"
#include "model/answers/program_mappings.h"
#include "model/interval.h"
#include "report/view.h"
#include "table/array.h"

enum { MESSAGE_BYTES = 1024 };

struct ag_gate {
    struct ag_gate_expression **expressions;
    size_t n_expressions;
    struct ag_gate_result *results;
    size_t n_results;
};

bool ag_gate_is_named(const char *function, const char *name) {
    const size_t length = strlen(name);
    return function != NULL && strncmp(function, name, length) == 0 &&
           (function[length] == '\0' || function[length] == '(');
}

/* ---- values ---- */

static uint64_t value_of_key(struct ag_profile *profile, enum ag_gate_key key) {
    const struct ag_summary *summary = ag_profile_summary(profile);
    switch (key) {
#define KEY_VALUE(NAME, name, METRIC, value) \
    case AG_GATE_##NAME:                     \
        return value;
        AG_GATE_KEY_TABLE(KEY_VALUE)
#undef KEY_VALUE
    case AG_GATE_SITE:
    case AG_GATE_FUNCTION:
    case AG_GATE_KEY_END:
        break;
    }
    return 0;
}

/* In a sampled trace the value of a key (a named number such as peak_bytes) can be an estimate.
 * Returns the metric whose confidence interval applies to the key of TERM, or AG_METRIC_DEFAULT if
 * the value is an exact count. */
static enum ag_metric metric_of_key(const struct ag_gate_term *term) {
    return term->key == AG_GATE_PEAK_TIME || term->key == AG_GATE_RSS_PEAK ? AG_METRIC_DEFAULT
                                                                           : term->metric;
}

/* Finds the profile that has the quantity of TERM: PROFILE, or that of its mappings. Returns 0 or a
 * negative errno. The message of ag_profile_mappings is dropped: the command prints the text of the
 * errno. */
static int profile_of(const struct ag_gate_term *term, struct ag_profile *profile,
                      struct ag_profile **ret_profile) {
    const bool is_mapped = term->key == AG_GATE_MAPPED || term->key == AG_GATE_MAPPED_PEAK;
    char message[512];
    if (is_mapped && profile != NULL) {
        return ag_profile_mappings(profile, ret_profile, message);
    }
    *ret_profile = profile;
    return 0;
}

struct quantity { /* a number of a trace, and its bounds */
    uint64_t value, low, high;
    bool is_estimate, is_unknown; /* unknown: a sampled trace does not contain the number */
    /* why the trace does not give the number, such as "has no function counters"; NULL: it does */
    const char *lack;
};

static void widen(struct quantity *quantity, enum ag_metric metric, struct ag_interval interval) {
    quantity->is_estimate = true;
    quantity->is_unknown = metric == AG_METRIC_TEMPORARY_BLOCKS;
    quantity->low = quantity->is_unknown ? 0 : interval.low;
    quantity->high = quantity->is_unknown ? UINT64_MAX : interval.high;
}

/* Adds up the rows of all functions that have the name in TERM. */
static int quantity_of_site(const struct ag_gate_term *term, struct ag_profile *profile,
                            struct quantity *ret_quantity, bool *ret_is_known) {
    const struct ag_site_row *rows;
    size_t n_rows;
    struct ag_metrics sum = {0};
    const int r = ag_profile_sites(profile, AG_BY_FUNCTION, &rows, &n_rows);
    if (r < 0) {
        return r;
    }
    *ret_is_known = false;
    for (size_t i = 0; i < n_rows; i++) {
        if (ag_gate_is_named(ag_profile_frame(profile, rows[i].frame)->function, term->site)) {
            ag_metrics_add(&sum, term->is_total ? &rows[i].total : &rows[i].own);
            *ret_is_known = true;
        }
    }
    const uint64_t value = ag_metric_of(&sum, term->metric);
    *ret_quantity = (struct quantity){.value = value, .low = value, .high = value};
    if (ag_profile_identity(profile)->is_sampled) {
        widen(ret_quantity, term->metric, ag_interval_in_profile(profile, &sum, term->metric));
    }
    return 0;
}

/* Says why the quantities of the trace are not known; NULL: they are. A condition must not be false
 * because events are missing from the trace. */
static const char *find_gap(const struct ag_profile *profile) {
    if (ag_profile_identity(profile)->is_damaged) {
        return "is damaged, so this number is not known";
    }
    return ag_heading_lost_events(profile) > 0 ? "lost events, so this number is not known" : NULL;
}

/* Says what is missing from FUNCTIONS for METRIC; NULL: nothing. A condition must not be false
 * because counts are missing from the trace. */
static const char *find_lack(const struct ag_functions *functions, enum ag_call_metric metric) {
    const bool is_time = metric == AG_CALL_METRIC_OWN_NS || metric == AG_CALL_METRIC_ACC_NS;
    if (functions->n_trees == 0) {
        return "has no function counters";
    }
    return is_time && functions->total.own_ns == 0 ? "has no times of functions" : NULL;
}

static int quantity_of_function(const struct ag_gate_term *term, struct ag_profile *profile,
                                struct quantity *ret_quantity, bool *ret_is_known) {
    const struct ag_functions *functions;
    struct ag_call_counts counts = {0};
    int r = ag_profile_functions(profile, &functions);
    if (r < 0) {
        return r;
    }
    *ret_is_known = true;
    if (term->site == NULL) {
        counts = functions->total;
    } else {
        r = ag_profile_function_counts(profile, term->site, &counts);
        *ret_is_known = r == 0;
        r = r == -ENOENT ? 0 : r;
    }
    const uint64_t value = ag_call_metric_of(&counts, term->call_metric);
    *ret_quantity = (struct quantity){.value = value,
                                      .low = value,
                                      .high = value,
                                      .lack = find_lack(functions, term->call_metric)};
    return r;
}

static int quantity_in(const struct ag_gate_term *term, struct ag_profile *whole,
                       struct quantity *ret_quantity, bool *ret_is_known) {
    struct ag_profile *profile;
    const int profile_r = profile_of(term, whole, &profile);
    const char *gap = term->key != AG_GATE_LOST_EVENTS ? find_gap(whole) : NULL;
    if (profile_r < 0) {
        return profile_r;
    }
    if (gap != NULL) {
        *ret_quantity = (struct quantity){.lack = gap};
        *ret_is_known = true;
        return 0;
    }
    if (term->key == AG_GATE_FUNCTION) {
        return quantity_of_function(term, profile, ret_quantity, ret_is_known);
    }
    if (term->key == AG_GATE_SITE) {
        return quantity_of_site(term, profile, ret_quantity, ret_is_known);
    }
    const uint64_t value = value_of_key(profile, term->key);
    const enum ag_metric metric = metric_of_key(term);
    *ret_is_known = true;
    *ret_quantity = (struct quantity){.value = value, .low = value, .high = value};
    if (ag_profile_identity(profile)->is_sampled && metric != AG_METRIC_DEFAULT) {
        widen(ret_quantity, metric, ag_interval_of_metric(ag_profile_total(profile), metric));
    }
    return 0;
}

/* Growth from 0 to 0 is 0. Growth from 0 to any other number is infinite. */
static long double growth(uint64_t before, uint64_t after) {
    if (before == 0) {
        return after == 0 ? 0 : (long double)INFINITY;
    }
    return ((long double)after - (long double)before) / (long double)before;
}

static void put_quantity(FILE *words, const struct quantity *quantity) {
    if (quantity->is_unknown) {
        fputs("unknown", words);
        return;
    }
    fprintf(words, "%" PRIu64, quantity->value);
    if (quantity->is_estimate) {
        fprintf(words, " (95 %%: %" PRIu64 " to %" PRIu64 ")", quantity->low, quantity->high);
    }
}

static struct ag_gate_range put_growth(FILE *words, const struct quantity *before,
                                       const struct quantity *after) {
    const struct ag_gate_range range = {growth(before->high, after->low),
                                        growth(before->low, after->high)};
    if (before->value != 0 && !before->is_unknown && !after->is_unknown) {
        fprintf(words, "%.4Lg%% (", 100 * growth(before->value, after->value));
    }
    fputs("from ", words);
    put_quantity(words, before);
    fputs(" to ", words);
    put_quantity(words, after);
    if (before->value != 0 && !before->is_unknown && !after->is_unknown) {
        fputc(')', words);
    }
    return range;
}

/* Finds the bounds of a term, and writes "TERM = VALUE" for people, or "TERM: REASON". Returns 0;
 * -ENODATA if a trace does not have the quantity; or another negative errno. */
static int find_value(const struct ag_gate_term *term, struct ag_profile *profile,
                      struct ag_profile *base, struct ag_gate_range *ret_range, bool *ret_is_known,
                      FILE *words) {
    struct quantity before = {0}, after = {0};
    bool is_known_before = false, is_known_after = false;
    int r = term->of != AG_GATE_OF_TRACE ? quantity_in(term, base, &before, &is_known_before) : 0;
    if (r == 0 && term->of != AG_GATE_OF_BASE) {
        r = quantity_in(term, profile, &after, &is_known_after);
    }
    if (r == 0 && (before.lack != NULL || after.lack != NULL)) {
        fprintf(words, "%.*s: the trace%s %s", (int)term->text_len, term->text,
                before.lack != NULL ? " of --base" : "",
                before.lack != NULL ? before.lack : after.lack);
        return -ENODATA;
    }
    fprintf(words, "%.*s = ", (int)term->text_len, term->text);
    *ret_is_known = is_known_before || is_known_after;
    const struct quantity *one = term->of == AG_GATE_OF_BASE ? &before : &after;
    if (term->of == AG_GATE_OF_GROWTH) {
        *ret_range = put_growth(words, &before, &after);
    } else {
        *ret_range = (struct ag_gate_range){one->low, one->high};
        put_quantity(words, one);
    }
    return r;
}

/* ---- the source line that a result names ----
 *
 * For a quantity of the trace, the line is the blamed line (model/answers/blamed_lines.h) that has
 * most of the quantity. If the term names a function, the line is in the stack that contains the
 * function and has most of the quantity: the line of the first frame, from this function outward,
 * in the program's own code, because the reader of the result can change only this code. If there
 * is no such frame, it is the line of the first frame with a file. For a growth, it is the line
 * whose quantity grew most; but if no line grew, or this line has no file or belongs to the system
 * (the C library, a runtime or a language's library), or the term asks for "total" values, the line
 * is chosen as for a quantity of the trace. For a function counter, it is the line of the function
 * that has most of the quantity, or, for a growth over all functions, of the one whose quantity
 * grew most. */

static int set_place(struct ag_gate_place *place, const char *function, const char *file,
                     uint32_t line) {
    place->function = function != NULL ? strdup(function) : NULL;
    place->file = file != NULL ? strdup(file) : NULL;
    place->line = line;
    const bool is_whole =
        (function == NULL || place->function != NULL) && (file == NULL || place->file != NULL);
    return is_whole ? 0 : -ENOMEM;
}

/* Returns the first frame in the program's own code, otherwise the first frame with a file,
 * otherwise the first frame; NULL if there are no frames. */
static const struct ag_frame *own_frame(struct ag_profile *profile, const uint32_t *frames,
                                        size_t n_frames) {
    const struct ag_frame *best = n_frames > 0 ? ag_profile_frame(profile, frames[0]) : NULL;
    for (size_t i = 0; i < n_frames; i++) {
        const struct ag_frame *frame = ag_profile_frame(profile, frames[i]);
        if (ag_frame_owner(profile, frame) == AG_OWNER_READER) {
            return frame;
        }
        best = best->file == NULL && frame->file != NULL ? frame : best;
    }
    return best;
}

/* The index in FRAMES of the first frame whose function has the name in TERM (term->site); N_FRAMES
 * if there is no such frame. 0 if TERM names no function. If TERM asks for "own" values, only frame
 * 0 is compared. */
static size_t find_site(const struct ag_gate_term *term, struct ag_profile *profile,
                        const uint32_t *frames, size_t n_frames) {
    const size_t n_looked_at = term->site != NULL && !term->is_total && n_frames > 0 ? 1 : n_frames;
    for (size_t i = 0; i < n_looked_at; i++) {
        if (term->site == NULL ||
            ag_gate_is_named(ag_profile_frame(profile, frames[i])->function, term->site)) {
            return i;
        }
    }
    return n_frames;
}

static int place_of_most(const struct ag_gate_term *term, struct ag_profile *profile,
                         struct ag_gate_place *place) {
    const struct ag_blamed_line *lines;
    size_t n, best = 0;
    const int r = ag_profile_blamed_lines(profile, &lines, &n);
    for (size_t i = 1; i < n && r == 0; i++) {
        if (ag_metric_of(&lines[i].metrics, term->metric) >
            ag_metric_of(&lines[best].metrics, term->metric)) {
            best = i;
        }
    }
    if (r < 0 || n == 0 || ag_metric_of(&lines[best].metrics, term->metric) == 0) {
        return r;
    }
    const struct ag_frame *frame = ag_profile_frame(profile, lines[best].frame);
    return set_place(place, frame->function, frame->file, frame->line);
}

static int place_in_stacks(const struct ag_gate_term *term, struct ag_profile *profile,
                           struct ag_gate_place *place) {
    if (term->site == NULL) {
        return place_of_most(term, profile, place);
    }
    const struct ag_stack_row *rows;
    const size_t n_rows = ag_profile_stacks(profile, &rows);
    const struct ag_frame *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < n_rows; i++) {
        const uint64_t value = ag_metric_of(&rows[i].metrics, term->metric);
        if (value <= most) {
            continue;
        }
        const uint32_t *frames;
        const size_t n_frames = ag_profile_stack_frames(profile, rows[i].stack, &frames);
        const size_t from = find_site(term, profile, frames, n_frames);
        if (from < n_frames) {
            most = value;
            best = own_frame(profile, frames + from, n_frames - from);
        }
    }
    return best != NULL ? set_place(place, best->function, best->file, best->line) : 0;
}

/* Finds the line whose quantity grew most; no place if no line grew, or if this line belongs to the
 * system. */
static int place_of_growth(const struct ag_gate_term *term, struct ag_profile *profile,
                           struct ag_profile *base, struct ag_gate_place *place) {
    struct ag_difference *difference;
    int r = ag_difference_new(base, profile, AG_BY_LINE, &difference);
    if (r < 0) {
        return r;
    }
    const struct ag_difference_row *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < difference->n_rows; i++) {
        const struct ag_difference_row *row = &difference->rows[i];
        const uint64_t before = ag_metric_of(&row->before, term->metric);
        const uint64_t after = ag_metric_of(&row->after, term->metric);
        if (after > before && after - before > most &&
            (term->site == NULL || ag_gate_is_named(row->frame.function, term->site))) {
            most = after - before;
            best = row;
        }
    }
    if (best != NULL && ag_frame_owner(profile, &best->frame) != AG_OWNER_SYSTEM) {
        r = set_place(place, best->frame.function, best->frame.file, best->frame.line);
    }
    (void)ag_difference_free(difference);
    return r;
}

/* The metric by which functions are compared. An acc_ metric includes what the called functions
 * did, so it is always largest for the outermost function; the own_ metric is compared in its
 * place. */
static enum ag_call_metric own_metric(enum ag_call_metric metric) {
    return metric >= AG_CALL_METRIC_ACC_WORDS
               ? metric - AG_CALL_METRIC_ACC_WORDS + AG_CALL_METRIC_OWN_WORDS
               : metric;
}

/* Finds, among the functions that TERM names, the function with the most of the quantity. */
static int place_of_named(const struct ag_gate_term *term, struct ag_profile *profile,
                          struct ag_gate_place *place) {
    const struct ag_functions *functions;
    const int r = ag_profile_functions(profile, &functions);
    if (r < 0) {
        return r;
    }
    bool *is_named = calloc(functions->n_rows + 1, sizeof *is_named);
    if (is_named == NULL) {
        return -ENOMEM;
    }
    (void)ag_functions_find_named(functions, profile, term->site, is_named);
    const struct ag_function_row *best = NULL;
    for (size_t i = 0; i < functions->n_rows; i++) {
        const struct ag_function_row *row = &functions->rows[i];
        if (is_named[i] &&
            (best == NULL || ag_call_metric_of(&row->counts, term->call_metric) >
                                 ag_call_metric_of(&best->counts, term->call_metric))) {
            best = row;
        }
    }
    free(is_named);
    const struct ag_frame *frame = best != NULL ? ag_profile_frame(profile, best->frame) : NULL;
    return frame != NULL ? set_place(place, frame->function, frame->file, frame->line) : 0;
}

/* Finds the function that has the most of the quantity, or whose quantity grew most. */
static int place_of_function(const struct ag_gate_term *term, struct ag_profile *profile,
                             struct ag_profile *base, struct ag_gate_place *place) {
    struct ag_call_difference *difference;
    const bool is_growth = term->of == AG_GATE_OF_GROWTH;
    int r = ag_call_difference_new(is_growth ? base : profile, profile, &difference);
    if (r < 0) {
        return r;
    }
    const enum ag_call_metric metric = own_metric(term->call_metric);
    const struct ag_frame *best = NULL;
    uint64_t most = 0;
    for (size_t i = 0; i < difference->n_rows; i++) {
        const struct ag_call_difference_row *row = &difference->rows[i];
        const uint64_t before = is_growth ? ag_call_metric_of(&row->before, metric) : 0;
        const uint64_t after = ag_call_metric_of(&row->after, metric);
        if (after > before && after - before > most) {
            most = after - before;
            best = row->frame;
        }
    }
    r = best != NULL ? set_place(place, best->function, best->file, best->line) : 0;
    (void)ag_call_difference_free(difference);
    return r;
}

/* Finds the place that has the largest part of the quantity. *ret_place must be zeroed by the
 * caller; it stays zeroed if there is no such place. 0 or a negative errno. */
static int find_place(const struct ag_gate_term *term, struct ag_profile *whole,
                      struct ag_profile *whole_base, struct ag_gate_place *ret_place) {
    struct ag_profile *profile, *base;
    int r = profile_of(term, whole, &profile);
    r = r < 0 ? r : profile_of(term, whole_base, &base);
    if (r < 0) {
        return r;
    }
    if (term->key == AG_GATE_FUNCTION) {
        return term->site != NULL ? place_of_named(term, profile, ret_place)
                                  : place_of_function(term, profile, base, ret_place);
    }
    r = term->of == AG_GATE_OF_GROWTH && !term->is_total
            ? place_of_growth(term, profile, base, ret_place)
            : 0;
    /* If no line grew, or the line that grew most has no file or belongs to the system, this trace
     * alone decides. */
    if (r == 0 && ret_place->file == NULL) {
        free(ret_place->function);
        free(ret_place->file);
        *ret_place = (struct ag_gate_place){.function = NULL};
        r = place_in_stacks(term, profile, ret_place);
    }
    return r;
}

/* ---- results ---- */

static struct ag_gate_result *add_result(struct ag_gate *gate, size_t expression,
                                         const char *trace) {
    const struct ag_gate_result result = {.expression = expression, .trace = strdup(trace)};
    if (result.trace == NULL || AG_ARRAY_ADD(gate->results, gate->n_results, result) < 0) {
        free(result.trace);
        return NULL;
    }
    return &gate->results[gate->n_results - 1];
}

static int compute(struct ag_gate_result *result, const struct ag_gate_expression *expression,
                   struct ag_profile *profile, struct ag_profile *base,
                   struct ag_gate_range *values, FILE *words) {
    const struct ag_gate_term *terms;
    const size_t n_terms = ag_gate_expression_terms(expression, &terms);
    for (size_t i = 0; i < n_terms; i++) {
        bool is_known;
        fputs(i > 0 ? ", " : "", words);
        const int r = find_value(&terms[i], profile, base, &values[i], &is_known, words);
        if (r == -ENODATA) {
            result->outcome = AG_GATE_FAILED;
            return 0;
        }
        if (r < 0) {
            return r;
        }
        if (!is_known && result->unknown_site == NULL) {
            result->unknown_site = strdup(terms[i].site);
            if (result->unknown_site == NULL) {
                return -ENOMEM;
            }
            result->is_counted = terms[i].key == AG_GATE_FUNCTION;
        }
    }
    enum ag_gate_answer answer = AG_GATE_NO;
    char message[MESSAGE_BYTES] = "";
    const int r = ag_gate_expression_compute(expression, values, &answer, message);
    if (r == -EDOM) {
        result->outcome = AG_GATE_FAILED;
        fprintf(words, "; %s", message);
        return 0;
    }
    const bool holds = answer == AG_GATE_YES;
    result->outcome = holds ? AG_GATE_HOLDS : AG_GATE_PASSED;
    result->is_unsure = answer == AG_GATE_UNSURE;
    for (size_t i = 0; r == 0 && holds && i < n_terms; i++) {
        const bool has_place =
            terms[i].metric != AG_METRIC_DEFAULT || terms[i].key == AG_GATE_FUNCTION;
        if (has_place && terms[i].of != AG_GATE_OF_BASE) {
            return find_place(&terms[i], profile, base, &result->place);
        }
    }
    return r;
}

static int check_one(struct ag_gate *gate, size_t at, struct ag_profile *profile,
                     struct ag_profile *base) {
    const struct ag_gate_term *terms;
    const struct ag_gate_expression *expression = gate->expressions[at];
    const size_t n_terms = ag_gate_expression_terms(expression, &terms);
    struct ag_gate_result *result = add_result(gate, at, ag_profile_identity(profile)->file);
    struct ag_gate_range *values = calloc(n_terms + 1, sizeof *values);
    size_t length;
    FILE *words = result != NULL ? open_memstream(&result->values, &length) : NULL;
    int r = values != NULL && words != NULL ? 0 : -ENOMEM;
    r = r < 0 ? r : compute(result, expression, profile, base, values, words);
    if (words != NULL && fclose(words) != 0) {
        r = -ENOMEM;
    }
    free(values);
    return r;
}

int ag_gate_check(struct ag_gate *gate, struct ag_profile *profile, struct ag_profile *base) {
    int r = 0;
    for (size_t i = 0; i < gate->n_expressions && r == 0; i++) {
        r = check_one(gate, i, profile, base);
    }
    return r;
}

int ag_gate_add_unread(struct ag_gate *gate, const char *trace) {
    for (size_t i = 0; i < gate->n_expressions; i++) {
        struct ag_gate_result *result = add_result(gate, i, trace);
        if (result == NULL) {
            return -ENOMEM;
        }
        result->outcome = AG_GATE_FAILED;
        result->values = strdup("the trace could not be read");
    }
    return 0;
}

/* ---- gates ---- */

static int add_expression(struct ag_gate *gate, const char *text, bool has_base, bool *needs_base,
                          char message[MESSAGE_BYTES]) {
    char why[MESSAGE_BYTES] = "";
    struct ag_gate_expression **expression = &gate->expressions[gate->n_expressions];
    const int r = ag_gate_expression_new(text, expression, why);
    if (r < 0) {
        snprintf(message, MESSAGE_BYTES, "--fail-if: %.1000s", why);
        return r;
    }
    gate->n_expressions++;
    const struct ag_gate_term *terms;
    const size_t n_terms = ag_gate_expression_terms(*expression, &terms);
    for (size_t i = 0; i < n_terms; i++) {
        if (terms[i].of == AG_GATE_OF_TRACE) {
            continue;
        }
        *needs_base = true;
        if (!has_base) {
            snprintf(message, MESSAGE_BYTES,
                     "--fail-if: %.*s compares with another trace; name it with --base=TRACE",
                     terms[i].text_len < 200 ? (int)terms[i].text_len : 200, terms[i].text);
            return -EINVAL;
        }
    }
    return 0;
}

int ag_gate_new(const char *const *expressions, size_t n_expressions, bool has_base,
                struct ag_gate **ret_gate, char ret_message[1024]) {
    struct ag_gate *gate = calloc(1, sizeof *gate);
    bool needs_base = false;
    int r = gate != NULL ? 0 : -ENOMEM;
    if (r == 0) {
        gate->expressions = calloc(n_expressions + 1, sizeof(*gate->expressions));
        r = gate->expressions != NULL ? 0 : -ENOMEM;
    }
    for (size_t i = 0; i < n_expressions && r == 0; i++) {
        r = add_expression(gate, expressions[i], has_base, &needs_base, ret_message);
    }
    if (r == 0 && has_base && !needs_base) {
        snprintf(ret_message, MESSAGE_BYTES,
                 "--base: no --fail-if names base.KEY or growth.KEY, so nothing is compared");
        r = -EINVAL;
    }
    if (r < 0) {
        if (r == -ENOMEM) {
            snprintf(ret_message, MESSAGE_BYTES, "%s", strerror(ENOMEM));
        }
        (void)ag_gate_free(gate);
        return r;
    }
    *ret_gate = gate;
    return 0;
}

struct ag_gate *ag_gate_free(struct ag_gate *gate) {
    if (gate == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < gate->n_results; i++) {
        struct ag_gate_result *result = &gate->results[i];
        free(result->trace);
        free(result->values);
        free(result->unknown_site);
        free(result->place.function);
        free(result->place.file);
    }
    for (size_t i = 0; i < gate->n_expressions; i++) {
        (void)ag_gate_expression_free(gate->expressions[i]);
    }
    free(gate->expressions);
    free(gate->results);
    free(gate);
    return NULL;
}

size_t ag_gate_results(const struct ag_gate *gate, const struct ag_gate_result **ret_results) {
    *ret_results = gate->results;
    return gate->n_results;
}

const char *ag_gate_text(const struct ag_gate *gate, size_t expression) {
    return ag_gate_expression_text(gate->expressions[expression]);
}

size_t ag_gate_count(const struct ag_gate *gate) {
    return gate->n_expressions;
}
