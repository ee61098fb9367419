/* views.c: the table of all views, and the report on several traces: for each trace a section with
 * a heading and the view, or one view of all traces together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/compiler.h"
#include "model/answers/blamed_lines.h"
#include "model/answers/known_blocks.h"
#include "report/view.h"
#include "text/nearest_name.h"

enum view_flags {
    GROUPS_ROWS = 1,   /* --by=line and other keys apply */
    SHOWS_BLOCKS = 2,  /* shows nothing of a trace without blocks, such as one that has only samples
                       * of a process observed from outside */
    FOLDS = 4,         /* shows stacks or functions of stacks, so --fold applies */
    OF_ALL_TRACES = 8, /* shows all traces together, after the last one was added */
    GROUPS_PROCESSES = 16, /* --by=os_process applies */
};
static const struct view_row {
    const char *name;
    ag_view_write *text, *json;
    enum ag_metric sort; /* the view's default metric */
    unsigned flags;
} views[] = {
    {"summary", ag_summary_view_text, ag_summary_view_json, AG_METRIC_ALLOCATED_BYTES, GROUPS_ROWS},
    {"sites", ag_sites_view_text, ag_sites_view_json, AG_METRIC_ALLOCATED_BYTES,
     GROUPS_ROWS | SHOWS_BLOCKS | FOLDS},
    {"tree", ag_tree_view_text, ag_tree_view_json, AG_METRIC_ALLOCATED_BYTES, SHOWS_BLOCKS | FOLDS},
    {"types", ag_types_view_text, ag_types_view_json, AG_METRIC_ALLOCATED_BYTES,
     SHOWS_BLOCKS | FOLDS | GROUPS_PROCESSES},
    {"blocks", ag_blocks_view_text, ag_blocks_view_json, AG_METRIC_ALLOCATED_BYTES,
     SHOWS_BLOCKS | FOLDS},
    {"leaks", ag_leaks_view_text, ag_leaks_view_json, AG_METRIC_IN_USE_BYTES,
     SHOWS_BLOCKS | FOLDS | GROUPS_PROCESSES},
    {"peak", ag_stacks_view_text, ag_stacks_view_json, AG_METRIC_PEAK_BYTES,
     SHOWS_BLOCKS | FOLDS | GROUPS_PROCESSES},
    {"temporary", ag_stacks_view_text, ag_stacks_view_json, AG_METRIC_TEMPORARY_BLOCKS,
     SHOWS_BLOCKS | FOLDS | GROUPS_PROCESSES},
    {"lifetimes", ag_lifetimes_view_text, ag_lifetimes_view_json, AG_METRIC_ALLOCATED_BYTES,
     GROUPS_ROWS | SHOWS_BLOCKS | FOLDS},
    {"timeline", ag_timeline_view_text, ag_timeline_view_json, AG_METRIC_IN_USE_BYTES, 0},
    {"functions", ag_functions_view_text, ag_functions_view_json, AG_METRIC_ALLOCATED_BYTES,
     GROUPS_PROCESSES},
    {"gc", ag_gc_view_text, ag_gc_view_json, AG_METRIC_ALLOCATED_BYTES, 0},
    {"heaps", ag_heaps_view_text, ag_heaps_view_json, AG_METRIC_ALLOCATED_BYTES, SHOWS_BLOCKS},
    {"mappings", ag_mappings_view_text, ag_mappings_view_json, AG_METRIC_PEAK_BYTES,
     GROUPS_ROWS | SHOWS_BLOCKS},
    {"rss", ag_rss_view_text, ag_rss_view_json, AG_METRIC_IN_USE_BYTES, SHOWS_BLOCKS},
    {"process_tree", ag_process_tree_view_text, ag_process_tree_view_json, AG_METRIC_PEAK_BYTES,
     OF_ALL_TRACES},
    {"threads", ag_threads_view_text, ag_threads_view_json, AG_METRIC_ALLOCATED_BYTES,
     SHOWS_BLOCKS},
};

static const struct view_row *find_view(const char *name) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(views); i++) {
        if (strcmp(views[i].name, name) == 0) {
            return &views[i];
        }
    }
    return NULL;
}

int ag_report_check_view(const char *name, char ret_message[512]) {
    if (find_view(name) != NULL) {
        return 0;
    }
    struct ag_nearest_name nearest;
    ag_nearest_name_start(&nearest, name);
    for (size_t i = 0; i < AG_ARRAY_SIZE(views); i++) {
        ag_nearest_name_offer(&nearest, views[i].name);
    }
    const char *hint = ag_nearest_name_hint(&nearest, "");
    size_t used = (size_t)snprintf(ret_message, 512, "--view=%.100s: unknown view%s", name,
                                   hint[0] != '\0' ? hint : "; the views are");
    for (size_t i = 0; i < AG_ARRAY_SIZE(views) && hint[0] == '\0'; i++) {
        used += (size_t)snprintf(ret_message + used, 512 - used, " %s", views[i].name);
    }
    return -EINVAL;
}

