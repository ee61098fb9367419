/* late_runtime.h: runtimes that `allogram attach` detects in a process, by a symbol that they
 * define. */
#ifndef AG_LATE_RUNTIME_H
#define AG_LATE_RUNTIME_H

struct ag_late_runtime {
    const char *name;   /* the name in --adapters */
    const char *symbol; /* a function that only it defines */
    /* the reason why it is left alone in a running program; NULL: there is an adapter */
    const char *why_not;
};
/* adapters/late_runtimes.c: a row without a name ends it. */
extern const struct ag_late_runtime ag_late_runtimes[];

#endif
