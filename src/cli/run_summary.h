/* run_summary.h: prints the closing lines of `run` and `attach`. */
#ifndef AG_RUN_SUMMARY_H
#define AG_RUN_SUMMARY_H

#include "writer/writer.h"

/* program: as given on the command line. */
void ag_run_summary_print(const struct ag_writer_report *report, const char *program);

/* The same for `attach NODE`, which records no native blocks: prints the trace, and VIEW as the
 * view to look at. */
void ag_run_summary_print_trace(const struct ag_writer_report *report, const char *view);

/* Prints how much memory the process had in use before `attach` recorded it. */
struct ag_glibc_heap;
void ag_run_summary_print_before(const struct ag_glibc_heap *heap);

#endif
