/* report_gate.c: --fail-if, --base, --junit and --sarif of `report`: opens the base trace (the one
 * to compare with), evaluates the conditions, prints those that are true, uncertain or impossible
 * to evaluate, and writes the JUnit and SARIF files. */
#include "cli/report_gate.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/message.h"
#include "cli/output_file.h"
#include "cli/report_request.h"
#include "report/gate.h"

int ag_report_gate_start(struct ag_report_gate *gate, const struct ag_report_request *request) {
    const struct ag_report_gate_request *wanted = &request->gate;
    *gate = (struct ag_report_gate){.request = request};
    if (wanted->n_expressions == 0) {
        const char *option = wanted->base != NULL    ? "base"
                             : wanted->junit != NULL ? "junit"
                             : wanted->sarif != NULL ? "sarif"
                                                     : NULL;
        return option == NULL ? AG_EXIT_OK
                              : ag_fail(AG_EXIT_USAGE, "report: --%s requires --fail-if", option);
    }
    if (wanted->junit != NULL && wanted->sarif != NULL &&
        strcmp(wanted->junit, wanted->sarif) == 0) {
        return ag_fail(AG_EXIT_USAGE, "report: --junit and --sarif name the same file, %s",
                       wanted->junit);
    }
    char message[1024];
    const int r = ag_gate_new(wanted->expressions, wanted->n_expressions, wanted->base != NULL,
                              &gate->gate, message);
    if (r < 0) {
        return ag_fail(r == -EINVAL ? AG_EXIT_USAGE : AG_EXIT_FAILURE, "report: %s", message);
    }
    const int status = wanted->base != NULL
                           ? ag_trace_request_open(&request->trace, wanted->base, &gate->base)
                           : AG_EXIT_OK;
    if (status != AG_EXIT_OK) {
        gate->gate = ag_gate_free(gate->gate);
    }
    return status;
}

int ag_report_gate_check(struct ag_report_gate *gate, struct ag_profile *profile) {
    const int r = gate->gate != NULL ? ag_gate_check(gate->gate, profile, gate->base) : 0;
    return r == 0 ? AG_EXIT_OK : ag_fail(AG_EXIT_FAILURE, "report: --fail-if: %s", strerror(-r));
}

void ag_report_gate_add_unread(struct ag_report_gate *gate, const char *path) {
    if (gate->gate != NULL && ag_gate_add_unread(gate->gate, path) < 0) {
        ag_say("report: --fail-if: %s: %s", path, strerror(ENOMEM));
    }
}

/* ---- results ---- */

static void write_file(const struct ag_gate *gate, FILE *out, bool is_sarif) {
    char root[PATH_MAX];
    if (!is_sarif) {
        ag_gate_write_junit(gate, out);
        return;
    }
    const char *folder = getcwd(root, sizeof root);
    ag_gate_write_sarif(gate, out, AG_VERSION, folder != NULL ? folder : "");
}

/* Writes a file of results. Replaces an existing file, which is the result of an earlier run. */
static int make_file(const struct ag_gate *gate, const char *path, const char *option,
                     bool is_sarif) {
    if (path == NULL) {
        return AG_EXIT_OK;
    }
    struct ag_output_file file;
    const int status = ag_output_file_open(&file, "report", option, path, AG_OUTPUT_REPLACES);
    if (status != AG_EXIT_OK) {
        return status;
    }
    const mode_t mask = umask(0);
    (void)umask(mask);
    if (!file.is_kept) { /* as other users may read the results of a test, the umask determines the
                          * mode; a failure does not matter */
        (void)fchmod(fileno(file.out), 0666 & ~mask);
    }
    write_file(gate, file.out, is_sarif);
    return ag_output_file_close(&file, AG_EXIT_OK);
}

/* Prints the conditions that are true, that cannot be evaluated, or that are uncertain because of
 * sampling. Returns the exit status. */
static int gate_print(const struct ag_gate *gate) {
    const struct ag_gate_result *results;
    const size_t n_results = ag_gate_results(gate, &results);
    int status = AG_EXIT_OK;
    for (size_t i = 0; i < n_results; i++) {
        const struct ag_gate_result *result = &results[i];
        const char *text = ag_gate_text(gate, result->expression);
        if (result->unknown_site != NULL) {
            ag_say(result->is_counted
                       ? "report: %s: --fail-if: the trace has no counters of a function %s; its "
                         "values count as 0"
                       : "report: %s: --fail-if: no function %s allocates in this trace; its "
                         "values count as 0",
                   result->trace, result->unknown_site);
        }
        switch (result->outcome) {
        case AG_GATE_PASSED:
            if (result->is_unsure) {
                ag_say(
                    "report: %s: --fail-if='%s' is uncertain, because its numbers are estimates; it does not make the command fail: %s",
                    result->trace, text, result->values);
            }
            break;
        case AG_GATE_HOLDS:
            ag_say("report: %s: --fail-if='%s' is true%s%s", result->trace, text,
                   /* there are no values in a condition such as 1 > 0 */
                   result->values[0] ? ": " : "", result->values);
            status = status == AG_EXIT_OK ? AG_EXIT_GATE : status;
            break;
        case AG_GATE_FAILED:
            ag_say("report: %s: --fail-if='%s' cannot be evaluated: %s", result->trace, text,
                   result->values);
            status = AG_EXIT_FAILURE;
            break;
        }
    }
    return status;
}

int ag_report_gate_finish(struct ag_report_gate *gate, int status) {
    if (gate->gate == NULL) {
        return status;
    }
    const struct ag_report_gate_request *wanted = &gate->request->gate;
    /* so that the conditions follow the report; main reports errors of standard output */
    (void)fflush(stdout);
    const int outcome = gate_print(gate->gate);
    const int junit = make_file(gate->gate, wanted->junit, "junit", /* is_sarif= */ false);
    const int sarif = make_file(gate->gate, wanted->sarif, "sarif", /* is_sarif= */ true);
    gate->gate = ag_gate_free(gate->gate);
    gate->base = ag_profile_close(gate->base);
    status = status == AG_EXIT_OK ? junit : status;
    status = status == AG_EXIT_OK ? sarif : status;
    return status == AG_EXIT_OK ? outcome : status;
}
