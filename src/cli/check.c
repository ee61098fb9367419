/* check.c: `allogram check TRACE...`: checks whether traces are whole. The exit status is 0 if all
 * are whole, otherwise 1. For each trace it prints the number of lost events and, if the trace is
 * damaged, the position of the first damage. `check` is the only command that changes a trace: it
 * first completes (seals) the trace of a recording that was killed. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/options.h"
#include "cli/progress_line.h"
#include "format/verify.h"
#include "report/page.h"
#include "text/json_writer.h"
#include "writer/writer.h"

static uint64_t lost_total(const struct ag_verdict *verdict) {
    uint64_t total = verdict->lost_unknown;
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        total += verdict->lost[cause];
    }
    return total;
}

static void write_verdict(struct ag_json *json, const char *path,
                          const struct ag_verdict *verdict) {
    const struct ag_decode_error *damage = &verdict->damage;

    ag_json_open(json, NULL, '{');
    ag_json_string(json, "file", path);
    ag_json_bool(json, "whole", verdict->is_whole);
    ag_json_integer(json, "events", verdict->events);
    ag_json_open(json, "lost_events", '{');
    ag_json_integer(json, "total", lost_total(verdict));
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        ag_json_integer(json, ag_lost_cause_name(cause), verdict->lost[cause]);
    }
    ag_json_integer(json, "unknown", verdict->lost_unknown);
    ag_json_close(json, '}');
    if (damage->code == AG_DECODE_OK) {
        ag_json_null(json, "damage");
    } else {
        ag_json_open(json, "damage", '{');
        ag_json_integer(json, "offset", damage->offset);
        ag_json_string(json, "what", ag_decode_code_text(damage->code));
        ag_json_integer(json, "missing_chunks", verdict->damaged_chunks);
        ag_json_integer(json, "missing_events", verdict->damaged_events);
        ag_json_integer(json, "missing_bytes", verdict->damaged_bytes);
        ag_json_close(json, '}');
    }
    ag_json_close(json, '}');
}

/* Prints "(ring_full 3, stopped 2)": the causes of lost events. */
static void print_causes(const struct ag_verdict *verdict) {
    const char *before = " (";
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        if (verdict->lost[cause] != 0) {
            printf("%s%s %" PRIu64, before, ag_lost_cause_name(cause), verdict->lost[cause]);
            before = ", ";
        }
    }
    if (verdict->lost_unknown != 0) {
        printf("%sof unknown cause %" PRIu64, before, verdict->lost_unknown);
        before = ", ";
    }
    fputs(before[0] == ',' ? ")" : "", stdout);
}

static void print_text(const char *path, const struct ag_verdict *verdict) {
    const struct ag_decode_error *damage = &verdict->damage;

    struct ag_page page = {.out = stdout};
    ag_page_text(&page, AG_STYLE_PLAIN, path); /* escapes characters that would affect a terminal */
    printf(": %s", ag_decode_code_text(damage->code));
    if (damage->code != AG_DECODE_OK && verdict->is_trace) {
        printf(" (at byte %" PRIu64, damage->offset);
        if (damage->body_offset != 0) {
            printf(", %" PRIu64 " into its chunk", damage->body_offset);
        }
        const char *kind = ag_record_kind_name((enum ag_record_kind)damage->record);
        printf("%s%s)", kind == NULL ? "" : ", in a record of kind ", kind == NULL ? "" : kind);
    }
    if (verdict->is_trace) {
        const uint64_t lost = lost_total(verdict);
        if (verdict->events == 0 && lost > 0) {
            printf("; but it contains no events, because the recorder lost all %" PRIu64 " events",
                   lost);
        } else {
            printf("; %" PRIu64 " events, %" PRIu64 " lost", verdict->events, lost);
        }
        print_causes(verdict);
        if (verdict->damaged_chunks > 0) {
            printf("; missing: up to %" PRIu64 " events, of %" PRIu64 " damaged chunk%s",
                   verdict->damaged_events, verdict->damaged_chunks,
                   verdict->damaged_chunks == 1 ? "" : "s");
        }
        if (damage->code == AG_DECODE_CUT && damage->body_offset == 0) {
            fputs("; missing: the end of the file; its size is not known", stdout);
        } else if (damage->code == AG_DECODE_OK && !verdict->has_end) {
            fputs("; the end of the program is not in the trace: later events are missing", stdout);
        }
    } else {
        fputs(ag_trace_hint(path), stdout);
    }
    putchar('\n');
}

