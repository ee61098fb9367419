/* gate_expression.h: parses and computes an expression of --fail-if. The caller supplies the values
 * of the names: gate.c takes them from a trace, the tests from a table.
 *
 *     condition  = condition "or" condition | condition "and" condition | "not" condition
 *                | sum OPERATOR sum | "(" condition ")"          OPERATOR: > >= < <= == !=
 *     sum        = sum "+" sum | sum "-" sum | sum "*" sum | sum "/" sum | "-" sum
 *                | NUMBER [k | K | M | G | %] | ["base." | "growth."] quantity | "(" sum ")"
 *     quantity   = KEY | "sites" "[" STRING "]" "." ["own." | "total."] METRIC
 *                | COUNTER | "functions" "[" STRING "]" "." COUNTER
 *
 * STRING: the name of a function in double or single quotation marks. COUNTER: a metric of function
 * counters (the calls, words and times that a runtime counts for each function), such as own_words;
 * without a function it is the sum over all functions. "or", "and" and "not" may be written "||",
 * "&&" and "!".
 *
 * From the loosest to the tightest binding: "or"; "and"; "not"; comparisons, which cannot be
 * chained; "+" and "-"; "*" and "/"; the minus of a number. The suffix k is 1000; K, M and G are
 * powers of 1024 as everywhere in allogram; % is a hundredth. */
#ifndef AG_GATE_EXPRESSION_H
#define AG_GATE_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "model/metric.h"

/* Keys of the summary view, and the keys mapped_*, which are read from the profile of the mappings.
 * A result also names a source line: the one with the largest value of the metric in the third
 * argument. DEFAULT: the result names no line. The fourth argument is the key's value, which gate.c
 * reads from a summary or a profile. */
#define AG_GATE_KEY_TABLE(X)                                                           \
    X(ALLOCATED_BLOCKS, allocated_blocks, ALLOCATED_BLOCKS, summary->allocated_blocks) \
    X(ALLOCATED_BYTES, allocated_bytes, ALLOCATED_BYTES, summary->allocated_bytes)     \
    X(FREED_BLOCKS, freed_blocks, FREED_BLOCKS, summary->freed_blocks)                 \
    X(FREED_BYTES, freed_bytes, FREED_BYTES, summary->freed_bytes)                     \
    X(IN_USE_BLOCKS, in_use_blocks_at_end, IN_USE_BLOCKS, summary->in_use_blocks)      \
    X(IN_USE_BYTES, in_use_bytes_at_end, IN_USE_BYTES, summary->in_use_bytes)          \
    X(PEAK_BLOCKS, peak_blocks, PEAK_BLOCKS, summary->peak_blocks)                     \
    X(PEAK_BYTES, peak_bytes, PEAK_BYTES, summary->peak_bytes)                         \
    X(PEAK_TIME, peak_time_ns, PEAK_BYTES, summary->peak_time_ns)                      \
    X(TEMPORARY_BLOCKS, temporary_blocks, TEMPORARY_BLOCKS, summary->temporary_blocks) \
    X(GHOST_FREES, ghost_frees, DEFAULT, summary->ghost_frees)                         \
    X(INHERITED_FREES, inherited_frees, DEFAULT, summary->inherited_frees)             \
    X(UNIQUE_STACKS, unique_stacks, DEFAULT, summary->unique_stacks)                   \
    X(TRUNCATED_STACKS, truncated_stacks, DEFAULT, summary->truncated_stacks)          \
    X(INCOMPLETE_STACKS, incomplete_stacks, DEFAULT, summary->incomplete_stacks)       \
    X(ORDER_REPAIRS, order_repairs, DEFAULT, summary->order_repairs)                   \
    X(THREADS, threads, DEFAULT, summary->threads)                                     \
    X(RSS_PEAK, rss_peak_bytes, PEAK_BYTES, summary->rss_peak_bytes)                   \
    X(MAPPED, mapped_bytes, IN_USE_BYTES, summary->in_use_bytes)                       \
    X(MAPPED_PEAK, mapped_peak_bytes, PEAK_BYTES, summary->peak_bytes)                 \
    X(LOST_EVENTS, lost_events, DEFAULT, ag_heading_lost_events(profile))              \
    X(DURATION, duration_ns, DEFAULT, ag_profile_recording_ns(profile))

enum ag_gate_key {
    AG_GATE_SITE,     /* not a key: sites["NAME"].METRIC */
    AG_GATE_FUNCTION, /* not a key: COUNTER, with or without functions["NAME"] */
#define AG_GATE_KEY_MEMBER(NAME, name, METRIC, value) AG_GATE_##NAME,
    AG_GATE_KEY_TABLE(AG_GATE_KEY_MEMBER) AG_GATE_KEY_END,
#undef AG_GATE_KEY_MEMBER
};
enum ag_gate_of { AG_GATE_OF_TRACE, AG_GATE_OF_BASE, AG_GATE_OF_GROWTH };

/* A quantity that an expression uses. */
struct ag_gate_term {
    enum ag_gate_of of;
    enum ag_gate_key key;
    const char *site;      /* AG_GATE_SITE: the name of a function; AG_GATE_FUNCTION: the name of a
                            * function, or NULL for all functions; otherwise NULL */
    bool is_total;         /* AG_GATE_SITE: the value includes everything that the function calls */
    enum ag_metric metric; /* AG_GATE_SITE: the metric asked for; a key: see AG_GATE_KEY_TABLE */
    enum ag_call_metric call_metric; /* AG_GATE_FUNCTION: the metric asked for */
    const char *text; /* the term's part of the expression, text_len bytes, not terminated */
    size_t text_len;
};

struct ag_gate_expression;
/* 0, -ENOMEM, or -EINVAL with a line that says what is wrong at which place and what is
 * expected. */
int ag_gate_expression_new(const char *text, struct ag_gate_expression **ret_expression,
                           char ret_message[1024]);
struct ag_gate_expression *ag_gate_expression_free(struct ag_gate_expression *expression);
const char *ag_gate_expression_text(const struct ag_gate_expression *expression);
/* The quantities of the expression, in the order of the text. */
size_t ag_gate_expression_terms(const struct ag_gate_expression *expression,
                                const struct ag_gate_term **ret_terms);
/* The bounds of a quantity. low and high are equal if the value is known exactly. */
struct ag_gate_range {
    long double low, high;
};
enum ag_gate_answer {
    AG_GATE_NO,     /* false for all values between the bounds */
    AG_GATE_UNSURE, /* true for some of these values */
    AG_GATE_YES,    /* true for all of these values */
};
/* Computes whether the condition holds if its quantities are VALUES, in the order of
 * ag_gate_expression_terms. Returns 0, -ENOMEM with a message, or -EDOM with a message: a division
 * by 0, or a result that is not a number. Both sides of `and` and `or` are always computed. */
int ag_gate_expression_compute(const struct ag_gate_expression *expression,
                               const struct ag_gate_range *values, enum ag_gate_answer *ret_answer,
                               char ret_message[1024]);

#endif