const char *ag_report_no_name(enum ag_site_key by) {
    return by == AG_BY_LABEL ? "no label" : "untyped";
}

static const char *const by_names[] = {
    [AG_BY_FUNCTION] = "function",
    [AG_BY_LINE] = "line",
    [AG_BY_STACK] = "stack",
    [AG_BY_IMAGE] = "image",
    [AG_BY_THREAD] = "thread",
    [AG_BY_HEAP] = "heap",
    [AG_BY_TYPE] = "type",
    [AG_BY_LABEL] = "label",
    [AG_BY_PROCESS] = "process",
    [AG_BY_INITIAL_CALL] = "initial_call",
    [AG_BY_OS_PROCESS] = "os_process",
};

const char *ag_report_key_name(enum ag_site_key by) {
    return by_names[by];
}

bool ag_report_parse_by(const char *name, enum ag_site_key *ret_by) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(by_names); i++) {
        if (strcmp(by_names[i], name) == 0) {
            *ret_by = (enum ag_site_key)i;
            return true;
        }
    }
    return false;
}

struct ag_report {
    struct ag_report_options options;
    const struct view_row *view;
    struct ag_page page;
    struct ag_json json;
    struct ag_suppressions *suppressions;
    struct ag_processes_shown *processes; /* NULL: each trace has a section of its own */
    bool has_several, has_written;
};

static void write_schema(struct ag_json *json) {
    ag_json_open(json, NULL, '{');
    ag_json_string(json, "schema", "allogram-report/1");
}

/* An option that does not apply to the view is rejected before any trace is opened. */
static int check_options(const struct ag_report_options *options, const char *view,
                         char ret_message[512]) {
    const bool is_of_blocks = strcmp(view, "blocks") == 0,
               is_of_functions = strcmp(view, "functions") == 0;
    const char *wrong = NULL;
    const bool is_by_process = options->by == AG_BY_PROCESS,
               is_by_initial_call = options->by == AG_BY_INITIAL_CALL;
    if ((is_by_process && !is_of_functions && strcmp(view, "gc") != 0) ||
        (is_by_initial_call && !is_of_functions)) {
        wrong = "--by=process needs --view=functions or --view=gc, --by=initial_call needs "
                "--view=functions";
    } else if (!(find_view(view)->flags & GROUPS_ROWS) && options->by != AG_BY_FUNCTION &&
               !is_by_process && !is_by_initial_call &&
               !(options->by == AG_BY_OS_PROCESS &&
                 (find_view(view)->flags & GROUPS_PROCESSES) != 0)) {
        snprintf(ret_message, 512,
                 "--by=%s does not apply to --view=%s; use it with --view=sites or "
                 "--view=lifetimes",
                 by_names[options->by], view);
        return -EINVAL;
    } else if (is_by_process && options->has_blame) {
        wrong = "--by=process and --blame cannot be combined";
    } else if (strcmp(view, "lifetimes") == 0 &&
               (options->by == AG_BY_STACK || options->by == AG_BY_THREAD ||
                options->by == AG_BY_HEAP)) {
        wrong = "--view=lifetimes can be grouped by function, line, image, type, label or "
                "os_process only";
    } else if (options->type != NULL && strcmp(view, "types") != 0 && !is_of_blocks) {
        wrong = "--type needs --view=types or --view=blocks";
    } else if (options->suppressions_path != NULL && strcmp(view, "leaks") != 0) {
        wrong = "--suppressions needs --view=leaks";
    } else if (options->has_known && strcmp(view, "leaks") != 0) {
        wrong = "--known needs --view=leaks";
    } else if (options->states != 0 && !is_of_blocks) {
        wrong = "--state needs --view=blocks";
    } else if (options->is_at_a_time && strcmp(view, "peak") != 0) {
        wrong = "--at needs --view=peak; --from and --to work with every view";
    } else if (options->is_tree && !is_of_functions) {
        wrong = "--tree needs --view=functions; --view=tree shows the tree of allocated blocks";
    } else if (options->callers != NULL && !is_of_functions) {
        wrong = "--callers needs --view=functions";
    } else if (options->callers != NULL && options->is_tree) {
        wrong = "--callers and --tree cannot be combined";
    } else if (options->has_blame && strcmp(view, "gc") != 0) {
        wrong = "--blame needs --view=gc";
    } else if (is_of_functions && options->sort != AG_METRIC_DEFAULT) {
        wrong = "--view=functions can be sorted by calls, own_words, own_bytes, own_ns, acc_words, "
                "acc_bytes or acc_ns only";
    } else if (!is_of_functions && options->call_sort != AG_CALL_METRIC_DEFAULT) {
        wrong = "--sort=calls, own_* and acc_* need --view=functions; other views can be sorted by "
                "allocated_bytes, allocated_blocks, in_use_bytes, in_use_blocks, peak_bytes, "
                "peak_blocks, temporary_blocks, freed_bytes or freed_blocks";
    }
    if (wrong != NULL) {
        snprintf(ret_message, 512, "%s", wrong);
    }
    return wrong != NULL ? -EINVAL : 0;
}

