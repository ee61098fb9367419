/* report.h: writes the views of a profile, as text for people or as JSON for scripts
 * (docs/reference/report-schema.md).
 *
 *     ag_report_start(stdout, &options, n_traces, &report, message);
 *     ag_report_add(report, profile, message);   // once for each trace
 *     ag_report_complete(report, message);
 *     report = ag_report_finish(report);
 *
 * If there are several traces, each has its own section. In JSON the sections are the elements of
 * "reports" in {"schema", "reports": [...]}. The view process_tree is one section about all traces.
 * Output goes only to the given stream. */
#ifndef AG_REPORT_H
#define AG_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "model/metric.h"
#include "model/profile.h"

#define AG_REPORT_USUAL_LIMIT UINT64_MAX /* 20 rows in text, no limit in JSON */

struct ag_report_options {
    size_t size;      /* sizeof(struct ag_report_options) */
    const char *view; /* NULL: summary */
    bool is_json;
    enum ag_metric sort;
    enum ag_call_metric call_sort; /* --view=functions, and `diff`: replaces sort */
    uint64_t limit;                /* rows, or children of a tree node; 0: no limit */
    enum ag_site_key by;
    bool is_bottom_up;   /* --view=tree: from the allocating functions to their callers */
    bool is_tree;        /* --view=functions: by call path */
    const char *callers; /* --view=functions: lists the callers of this function; NULL: lists all
                          * functions */
    bool has_blame;      /* --view=gc: groups collections by the function that caused them */
    uint64_t frames;     /* how many frames of a stack, or levels of a tree, are shown; UINT64_MAX:
                          * all; 0, the default: all, but text shows only the first frames of each
                          * stack of a list */
    uint64_t min_count;  /* rows with fewer blocks (or calls) are left out */
    double
        min_share_percent; /* nodes of a tree with a smaller share are left out; a negative number
                            * means 1 % in text and 0 % in JSON */
    const char *suppressions_path; /* --view=leaks: a file with patterns of leaks that are left out
                                    * (suppression.h); NULL: none */
    /* --view=leaks: whether known blocks (model/answers/known_blocks.h) are left out */
    enum ag_report_known {
        AG_REPORT_KNOWN_NONE, /* they are listed like all other blocks */
        AG_REPORT_KNOWN_AUTO, /* they are left out, and one line has their sums */
        AG_REPORT_KNOWN_LIST, /* they are left out, and the entries are listed with their reasons */
    } known;
    bool has_known;        /* --known was given */
    const char *filter;    /* a description of the profile's filters for the heading; NULL: none */
    bool has_window;       /* --from or --to was given */
    bool has_stack_filter; /* --focus, --ignore or --runtime was given; views that cannot apply it
                            * print a note */
    const char *type;      /* --view=types or blocks: only blocks of this type; NULL: all */
    unsigned states;       /* --view=blocks: flags of enum ag_block_state (model/answers/blocks.h);
                            * 0: all */
    bool has_all_findings; /* --view=summary, and `explain`: also findings that need all events of a
                            * large trace */
    bool folds;            /* views of stacks leave out frames of wrappers and libraries:
                            * ag_profile_fold (model/answers/blamed_lines.h) */
    bool is_at_a_time;     /* --at was given: --view=peak shows what is in use at that time, instead
                            * of at the peak */
    /* only for text: */
    unsigned columns; /* width of the page; 0: AG_PAGE_USUAL_COLUMNS */
    bool has_colour;
};

/* Returns 0 if VIEW is the name of a view, otherwise -EINVAL with a message that names a similar
 * view, or all views. */
int ag_report_check_view(const char *view, char ret_message[512]);
bool ag_report_parse_by(const char *name, enum ag_site_key *ret_by);

struct ag_report;
/* 0, or a negative errno with a message: the view, an option or the suppressions file is
 * invalid. */
int ag_report_start(FILE *out, const struct ag_report_options *options, size_t n_traces,
                    struct ag_report **ret_report, char ret_message[512]);
int ag_report_add(struct ag_report *report, struct ag_profile *profile, char ret_message[512]);
/* Writes the view if it is one of all traces together; otherwise ag_report_add has written it. 0 or
 * a negative errno with a message. */
int ag_report_complete(struct ag_report *report, char ret_message[512]);
struct ag_report *ag_report_finish(struct ag_report *report);

/* Calls WRITE with each line that says what is missing from the trace: damage of the file, the end
 * of the recording, lost events and stacks. All commands that show numbers of a trace print these
 * lines. Call the function after the numbers were read, because the first reader of the events may
 * find damage. */
enum { AG_MISSING_BYTES = 1024 };
typedef void ag_missing_write(void *context, const char *line);
void ag_missing_lines(const struct ag_profile *profile, ag_missing_write *write, void *context);
uint64_t ag_heading_lost_events(const struct ag_profile *profile); /* lost for any cause */

struct ag_mapped_memory_note;
enum { AG_MAPPED_WORDS_BYTES = 1024 };
/* Formats "mapped by the program itself: 142 MiB at the peak, most by grow (arena.c:12)". Returns
 * BUFFER. */
const char *ag_report_mapped_words(const struct ag_mapped_memory_note *note,
                                   char buffer[AG_MAPPED_WORDS_BYTES]);

/* Writes what grew and what shrank between two profiles: `allogram diff`. 0 or negative errno with
 * a message. */
int ag_report_difference(FILE *out, const struct ag_report_options *options,
                         struct ag_profile *before, struct ag_profile *after,
                         char ret_message[512]);

/* Says that the kernel killed the process for lack of memory, and why: "killed by the kernel: limit
 * 512 MiB of cgroup /a". Returns WORDS. */
enum { AG_KILL_WORDS_BYTES = 1024 };
struct ag_profile_kill;
const char *ag_kill_reason_words(const struct ag_profile_kill *kill,
                                 char words[AG_KILL_WORDS_BYTES]);
/* Says what memory the process and its cgroup had before the kill; "" if that is not known.
 * recording_ns: duration of the recording. Returns WORDS. */
const char *ag_kill_memory_words(const struct ag_profile_kill *kill, uint64_t recording_ns,
                                 char words[AG_KILL_WORDS_BYTES]);
/* Writes what a reader needs to know first, in at most AG_EXPLAIN_LINES lines of text or
 * AG_EXPLAIN_BYTES bytes of JSON: `allogram explain`. 0 or negative errno. */
enum { AG_EXPLAIN_LINES = 40, AG_EXPLAIN_BYTES = 5000 };
int ag_report_explain(FILE *out, const struct ag_report_options *options,
                      struct ag_profile *profile);

#endif
