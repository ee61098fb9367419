/* report_gate.h: --fail-if of `report`, from the command line to the exit status.
 *
 *     status = ag_report_gate_start(&gate, &request);
 *     ag_report_gate_check(&gate, profile);        // for each trace, or if it cannot be read:
 *     ag_report_gate_add_unread(&gate, path);
 *     status = ag_report_gate_finish(&gate, status);
 *
 * Without --fail-if the functions do nothing. They print errors, and the conditions that hold. */
#ifndef AG_REPORT_GATE_H
#define AG_REPORT_GATE_H

struct ag_gate;
struct ag_profile;
struct ag_report_request;

struct ag_report_gate {
    const struct ag_report_request *request;
    struct ag_gate *gate; /* NULL: none */
    struct ag_profile *base;
};
int ag_report_gate_start(struct ag_report_gate *gate, const struct ag_report_request *request);
int ag_report_gate_check(struct ag_report_gate *gate, struct ag_profile *profile);
void ag_report_gate_add_unread(struct ag_report_gate *gate, const char *path);
/* Writes the files, prints the conditions that hold and frees everything. Returns the exit status:
 * STATUS, which is that of the report, if it is a failure; otherwise that of the conditions and
 * files. */
int ag_report_gate_finish(struct ag_report_gate *gate, int status);

#endif
