/* view.h: the input of a view (a kind of report, selected by --view), and the functions that
 * several views use. Each view has its own file, NAME_view.c, except that stacks_view.c has leaks,
 * peak and temporary. */
#ifndef AG_VIEW_H
#define AG_VIEW_H

#include "report/page.h"
#include "report/quantity.h"
#include "report/ranking.h"
#include "report/report.h"
#include "report/sparkline.h"
#include "report/suppression.h"
#include "text/json_writer.h"

struct ag_view {
    struct ag_profile *profile;
    const struct ag_report_options *options;
    enum ag_metric sort;                  /* the metric of --sort, or the view's default */
    struct ag_suppressions *suppressions; /* NULL: none */
    uint64_t limit;                       /* UINT64_MAX: none */
    struct ag_page *page;                 /* for text */
    struct ag_json *json;                 /* for JSON: an object is open, and the view adds its
                                           * keys */
    char *message;                        /* 512 bytes, for the reason why a view failed */
    bool is_of_mappings;                  /* the blocks of the profile are mappings */
    const struct ag_type_row *type;       /* the type that --type names; NULL: no --type */
    struct ag_processes_shown *processes; /* only of a view that shows all traces together: the
                                           * processes of these traces; `profile` is NULL */
};
/* 0 or negative errno. */
typedef int ag_view_write(struct ag_view *view);

ag_view_write ag_summary_view_text, ag_summary_view_json;
ag_view_write ag_sites_view_text, ag_sites_view_json;
ag_view_write ag_findings_text, ag_findings_json; /* the end of the summary */
/* Writes the facts of the summary, which precede its table: sums, runtimes, collections. */
ag_view_write ag_summary_facts_text;
/* Sets *RET_HAS to whether most of the words that functions allocate, by the function counters, are
 * in no block of the trace (summary_view.c). If so, the summary shows the table of functions
 * instead of the table of lines. 0 or a negative errno. */
int ag_summary_has_words_apart(struct ag_view *view, bool *ret_has);
struct ag_finding;
enum { AG_FINDING_WORDS_BYTES = 512 };
struct ag_finding_words {
    const char *kind;                     /* "growing_leak" */
    const struct ag_frame *frame;         /* NULL: no line is known */
    char words[AG_FINDING_WORDS_BYTES];   /* the reason */
    char options[AG_FINDING_WORDS_BYTES]; /* options of `report` that show more */
};
/* Fills *RET_WORDS for a finding of PROFILE. */
void ag_finding_describe(struct ag_profile *profile, const struct ag_finding *finding,
                         struct ag_finding_words *ret_words);
/* Writes the keys with the numbers of a finding. */
void ag_finding_numbers_json(struct ag_json *json, const struct ag_finding *finding);
/* Writes the keys of a finding as in `report --json`. The caller opens and closes the object. */
void ag_finding_json(struct ag_json *json, struct ag_profile *profile,
                     const struct ag_finding *finding);
enum ag_sites_shown {
    AG_SITES_ALL,
    AG_SITES_WITH_OWN, /* without functions that allocate nothing themselves */
    AG_SITES_BLAMED,   /* blamed lines: lines that the reader can change, see
                        * model/answers/blamed_lines.h */
};
/* Writes the table of sites in the order of ag_sites_rank. 0 or a negative errno. */
int ag_sites_write_text(struct ag_view *view, enum ag_sites_shown shown);
struct ag_sites_ranked { /* the rows of a table of sites (functions, lines, threads, types ...), and
                          * their order */
    const struct ag_site_row *rows;
    size_t n_rows;
    struct ag_site_row *of_blamed_lines; /* owns the rows if they are blamed lines; otherwise
                                          * NULL */
    struct ag_ranking ranking;
};
/* Selects rows as SHOWN, --by and --min-count say, and sorts them by --sort. Returns 0, and then
 * the caller calls ag_sites_ranked_end; or a negative errno. */
int ag_sites_rank(struct ag_view *view, enum ag_sites_shown shown,
                  struct ag_sites_ranked *ret_sites);
void ag_sites_ranked_end(struct ag_sites_ranked *sites);
/* Writes the keys of a row: its frame, and with --by=thread, heap, type or label also its name,
 * and with --by=os_process the pid and the trace. */
void ag_sites_key_json(struct ag_view *view, const struct ag_site_row *row);
/* Writes the name, the pid and the trace of the process NUMBER (for ag_profile_process). */
void ag_process_key_json(struct ag_json *json, struct ag_profile *profile, uint32_t number);
ag_view_write ag_tree_view_text, ag_tree_view_json;
ag_view_write ag_stacks_view_text, ag_stacks_view_json; /* --view=peak and --view=temporary */
ag_view_write ag_leaks_view_text, ag_leaks_view_json;
/* Called for each stack with all of its frames. False leaves the stack out. */
typedef bool ag_stack_is_wanted(void *context, const struct ag_stack_row *row,
                                const uint32_t *frames, size_t n_frames);
