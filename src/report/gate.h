/* gate.h: `report --fail-if`: conditions on traces, for a machine that decides whether a change may
 * go in (docs/reference/man/allogram-report.1, GATES).
 *
 *     ag_gate_new(expressions, n, has_base, &gate, message);
 *     ag_gate_check(gate, profile, base, message);     // once for each trace
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

/* Where in the sources to look. */
struct ag_gate_place {
    char *function, *file; /* NULL: unknown */
    uint32_t line;         /* 0: unknown */
};
/* One expression on one trace. */
struct ag_gate_result {
    size_t expression; /* which, from 0 */
    char *trace;       /* its path */
    enum ag_gate_outcome { AG_GATE_PASSED, AG_GATE_HOLDS, AG_GATE_FAILED } outcome;
    bool is_unsure; /* AG_GATE_PASSED: of samples, and it may hold or not */
    char *values;   /* "peak_bytes = 4096, base.peak_bytes = 2048"; AG_GATE_FAILED: why */
    char
        *unknown_site; /* the first named site that the trace has not, which counts as 0; or NULL */
    struct ag_gate_place place; /* of AG_GATE_HOLDS */
};

struct ag_gate;
/* 0; -EINVAL with a message: an expression is wrong, or its base. and growth. and HAS_BASE do not
 * go together; -ENOMEM. The expressions have to outlive the gate. */
int ag_gate_new(const char *const *expressions, size_t n_expressions, bool has_base,
                struct ag_gate **ret_gate, char ret_message[1024]);
struct ag_gate *ag_gate_free(struct ag_gate *gate);
/* BASE may be NULL where none was promised. 0 or -ENOMEM; what could not be computed is a result.
 */
int ag_gate_check(struct ag_gate *gate, struct ag_profile *profile, struct ag_profile *base);
/* A trace that could not be read: each expression has failed on it. 0 or -ENOMEM. */
int ag_gate_add_unread(struct ag_gate *gate, const char *trace);
size_t ag_gate_results(const struct ag_gate *gate, const struct ag_gate_result **ret_results);
const char *ag_gate_text(const struct ag_gate *gate, size_t expression);
size_t ag_gate_count(const struct ag_gate *gate);

/* Is FUNCTION the one that an expression calls NAME: of that name, or of it and parameters? */
bool ag_gate_is_named(const char *function, const char *name);
/* Finds the place with the largest part of the quantity; sets nothing if there is none. 0 or
 * -ENOMEM. */
int ag_gate_find_place(const struct ag_gate_term *term, struct ag_profile *profile,
                       struct ag_profile *base, struct ag_gate_place *ret_place);

void ag_gate_write_junit(const struct ag_gate *gate, FILE *out);
/* VERSION is the program's; a file below ROOT (absolute) is named from there. */
void ag_gate_write_sarif(const struct ag_gate *gate, FILE *out, const char *version,
                         const char *root);

#endif
