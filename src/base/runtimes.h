/* runtimes.h: the table of the runtimes that this build has, one row each.
 *
 * A runtime is a folder in adapters/ and a row in adapters/runtimes.def. The table is compiled
 * three times, because programs differ in what they can link: for the agent that is preloaded, for
 * the agent that is loaded into a running process, and for allogram itself. A part that a program
 * cannot use, or that the runtime does not have, is NULL there. */
#ifndef AG_RUNTIMES_H
#define AG_RUNTIMES_H

struct ag_adapter;
struct ag_decoder;
struct ag_link_kind;
struct allogram_inspector;

struct ag_runtime {
    const char *name;     /* as in reports and in --adapters=LIST */
    const char *versions; /* the ones that it supports, for people */

    /* A function that only this runtime defines: `attach` looks for it. NULL: no part of this
     * runtime works inside of a process. */
    const char *symbol;
    const char *why_not_late;        /* why it cannot start in a running process; NULL: it can */
    const struct ag_adapter *inside; /* embed/adapter.h; only in the agents */

    /* Only in allogram. */
    const struct ag_decoder *decoder;           /* symbol/decoder.h: names, frames and types */
    const struct allogram_inspector *inspector; /* allogram/inspector.h: a process from outside */
    const struct ag_link_kind *link;            /* remote/machine_link.h: processes with a name */
};
extern const struct ag_runtime ag_runtimes[]; /* a row without a name ends it */

#endif
