/* run_summary.h: prints the closing lines of `run` and `attach`. */
#ifndef AG_RUN_SUMMARY_H
#define AG_RUN_SUMMARY_H

#include "writer/writer.h"

/* Prints problems, the main numbers and the name of the trace. PROGRAM: name of the program, for
 * the message that nothing was recorded. */
void ag_run_summary_print(const struct ag_writer_report *report, const char *program);

/* Prints problems and the name of the trace for `attach NODE`, which records a virtual machine that
 * has a name. Such a trace has no blocks of malloc, so no numbers are printed. VIEW: the view of
 * `report` that is recommended. */
void ag_run_summary_print_trace(const struct ag_writer_report *report, const char *view);

/* Prints how much of glibc's main heap was in use when the recording of `attach` began. */
struct ag_glibc_heap;
void ag_run_summary_print_before(const struct ag_glibc_heap *heap);

#endif
