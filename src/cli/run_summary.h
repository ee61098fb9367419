/* run_summary.h: prints the closing lines of `run`. */
#ifndef AG_RUN_SUMMARY_H
#define AG_RUN_SUMMARY_H

#include "writer/writer.h"

/* program: as given on the command line. */
void ag_run_summary_print(const struct ag_writer_report *report, const char *program);

/* The same when only a runtime was recorded: the trace, and VIEW as the suggested view. */
void ag_run_summary_print_trace(const struct ag_writer_report *report, const char *view);

/* The memory that the process had before it was attached to. */
struct ag_glibc_heap;
void ag_run_summary_print_before(const struct ag_glibc_heap *heap);

#endif
