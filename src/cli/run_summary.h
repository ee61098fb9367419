/* run_summary.h: the closing lines of `run`. */
#ifndef AG_RUN_SUMMARY_H
#define AG_RUN_SUMMARY_H

#include "collect/collector.h"

/* program: as the user typed it. */
void ag_run_summary_print(const struct ag_collector_report *report, const char *program);

#endif
