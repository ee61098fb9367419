/* report_gate.h: evaluates the conditions of --fail-if for `report`, which determine the exit
 * status.
 *
 *     status = ag_report_gate_start(&gate, &request);
 *     ag_report_gate_check(&gate, profile);      // for each trace that could be read; with --merge
 *                                                // once, for all of them
 *     ag_report_gate_add_unread(&gate, path);    // for each other trace
 *     status = ag_report_gate_finish(&gate, status);
 *
 * The functions print errors. If --fail-if was not given, ag_report_gate_start fails if --base,
 * --junit or --sarif was given, and the other functions do nothing. */
#ifndef AG_REPORT_GATE_H
#define AG_REPORT_GATE_H

struct ag_gate;
struct ag_profile;
struct ag_report_request;

struct ag_report_gate {
    const struct ag_report_request *request;
    struct ag_gate *gate; /* NULL: --fail-if was not given */
    struct ag_profile *base;
};
int ag_report_gate_start(struct ag_report_gate *gate, const struct ag_report_request *request);
int ag_report_gate_check(struct ag_report_gate *gate, struct ag_profile *profile);
void ag_report_gate_add_unread(struct ag_report_gate *gate, const char *path);
/* Prints the conditions that are true, uncertain or impossible to evaluate, writes the files of
 * --junit and --sarif, and frees what GATE contains. STATUS: exit status of the report so far.
 * Returns STATUS if it is a failure; otherwise the exit status for the files and conditions. */
int ag_report_gate_finish(struct ag_report_gate *gate, int status);

#endif