enum { OPTION_JSON = 'j' };
struct check_request {
    bool wants_json, is_quiet;
    struct ag_json json; /* used if wants_json */
};

static int set_option(void *context, int id, const char *value) {
    struct check_request *request = context;
    (void)value; /* neither option has one */
    *(id == OPTION_JSON ? &request->wants_json : &request->is_quiet) = true;
    return AG_EXIT_OK;
}

/* Checks one trace and prints the result. */
static int check_trace(const char *path, struct check_request *request) {
    char message[512] = "";
    struct ag_verdict verdict;

    /* First adds the events that a killed recording left in its live file, the memory that it
     * shared with the program (writer/writer.h). */
    int r = ag_writer_seal(path, message);
    if (r > 0) {
        ag_say("check: %s: sealed; events that the killed recording had not written were added",
               path);
    } else if (r < 0) {
        ag_say("check: %s; continuing with the readable part", message);
    }
    r = ag_trace_verify(
        path, ag_progress_line("check", request->is_quiet, /* prints_early= */ false), &verdict);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "check: %s: %s%s", path, strerror(-r), ag_trace_hint(path));
    }
    if (request->wants_json) {
        write_verdict(&request->json, path, &verdict);
    } else {
        print_text(path, &verdict);
    }
    return verdict.is_whole ? AG_EXIT_OK : AG_EXIT_FAILURE;
}

static int is_trace_name(const struct dirent *entry) {
    static const char suffix[] = ".allogram";
    const size_t length = strlen(entry->d_name);
    return length >= sizeof suffix &&
           strcmp(entry->d_name + length - (sizeof suffix - 1), suffix) == 0;
}

/* Checks the files of a folder whose names end in .allogram, in the order of their names. Fails if
 * the folder has no such file, because then nothing was checked. */
static int check_folder(const char *folder, struct check_request *request) {
    struct dirent **entries;
    const int n = scandir(folder, &entries, is_trace_name, alphasort);
    if (n < 0) {
        return ag_fail(AG_EXIT_FAILURE, "check: %s: %s", folder, strerror(errno));
    }
    const char *between = folder[strlen(folder) - 1] == '/' ? "" : "/";
    int status = n > 0 ? AG_EXIT_OK
                       : ag_fail(AG_EXIT_FAILURE,
                                 "check: %s: no file in this folder is named *.allogram", folder);
    for (int i = 0; i < n; i++) {
        char path[PATH_MAX];
        const int length =
            snprintf(path, sizeof path, "%s%s%s", folder, between, entries[i]->d_name);
        const int trace_status =
            length < (int)sizeof path
                ? check_trace(path, request)
                : ag_fail(AG_EXIT_FAILURE, "check: the path %s%s%s is too long", folder, between,
                          entries[i]->d_name);
        status = trace_status != AG_EXIT_OK ? trace_status : status;
        free(entries[i]);
    }
    free(entries);
    return status;
}

static bool is_folder(const char *path) {
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

int ag_command_check(int argc, char **argv) {
    static const struct ag_option table[] = {
        {OPTION_JSON, "json", NULL, "print one JSON object instead of text"},
        AG_OPTION_OF_QUIET,
    };
    struct ag_options options = {
        .usage = "check [OPTIONS] TRACE...",
        .about = "Checks whether traces are whole (exit status 0), or where they are damaged (1). "
                 "A folder\nstands for the traces in it, files named *.allogram.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table)};
    struct check_request request = {.json.out = stdout};

    if (!ag_options_read(&options, argc, argv, set_option, &request)) {
        return options.status;
    }
    if (options.n_operands == 0) {
        return ag_options_refuse_operands(&options, "trace", "traces",
                                          "check allogram.ls.4711.allogram");
    }
    const bool is_list = options.n_operands > 1 || is_folder(options.operands[0]);
    struct ag_json *json = &request.json;
    int status = AG_EXIT_OK;
    json->line_depth = is_list ? 2 : 0;
    if (request.wants_json && is_list) {
        ag_json_open(json, NULL, '{');
        ag_json_open(json, "traces", '[');
    }
    for (int i = 0; i < options.n_operands; i++) {
        const char *path = options.operands[i];
        const int operand_status =
            is_folder(path) ? check_folder(path, &request) : check_trace(path, &request);
        status = operand_status != AG_EXIT_OK ? operand_status : status;
    }
    if (request.wants_json && is_list) {
        ag_json_close(json, ']');
        ag_json_bool(json, "whole", status == AG_EXIT_OK);
        ag_json_close(json, '}');
    }
    return status;
}