/* Write a list of stacks like ag_stacks_view_text and ag_stacks_view_json, but only of the stacks
 * that IS_WANTED accepts (NULL: all). With --by=os_process, write a table of processes with the
 * sums of these stacks. */
int ag_stacks_write_text(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context);
int ag_stacks_write_json(struct ag_view *view, ag_stack_is_wanted *is_wanted, void *context);
ag_view_write ag_types_view_text, ag_types_view_json;
/* Finds the type that --type names, and stores it in view->type. Returns 0; -EINVAL with a message
 * if the option names no type of this trace, or several types. */
int ag_types_find(struct ag_view *view);
/* True if the stack's type is that of --type, or --type was not given. */
bool ag_types_is_named(const struct ag_view *view, uint32_t stack);
ag_view_write ag_blocks_view_text, ag_blocks_view_json;
ag_view_write ag_lifetimes_view_text, ag_lifetimes_view_json;
ag_view_write ag_timeline_view_text, ag_timeline_view_json;
ag_view_write ag_threads_view_text, ag_threads_view_json;
ag_view_write ag_heaps_view_text, ag_heaps_view_json;
ag_view_write ag_mappings_view_text, ag_mappings_view_json;
ag_view_write ag_rss_view_text, ag_rss_view_json;
/* The view process_tree shows the processes of all traces in one tree: each trace is added to
 * view->processes, and the view is written after the last one. */
ag_view_write ag_process_tree_view_text, ag_process_tree_view_json;
struct ag_processes_shown *ag_processes_shown_new(void); /* NULL: out of memory */
struct ag_processes_shown *ag_processes_shown_free(struct ag_processes_shown *shown);
/* Adds a trace. 0 or a negative errno. */
int ag_processes_shown_add(struct ag_processes_shown *shown, struct ag_profile *profile);
/* Writes the keys of PARTS (resident memory divided into classes) except the classes: the time of
 * the reading, the resident bytes, and the sizes that belong to no class, such as page tables. */
struct ag_resident_parts;
void ag_resident_numbers_json(struct ag_json *json, const struct ag_resident_parts *parts);
/* Write the summary's line about memory that the program mapped itself, if this memory explains why
 * the process had much more resident memory than blocks. */
ag_view_write ag_mappings_summary_text, ag_mappings_summary_json;
/* Writes "142 MiB at the peak, 18.0 MiB at the end; 3.10 GiB in 40 mappings in all"; if known, also
 * how much more was mapped at the end than half-way, and how much was resident. */
void ag_mappings_amounts_text(const struct ag_view *view, size_t indent,
                              const struct ag_metrics *metrics);
/* Writes the metrics of mappings under the same keys as those of blocks, and in addition
 * n_mappings, mapped_bytes, growth_bytes, resident_bytes and untouched_bytes. */
void ag_mappings_numbers_json(const struct ag_view *view, const struct ag_metrics *metrics);
ag_view_write ag_gc_view_text, ag_gc_view_json;
/* Write what the summary says about garbage collection: a line for each runtime in text, an entry
 * of the key "gc" for each runtime in JSON. */
ag_view_write ag_gc_summary_text, ag_gc_summary_json;
ag_view_write ag_functions_view_text, ag_functions_view_json;
/* Returns 0 if --callers names a function that the trace has calls of; otherwise -EINVAL with a
 * message, or another negative errno. */
int ag_functions_check(struct ag_view *view);
struct ag_functions;
/* Writes --view=functions for a trace of CPU samples, which has no counted calls. */
int ag_cpu_functions_text(struct ag_view *view, const struct ag_functions *functions);
/* Write how a process was observed from outside (samples, cost); the text also lists the functions
 * with most CPU time. Write nothing for other traces. */
ag_view_write ag_cpu_summary_text, ag_cpu_summary_json;
/* Write --view=functions with --tree. */
int ag_call_tree_text(struct ag_view *view, const struct ag_functions *functions);
int ag_call_tree_json(struct ag_view *view, const struct ag_functions *functions);

/* Return the page that the options describe, and the largest number of rows that they let a view
 * show. */
struct ag_page ag_report_page(FILE *out, const struct ag_report_options *options);
uint64_t ag_report_limit(const struct ag_report_options *options);

/* The name of a key that rows are grouped by, such as "thread".
 * ag_report_no_name is the text for rows whose key has no value. */
const char *ag_report_key_name(enum ag_site_key by);
const char *ag_report_no_name(enum ag_site_key by);

/* Writes the heading of a section: which process was recorded, and how. FILTER: the filters of the
 * report in words, or NULL. IS_FOLDED: frames of the stacks are left out (--fold). */
void ag_heading_text(struct ag_page *page, const struct ag_profile *profile, const char *filter,
                     bool is_folded);
