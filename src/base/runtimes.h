/* runtimes.h: the table of the runtimes (virtual machines and garbage collectors) that this build
 * supports, one row for each.
 *
 * A runtime is a folder in adapters/ and a row in adapters/runtimes.def. An agent is a library that
 * allogram loads into a program. The table is compiled three times: for the agent that is
 * preloaded, for the agent that is loaded into a running process, and for the program allogram. The
 * three differ in what they can link. In each of them, the pointer to a part that it cannot use, or
 * that the runtime does not have, is NULL. */
#ifndef AG_RUNTIMES_H
#define AG_RUNTIMES_H

struct ag_adapter;
struct ag_decoder;
struct ag_link_kind;
struct allogram_inspector;

struct ag_runtime {
    const char *name;     /* as in reports and in --adapters=LIST */
    const char *versions; /* the supported versions of the runtime, as text for users */

    /* The name of a function that only this runtime defines. `allogram attach` searches a process
     * for this symbol. NULL: this runtime has no part that works inside of a process. */
    const char *symbol;
    /* why the part below (`inside`) cannot start in a running process; NULL: the part can start
     * there */
    const char *why_not_late;
    /* the part inside the profiled process (embed/adapter.h); only in the agents */
    const struct ag_adapter *inside;

    /* The fields below are set only in the program `allogram`. */
    /* Prefixes of the names of the object files that contain only the runtime's own code; a NULL
     * pointer ends the list. `libraries` is NULL if there are no such files. */
    const char *const *libraries;
    const struct ag_decoder *decoder; /* decodes names, frames and types (symbol/decoder.h) */
    /* reads the runtime from outside the process (allogram/inspector.h) */
    const struct allogram_inspector *inspector;
    /* connects to a virtual machine by its name (remote/machine_link.h) */
    const struct ag_link_kind *link;
};
extern const struct ag_runtime ag_runtimes[]; /* a row without a name ends the table */

#endif
