/* gate.h: `report --fail-if`: conditions on traces, for the CI job that decides whether a change is
 * accepted (docs/reference/man/allogram-report.1, GATES). A gate holds the expressions and their
 * results.
 *
 *     ag_gate_new(expressions, n, has_base, &gate, message);
 *     ag_gate_check(gate, profile, base);     // once for each trace
 *     ag_gate_write_junit(gate, out);
 *     gate = ag_gate_free(gate); */
#ifndef AG_GATE_H
#define AG_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/profile.h"
#include "report/gate_expression.h"

/* A place in the source code that explains the result. */
struct ag_gate_place {
    char *function, *file; /* NULL: unknown */
    uint32_t line;         /* 0: unknown */
};
/* The result of one expression for one trace. */
struct ag_gate_result {
    size_t expression; /* the index of the expression, from 0 */
    char *trace;       /* the path of the trace */
    /* the condition is false (passed), is true (holds), or could not be computed (failed) */
    enum ag_gate_outcome { AG_GATE_PASSED, AG_GATE_HOLDS, AG_GATE_FAILED } outcome;
    bool is_unsure; /* set with AG_GATE_PASSED if samples cannot decide the condition */
    char *values;   /* "peak_bytes = 4096, base.peak_bytes = 2048"; AG_GATE_FAILED: the reason */
    char *unknown_site; /* the first function in the expression, sites["NAME"] or functions["NAME"],
                         * that the trace lacks; its values count as 0. NULL: none */
    bool is_counted;    /* unknown_site is from functions["NAME"] */
    struct ag_gate_place place; /* set if the outcome is AG_GATE_HOLDS */
};

struct ag_gate;
/* Returns 0, -ENOMEM, or -EINVAL with a message. -EINVAL: an expression is wrong; an expression
 * needs a base trace (a trace to compare with) but HAS_BASE is false; or HAS_BASE is true but no
 * expression uses the base trace. The expressions have to outlive the gate. */
int ag_gate_new(const char *const *expressions, size_t n_expressions, bool has_base,
                struct ag_gate **ret_gate, char ret_message[1024]);
struct ag_gate *ag_gate_free(struct ag_gate *gate);
/* Adds a result for each expression. BASE is NULL if ag_gate_new was called without HAS_BASE. 0 or
 * a negative errno; an expression that cannot be computed gets a result, too. */
int ag_gate_check(struct ag_gate *gate, struct ag_profile *profile, struct ag_profile *base);
/* Adds the result AG_GATE_FAILED for each expression, because TRACE could not be read. 0 or
 * -ENOMEM. */
int ag_gate_add_unread(struct ag_gate *gate, const char *trace);
size_t ag_gate_results(const struct ag_gate *gate, const struct ag_gate_result **ret_results);
/* The text of the expression with this index, and the number of expressions. */
const char *ag_gate_text(const struct ag_gate *gate, size_t expression);
size_t ag_gate_count(const struct ag_gate *gate);

/* Whether FUNCTION is NAME, or NAME followed by parameters in parentheses. */
bool ag_gate_is_named(const char *function, const char *name);

void ag_gate_write_junit(const struct ag_gate *gate, FILE *out);
/* VERSION is that of allogram. Files below the absolute path ROOT are written relative to ROOT. */
void ag_gate_write_sarif(const struct ag_gate *gate, FILE *out, const char *version,
                         const char *root);

#endif