struct ag_page ag_report_page(FILE *out, const struct ag_report_options *options) {
    unsigned columns = options->columns != 0 ? options->columns : AG_PAGE_USUAL_COLUMNS;
    columns = columns < AG_PAGE_LEAST_COLUMNS ? AG_PAGE_LEAST_COLUMNS : columns;
    return (struct ag_page){
        .out = out,
        .columns = columns > AG_PAGE_MOST_COLUMNS ? AG_PAGE_MOST_COLUMNS : columns,
        .has_colour = options->has_colour,
    };
}

int ag_report_start(FILE *out, const struct ag_report_options *options, size_t n_traces,
                    struct ag_report **ret_report, char ret_message[512]) {
    const char *name = options->view != NULL ? options->view : "summary";
    int r = ag_report_check_view(name, ret_message);
    if (r < 0) {
        return r;
    }
    r = check_options(options, name, ret_message);
    if (r < 0) {
        return r;
    }
    struct ag_suppressions *suppressions = NULL;
    if (options->suppressions_path != NULL) {
        suppressions = ag_suppressions_open(options->suppressions_path, ret_message);
        if (suppressions == NULL) {
            return -EINVAL;
        }
    }
    struct ag_report *report = calloc(1, sizeof *report);
    if (report == NULL) {
        ag_suppressions_close(suppressions);
        snprintf(ret_message, 512, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    report->options = *options;
    report->view = find_view(name);
    report->suppressions = suppressions;
    const bool is_of_all = (report->view->flags & OF_ALL_TRACES) != 0;
    report->has_several = n_traces > 1 && !is_of_all;
    report->processes = is_of_all ? ag_processes_shown_new() : NULL;
    if (is_of_all && report->processes == NULL) {
        ag_report_finish(report);
        snprintf(ret_message, 512, "%s", strerror(ENOMEM));
        return -ENOMEM;
    }
    report->page = ag_report_page(out, options);
    /* Each key of a report, and each of its rows, is on its own line. */
    report->json = (struct ag_json){.out = out, .line_depth = report->has_several ? 4 : 2};
    if (options->is_json && report->has_several) {
        write_schema(&report->json);
        ag_json_open(&report->json, "reports", '[');
    }
    *ret_report = report;
    return 0;
}

uint64_t ag_report_limit(const struct ag_report_options *options) {
    if (options->limit == AG_REPORT_USUAL_LIMIT) {
        return options->is_json ? UINT64_MAX : 20;
    }
    return options->limit == 0 ? UINT64_MAX : options->limit;
}

/* With --at, --view=peak shows the bytes in use at that time. */
static enum ag_metric sort_of(const struct ag_report *report) {
    const struct ag_report_options *options = &report->options;
    if (options->sort != AG_METRIC_DEFAULT) {
        return options->sort;
    }
    const bool is_peak = report->view->sort == AG_METRIC_PEAK_BYTES;
    return is_peak && options->is_at_a_time ? AG_METRIC_IN_USE_BYTES : report->view->sort;
}

/* Whether the view shows frames that --fold can leave out. */
static bool is_foldable(const struct ag_report *report) {
    const struct ag_report_options *options = &report->options;
    const bool shows_only_names =
        ag_site_key_is_named(options->by) ||
        options->by == AG_BY_STACK || /* rows are whole stacks */
        (strcmp(report->view->name, "types") == 0 && options->type == NULL);
    return (report->view->flags & FOLDS) != 0 && !shows_only_names;
}

static int write_only_samples(struct ag_page *page) {
    ag_page_text(
        page, AG_STYLE_PLAIN,
        "this trace has no blocks: the process was observed from outside. Its CPU time is in "
        "--view=functions, its collections are in --view=gc; observe --growth and --maps record "
        "which functions make its memory grow\n");
    return 0;
}

/* PROFILE: NULL for a view of all traces. MESSAGE: 512 bytes. */
static struct ag_view view_of(struct ag_report *report, struct ag_profile *profile, char *message) {
    message[0] = '\0';
    return (struct ag_view){
        .profile = profile,
        .options = &report->options,
        .sort = sort_of(report),
        .message = message,
        .suppressions = report->suppressions,
        .limit = ag_report_limit(&report->options),
        .page = &report->page,
        .json = &report->json,
        .processes = report->processes,
    };
}

int ag_report_add(struct ag_report *report, struct ag_profile *profile, char ret_message[512]) {
    const struct ag_report_options *options = &report->options;
    char message[512];
    struct ag_view view = view_of(report, profile, message);
    bool is_folded = false;
    int r = options->known != AG_REPORT_KNOWN_NONE && report->view->text == ag_leaks_view_text
                ? ag_profile_find_known(profile)
                : 0;
    r = r < 0                                   ? r
        : options->folds && is_foldable(report) ? ag_profile_fold(profile, &is_folded)
                                                : 0;
    if (r < 0) {
        snprintf(ret_message, 512, "%s", strerror(-r));
        return r;
    }
    r = options->type != NULL      ? ag_types_find(&view)
        : options->callers != NULL ? ag_functions_check(&view)
                                   : 0;
    if (r == 0 && view.sort == AG_METRIC_TEMPORARY_BLOCKS &&
        ag_profile_identity(profile)->is_sampled) {
        snprintf(message, sizeof message,
                 "%s: a sampled trace does not show which blocks were temporary, because most "
                 "other allocations are not recorded; record with --mode=exact",
                 report->view->name);
        r = -ENOTSUP;
    }
    if (r < 0) {
        snprintf(ret_message, 512, "%s", message);
        return r;
    }
    if (report->processes != NULL) {
        r = ag_processes_shown_add(report->processes, profile);
    } else if (options->is_json) {
        write_schema(&report->json);
        ag_json_string(&report->json, "view", report->view->name);
        ag_heading_json(&report->json, profile);
        if (is_folded) {
            ag_json_bool(&report->json, "folded", true);
        }
        r = report->view->json(&view);
        ag_heading_missing_json(&report->json, "missing", profile);
        ag_heading_damage_json(&report->json, "damage", profile);
        ag_json_close(&report->json, '}');
    } else {
        if (report->has_written) {
            putc('\n', report->page.out);
        }
        /* The text of the view is kept in memory. While it is written, the view may find damage in
         * the trace and files without symbols, which are printed before it. */
        char *text = NULL;
        size_t n_text = 0;
        FILE *const out = report->page.out;
        FILE *const kept = open_memstream(&text, &n_text);
        if (kept == NULL) {
            snprintf(ret_message, 512, "%s", strerror(ENOMEM));
            return -ENOMEM;
        }
        report->page.out = kept;
        r = (report->view->flags & SHOWS_BLOCKS) && ag_profile_has_only_samples(profile)
                ? write_only_samples(&report->page)
                : report->view->text(&view);
        report->page.out = out;
        r = fclose(kept) != 0 && r == 0 ? -ENOMEM : r;
        ag_heading_missing(&report->page, profile);
        ag_heading_text(&report->page, profile, options->filter, is_folded);
        fwrite(text, 1, n_text, out);
        free(text);
    }
    report->has_written = true;
    if (r < 0) {
        snprintf(ret_message, 512, "%s: %.400s", report->view->name,
                 message[0] != '\0' ? message : strerror(-r));
    }
    return r;
}

int ag_report_complete(struct ag_report *report, char ret_message[512]) {
    if (report->processes == NULL) {
        return 0;
    }
    char message[512];
    struct ag_view view = view_of(report, /* profile= */ NULL, message);
    int r;
    if (report->options.is_json) {
        write_schema(&report->json);
        ag_json_string(&report->json, "view", report->view->name);
        r = report->view->json(&view);
        ag_json_close(&report->json, '}');
    } else {
        r = report->view->text(&view);
    }
    if (r < 0) {
        snprintf(ret_message, 512, "%s: %.400s", report->view->name,
                 message[0] != '\0' ? message : strerror(-r));
    }
    return r;
}

struct ag_report *ag_report_finish(struct ag_report *report) {
    if (report == NULL) {
        return NULL;
    }
    if (report->options.is_json && report->has_several) {
        ag_json_close(&report->json, ']');
        ag_json_close(&report->json, '}');
    }
    ag_suppressions_close(report->suppressions);
    ag_processes_shown_free(report->processes);
    free(report);
    return NULL;
}
