/* late_runtime.h: runtimes that `allogram attach` looks for in a process, by a name that they
 * define. */
#ifndef AG_LATE_RUNTIME_H
#define AG_LATE_RUNTIME_H

struct ag_late_runtime {
    const char *name;    /* as in --adapters */
    const char *symbol;  /* a function that only it defines */
    const char *why_not; /* it is left alone in a program that runs; NULL: there is an adapter */
};
/* adapters/late_runtimes.c: a row without a name ends it. */
extern const struct ag_late_runtime ag_late_runtimes[];

#endif
