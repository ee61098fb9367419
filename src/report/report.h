/* report.h: the views of a profile, as text for a person or as JSON for a script
 * (docs/reference/report-schema.md).
 *
 *     ag_report_start(stdout, &options, n_traces, &report, message);
 *     ag_report_add(report, profile, message);   // once for each trace
 *     report = ag_report_finish(report);
 *
 * Several traces become one section each, or {"schema", "reports": [...]}. Nothing is printed but
 * to the stream. */
#ifndef AG_REPORT_H
#define AG_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/metric.h"
#include "model/profile.h"

#define AG_REPORT_USUAL_LIMIT UINT64_MAX /* 20 in text, none in JSON */

struct ag_report_options {
    size_t size;
    const char *view; /* NULL: summary */
    bool is_json;
    enum ag_metric sort;
    enum ag_call_metric call_sort; /* functions: instead of sort */
    uint64_t limit;                /* rows, or children of a tree node; 0: no limit */
    enum ag_site_key by;
    bool is_bottom_up;
    bool is_tree;        /* functions: by call path */
    const char *callers; /* functions: who called this one; NULL: the table of all */
    bool has_blame;      /* gc: who caused the collections */
    uint64_t frames;     /* kept of a stack, or levels of a tree; 0: all */
    uint64_t min_count;  /* rows with fewer blocks are left out */
    double
        min_share_percent; /* tree: nodes below it are left out; negative: 1 in text, 0 in JSON */
    const char *suppressions_path; /* leaks: a file as in suppression.h; NULL: none */
    const char
        *filter;     /* what the profile was narrowed to, in words, for the reader; NULL: nothing */
    bool has_window; /* by --from, --to or --at */
    bool has_stack_filter; /* by --focus, --ignore or --runtime: some views cannot obey that, and
                              say so */
    const char *type;      /* types, blocks: only blocks of this type; NULL: all */
    unsigned states;       /* blocks: flags of enum ag_block_state; 0: all */
    bool has_all_findings; /* summary: those that take all events of a large trace, too */
    bool is_at_a_time;     /* peak: the profile ends at another moment, which is shown instead */
    /* text */
    unsigned columns; /* of the page; 0: 100 */
    bool has_colour;
};

/* Is VIEW one that can be shown? 0, or -EINVAL: the message says which there are. */
int ag_report_check_view(const char *view, char ret_message[512]);
bool ag_report_parse_by(const char *name, enum ag_site_key *ret_by);

struct ag_report;
/* 0 or negative errno: the view or the suppressions are no good, the message says why. */
int ag_report_start(FILE *out, const struct ag_report_options *options, size_t n_traces,
                    struct ag_report **ret_report, char ret_message[512]);
int ag_report_add(struct ag_report *report, struct ag_profile *profile, char ret_message[512]);
struct ag_report *ag_report_finish(struct ag_report *report);

/* What grew and what shrank from one profile to another: `allogram diff`. 0 or negative errno with
 * a message. */
int ag_report_difference(FILE *out, const struct ag_report_options *options,
                         struct ag_profile *before, struct ag_profile *after,
                         char ret_message[512]);

#endif
