/* observe_report.h: prints an observation as text and as JSON. */
#ifndef AG_OBSERVE_REPORT_H
#define AG_OBSERVE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "observe/observation.h"

struct ag_observe_selection { /* the tables to print */
    unsigned what;            /* bits of enum ag_observe_what */
    bool stacks;
    /* pattern of the function names of --blame; NULL: the option was not given */
    const char *blame;
    size_t limit; /* maximum number of rows of a table in text output; 0: all */
};
void ag_observe_report_json(FILE *out, struct ag_observation *observation,
                            const struct ag_observe_selection *selection);
void ag_observe_report_text(FILE *out, struct ag_observation *observation,
                            const struct ag_observe_selection *selection);

#endif
