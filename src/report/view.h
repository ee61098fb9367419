/* view.h: what a view gets to work with, and the parts that views have in common. One file per
 * view: VIEW_view.c. */
#ifndef AG_VIEW_H
#define AG_VIEW_H

#include "report/page.h"
#include "report/quantity.h"
#include "report/report.h"
#include "report/sparkline.h"
#include "report/stack_groups.h"
#include "report/suppression.h"
#include "text/json_writer.h"

struct ag_view {
    struct ag_profile *profile;
    const struct ag_report_options *options;
    enum ag_metric sort;                  /* the view's default, or what was asked for */
    struct ag_suppressions *suppressions; /* NULL: none */
    uint64_t limit;                       /* UINT64_MAX: none */
    struct ag_page *page;                 /* of the text */
    struct ag_json *json;                 /* the view adds its keys to an open object */
    char *message;                        /* 512 bytes: why a view failed, in words */
};
/* 0 or negative errno. */
typedef int ag_view_write(struct ag_view *view);

ag_view_write ag_summary_view_text, ag_summary_view_json;
ag_view_write ag_sites_view_text, ag_sites_view_json;
ag_view_write ag_findings_text, ag_findings_json; /* the end of the summary */
enum ag_sites_shown {
    AG_SITES_ALL,
    AG_SITES_WITH_OWN, /* not those that only call */
    AG_SITES_SPOTS,    /* the lines that the reader can change, whatever allocates for them */
};
int ag_sites_write_text(struct ag_view *view, enum ag_sites_shown shown);
ag_view_write ag_tree_view_text, ag_tree_view_json;
ag_view_write ag_stacks_view_text,
    ag_stacks_view_json; /* leaks, peak and temporary: by what they sort */
ag_view_write ag_leaks_view_text, ag_leaks_view_json;
/* The same for the stacks that IS_WANTED (NULL: all). */
int ag_stacks_write_text(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context);
int ag_stacks_write_json(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context);
ag_view_write ag_types_view_text, ag_types_view_json;
/* Does --type name a type of this trace? 0, or -EINVAL with a message. */
int ag_types_check(struct ag_view *view);
bool ag_types_is_named(const struct ag_view *view, uint32_t stack); /* by --type; no --type: true */
ag_view_write ag_blocks_view_text, ag_blocks_view_json;
ag_view_write ag_lifetimes_view_text, ag_lifetimes_view_json;
ag_view_write ag_timeline_view_text, ag_timeline_view_json;
ag_view_write ag_threads_view_text, ag_threads_view_json;
ag_view_write ag_heaps_view_text, ag_heaps_view_json;
ag_view_write ag_gc_view_text, ag_gc_view_json;
ag_view_write ag_gc_summary_text, ag_gc_summary_json; /* of each runtime: a line, or the key "gc" */
ag_view_write ag_functions_view_text, ag_functions_view_json;
/* Does --callers name a function of this trace? 0, or -EINVAL with a message. */
int ag_functions_check(struct ag_view *view);
struct ag_functions;
/* The table of the view functions where samples, not calls, were counted. */
int ag_cpu_functions_text(struct ag_view *view, const struct ag_functions *functions);
ag_view_write ag_cpu_summary_text, ag_cpu_summary_json; /* nothing, unless seen from outside */
/* functions --tree, where there are function counters. */
int ag_call_tree_text(struct ag_view *view, const struct ag_functions *functions);
int ag_call_tree_json(struct ag_view *view, const struct ag_functions *functions);

/* What rows are by: "thread", "heap", "type" or "label"; and what stands for a row without one. */
const char *ag_report_key_name(enum ag_site_key by);
const char *ag_report_no_name(enum ag_site_key by);

/* The heading of a section: what is missing first, then which process this was. */
void ag_heading_text(struct ag_page *page, const struct ag_profile *profile, const char *filter);
void ag_heading_trace_json(struct ag_json *json, const char *key, const struct ag_profile *profile);
void ag_heading_json(struct ag_json *json, const struct ag_profile *profile);
/* What of the trace is missing. Behind the view in time, since its own reading of the events may be
 * the first to find it; in text it stands before all else. */
void ag_heading_missing(struct ag_page *page, const struct ag_profile *profile);
void ag_heading_damage_json(struct ag_json *json, const char *key,
                            const struct ag_profile *profile);
uint64_t ag_heading_lost_events(const struct ag_profile *profile); /* of all causes */

/* For views that count the process, not stacks: says that --focus and its like do not narrow them.
 */
void ag_heading_whole_process(struct ag_view *view);

/* For views of counters that only the whole recording has: says that a time window does not narrow
 * them. */
void ag_heading_whole_recording(struct ag_view *view);

const char *ag_metric_words(enum ag_metric metric); /* "allocated": for the head of a column */

/* Metrics and frames as keys of an open JSON object. */
void ag_json_metrics(const struct ag_view *view, const struct ag_metrics *metrics);
/* One of them as KEY; of a sampled trace with its 95 % interval as KEY_ci95. */
void ag_json_metric(const struct ag_view *view, const char *key, const struct ag_metrics *metrics,
                    enum ag_metric metric);
void ag_json_frame(struct ag_json *json,
                   const struct ag_frame *frame); /* function, file, line, image, runtime */

struct ag_lifetime;
/* "lifetime_ns": min, mean, the percentiles asked for and max; null where no block ended. */
void ag_json_lifetime(struct ag_json *json, const struct ag_lifetime *lifetime, bool has_p90);
void ag_json_frames(struct ag_json *json, const char *key, const struct ag_profile *profile,
                    const uint32_t *frames, size_t n_frames);

/* "± 12 %": how far the truth may lie, in 95 of 100 recordings; "" where the number is exact. */
const char *ag_quantity_spread(struct ag_quantity *buffer, const struct ag_metrics *metrics,
                               enum ag_metric metric);

/* A frame for people. Both fill the buffer and return it. */
struct ag_frame_text {
    char text[1024];
};
const char *ag_frame_function(struct ag_frame_text *buffer,
                              const struct ag_frame *frame); /* [runtime] before managed ones */
const char *ag_frame_where(struct ag_frame_text *buffer,
                           const struct ag_frame *frame); /* "jv.c:412", or the image */

struct ag_span ag_view_span(const struct ag_view *view); /* of time: its window, or all */
struct ag_metrics ag_view_total(
    const struct ag_view *view); /* of all stacks that pass the filters */

#endif
