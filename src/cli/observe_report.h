/* observe_report.h: prints an observation as text and as JSON. */
#ifndef AG_OBSERVE_REPORT_H
#define AG_OBSERVE_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "observe/observation.h"

struct ag_observe_selection { /* the tables to print */
    unsigned what;            /* enum ag_observe_what */
    bool stacks;
    const char *blame; /* NULL: none */
    size_t limit;      /* rows per table in text; 0: all */
};
void ag_observe_report_json(FILE *out, struct ag_observation *observation,
                            const struct ag_observe_selection *selection);
void ag_observe_report_text(FILE *out, struct ag_observation *observation,
                            const struct ag_observe_selection *selection);

#endif
