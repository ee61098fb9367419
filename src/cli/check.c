/* check.c: `allogram check TRACE`: checks whether a trace is whole. The exit status is 0 if the
 * trace is whole; otherwise it is 1, and the first damaged place is printed. The number of lost
 * events is always printed. `check` is the only command that changes a trace: it first completes
 * (seals) the trace of a recording that was killed. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/options.h"
#include "format/verify.h"
#include "report/page.h"
#include "writer/writer.h"

static uint64_t lost_total(const struct ag_verdict *verdict) {
    uint64_t total = verdict->lost_unknown;
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        total += verdict->lost[cause];
    }
    return total;
}

static void print_json(const struct ag_verdict *verdict) {
    const struct ag_decode_error *damage = &verdict->damage;

    printf("{\"whole\": %s, \"events\": %" PRIu64 ", \"lost_events\": {\"total\": %" PRIu64,
           verdict->is_whole ? "true" : "false", verdict->events, lost_total(verdict));
    for (uint32_t cause = 0; cause < AG_LOST_CAUSES; cause++) {
        printf(", \"%s\": %" PRIu64, ag_lost_cause_name(cause), verdict->lost[cause]);
    }
    printf(", \"unknown\": %" PRIu64 "}, \"damage\": ", verdict->lost_unknown);
    if (damage->code == AG_DECODE_OK) {
        puts("null}");
    } else {
        printf("{\"offset\": %" PRIu64 ", \"what\": \"%s\", \"missing_chunks\": %" PRIu64
               ", \"missing_events\": %" PRIu64 ", \"missing_bytes\": %" PRIu64 "}}\n",
               damage->offset, ag_decode_code_text(damage->code), verdict->damaged_chunks,
               verdict->damaged_events, verdict->damaged_bytes);
    }
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
            printf("; but it contains no events, because the recorder lost all %" PRIu64, lost);
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
            fputs("; it has no end of the program: later events are missing", stdout);
        }
    } else {
        fputs(ag_trace_hint(path), stdout);
    }
    putchar('\n');
}

int ag_command_check(int argc, char **argv) {
    static const struct ag_option table[] = {
        {'j', "json", NULL, "print one JSON object instead of text"},
    };
    struct ag_options options = {
        .usage = "check [--json] TRACE",
        .about = "Checks whether a trace is whole (exit status 0), or where it is damaged (1).",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table)};
    bool wants_json = false;

    if (!ag_options_read(&options, argc, argv, ag_option_set_bool, &wants_json)) {
        return options.status;
    }
    if (options.n_operands != 1) {
        return ag_options_refuse_operands(&options, "trace", "one trace",
                                          "check allogram.ls.4711.allogram");
    }
    const char *path = options.operands[0];
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
    r = ag_trace_verify(path, &verdict);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "check: %s: %s%s", path, strerror(-r), ag_trace_hint(path));
    }
    if (wants_json) {
        print_json(&verdict);
    } else {
        print_text(path, &verdict);
    }
    return verdict.is_whole ? AG_EXIT_OK : AG_EXIT_FAILURE;
}
