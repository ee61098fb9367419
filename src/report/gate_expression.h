/* gate_expression.h: the expression of --fail-if, read and computed. What its names stand for comes
 * from the caller: a trace in gate.c, a table in the tests.
 *
 *     condition  = condition "or" condition | condition "and" condition | "not" condition
 *                | sum OPERATOR sum | "(" condition ")"          OPERATOR: > >= < <= == !=
 *     sum        = sum "+" sum | sum "-" sum | sum "*" sum | sum "/" sum | "-" sum
 *                | NUMBER [k | K | M | G | %] | ["base." | "growth."] quantity | "(" sum ")"
 *     quantity   = KEY | "sites" "[" "NAME" "]" "." ["own." | "total."] METRIC
 *
 * "and" binds tighter than "or", "not" tighter than both, then comparisons (which do not chain), +
 * -,
 * * /, and the minus of a number. k is 1000; K, M and G are powers of 1024 as everywhere in
 * allogram; % is a hundredth. */
#ifndef AG_GATE_EXPRESSION_H
#define AG_GATE_EXPRESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "model/metric.h"

/* Keys of the summary view, and the metric whose largest stack tells where to look. */
#define AG_GATE_KEY_TABLE(X)                                \
    X(ALLOCATED_BLOCKS, allocated_blocks, ALLOCATED_BLOCKS) \
    X(ALLOCATED_BYTES, allocated_bytes, ALLOCATED_BYTES)    \
    X(FREED_BLOCKS, freed_blocks, FREED_BLOCKS)             \
    X(FREED_BYTES, freed_bytes, FREED_BYTES)                \
    X(IN_USE_BLOCKS, in_use_blocks_at_end, IN_USE_BLOCKS)   \
    X(IN_USE_BYTES, in_use_bytes_at_end, IN_USE_BYTES)      \
    X(PEAK_BLOCKS, peak_blocks, PEAK_BLOCKS)                \
    X(PEAK_BYTES, peak_bytes, PEAK_BYTES)                   \
    X(PEAK_TIME, peak_time_ns, PEAK_BYTES)                  \
    X(TEMPORARY_BLOCKS, temporary_blocks, TEMPORARY_BLOCKS) \
    X(GHOST_FREES, ghost_frees, DEFAULT)                    \
    X(UNIQUE_STACKS, unique_stacks, DEFAULT)                \
    X(TRUNCATED_STACKS, truncated_stacks, DEFAULT)          \
    X(INCOMPLETE_STACKS, incomplete_stacks, DEFAULT)        \
    X(ORDER_REPAIRS, order_repairs, DEFAULT)                \
    X(THREADS, threads, DEFAULT)                            \
    X(RSS_PEAK, rss_peak_bytes, PEAK_BYTES)                 \
    X(LOST_EVENTS, lost_events, DEFAULT)                    \
    X(DURATION, duration_ns, DEFAULT)

enum ag_gate_key {
    AG_GATE_SITE, /* no key: a site's metric */
#define AG_GATE_KEY_MEMBER(NAME, name, METRIC) AG_GATE_##NAME,
    AG_GATE_KEY_TABLE(AG_GATE_KEY_MEMBER) AG_GATE_KEY_END,
#undef AG_GATE_KEY_MEMBER
};
enum ag_gate_of { AG_GATE_OF_TRACE, AG_GATE_OF_BASE, AG_GATE_OF_GROWTH };

/* A quantity of a trace, as it stands in the expression. */
struct ag_gate_term {
    enum ag_gate_of of;
    enum ag_gate_key key;
    const char *site;      /* of AG_GATE_SITE: the function's name; else NULL */
    bool is_total;         /* of AG_GATE_SITE */
    enum ag_metric metric; /* of AG_GATE_SITE; of a key: whose largest stack to look at */
    const char *text;      /* of the expression, text_len bytes */
    size_t text_len;
};

struct ag_gate_expression;
/* 0; -EINVAL with one line that says what is wrong where, and what would be right; -ENOMEM. */
int ag_gate_expression_new(const char *text, struct ag_gate_expression **ret_expression,
                           char ret_message[1024]);
struct ag_gate_expression *ag_gate_expression_free(struct ag_gate_expression *expression);
const char *ag_gate_expression_text(const struct ag_gate_expression *expression);
/* The quantities it names, in their order. */
size_t ag_gate_expression_terms(const struct ag_gate_expression *expression,
                                const struct ag_gate_term **ret_terms);
/* Between what bounds a quantity lies: both are its value where that is known. */
struct ag_gate_range {
    long double low, high;
};
enum ag_gate_answer {
    AG_GATE_NO,     /* whatever the quantities are between their bounds */
    AG_GATE_UNSURE, /* some say yes, some no */
    AG_GATE_YES,    /* whatever they are */
};
/* Does it hold when its quantities are VALUES, in their order? 0, or -EDOM with a message: a
 * division by nothing. Both sides of `and` and `or` are computed. */
int ag_gate_expression_compute(const struct ag_gate_expression *expression,
                               const struct ag_gate_range *values, enum ag_gate_answer *ret_answer,
                               char ret_message[1024]);

#endif