/* Writes that frames are left out (--fold). */
void ag_heading_folded(struct ag_page *page);
/* Writes the arguments of the process, separated by blanks, or its executable if there are no
 * arguments, to the buffer TO. */
void ag_heading_command(char *to, size_t capacity, const struct ag_profile_identity *identity);
/* Fills the buffer with how the recording of the process ended ("exit 1", "SIGKILL", "cut"), and
 * returns its text. */
struct ag_end_text {
    char text[32];
};
const char *ag_heading_end(struct ag_end_text *buffer, const struct ag_profile_identity *identity);
/* Writes the summary's paragraph on a kill by the kernel for lack of memory (kill_text.c); nothing
 * if the kernel did not kill the process. */
void ag_kill_text(struct ag_view *view);
/* Writes the object KEY about such a kill; nothing if the kernel did not kill the process. */
void ag_kill_json(struct ag_json *json, const char *key, const struct ag_profile_kill *kill);
/* Writes the keys "cgroup", if it is known, and "container", if one is recognized by the cgroup. */
void ag_heading_cgroup_json(struct ag_json *json, const struct ag_profile_identity *identity);
void ag_heading_trace_json(struct ag_json *json, const char *key, const struct ag_profile *profile);
void ag_heading_json(struct ag_json *json, const struct ag_profile *profile);
/* Writes what is missing from the trace. Call this function after the view, because the view may be
 * the first to read the events and to find damage. (In text, what is missing comes first: the
 * caller keeps the text of the view in memory until then.) */
void ag_heading_missing(struct ag_page *page, const struct ag_profile *profile);
void ag_heading_missing_json(struct ag_json *json, const char *key,
                             const struct ag_profile *profile);
/* Writes the object of ag_heading_missing_json from the numbers in the arguments. */
void ag_missing_json(struct ag_json *json, const char *key,
                     const struct ag_profile_identity *identity, uint64_t lost_events,
                     uint64_t lost_stacks, uint64_t recording_ns);
void ag_heading_damage_json(struct ag_json *json, const char *key,
                            const struct ag_profile *profile);

/* For views that count the whole process: if one of --focus, --ignore and --runtime was
 * given, prints that it does not apply. */
void ag_heading_whole_process(struct ag_view *view);

/* For views of counters of the whole recording: if --from or --to was given, prints that it does
 * not apply. */
void ag_heading_whole_recording(struct ag_view *view);

const char *ag_metric_words(enum ag_metric metric); /* "allocated": for the head of a column */

/* Metrics and frames as keys of an open JSON object. */
void ag_json_metrics(const struct ag_view *view, const struct ag_metrics *metrics);
/* Writes one metric as KEY, and for a sampled trace its 95 % interval as KEY_ci95. */
void ag_json_metric(const struct ag_view *view, const char *key, const struct ag_metrics *metrics,
                    enum ag_metric metric);
void ag_json_frame(struct ag_json *json,
                   const struct ag_frame *frame); /* function, file, line, image, runtime */
void ag_json_function(struct ag_json *json, const struct ag_frame *frame); /* without the image */

struct ag_lifetime;
/* Writes the object "lifetime_ns": min, mean, percentiles and max; all are null if no block was
 * freed. */
void ag_json_lifetime(struct ag_json *json, const struct ag_lifetime *lifetime, bool has_p90);
void ag_json_frames(struct ag_json *json, const char *key, const struct ag_profile *profile,
                    const uint32_t *frames, size_t n_frames);

/* Formats "±12 %": how far the true number may differ, in 95 of 100 recordings; "to 2.1 KiB" if the
 * estimate is 0; "" if the number is exact. */
const char *ag_quantity_spread(struct ag_quantity *buffer, const struct ag_metrics *metrics,
                               enum ag_metric metric);

/* Adds the last two cells of a row that is grouped by BY: LABEL and an empty cell; or, if BY is the
 * image, the image of FRAME and an empty cell; or the function of FRAME and its location. LABEL may
 * be NULL. FRAME is not read if ag_site_key_is_named(BY) (model/profile.h) is true. */
struct ag_table;
void ag_table_key_cells(struct ag_table *table, enum ag_site_key by, const char *label,
                        const struct ag_frame *frame);

/* A frame as text for people. Both functions fill the buffer and return its text: ag_frame_function
 * the function, after "[runtime] " if the frame is managed (of a virtual machine); ag_frame_where
 * "jv.c:412", or the image if no file is known. */
struct ag_frame_text {
    char text[1024];
};
const char *ag_frame_function(struct ag_frame_text *buffer, const struct ag_frame *frame);
const char *ag_frame_where(struct ag_frame_text *buffer, const struct ag_frame *frame);

/* The time that the report covers: the window of --from and --to, or the whole recording. */
struct ag_span ag_view_span(const struct ag_view *view);

#endif
