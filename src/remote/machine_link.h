/* machine_link.h: virtual machines that have a name and a protocol, and can be asked by it to
 * record themselves: `allogram attach NAME`, `allogram control NAME`.
 *
 * The machine joins a session (writer/writer.h) that the caller made, as the agent does in
 * other programs, and leaves it. An adapter implements a kind; adapters/machine_links.c has a row
 * for each. One thread per link. Texts come from another party: print them as such. */
#ifndef AG_MACHINE_LINK_H
#define AG_MACHINE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_link; /* a connection to a machine */

struct ag_link_place {
    const char *name;         /* of the machine */
    const char *cookie;       /* the secret that lets us in; terminated */
    const char *agent_folder; /* what the machine loads is found from there; NULL: loads nothing */
};

struct ag_link_options {
    const char *live_path; /* of the session */
    bool is_exact;         /* every call; else what costs next to nothing */
    const char *const *processes, *const *functions; /* as typed; none: all */
    size_t n_processes, n_functions;
};

enum ag_link_event {
    AG_LINK_QUIET, /* nothing came */
    AG_LINK_STOP,  /* somebody asked the machine for the end of the recording */
    AG_LINK_RESET, /* for a new trace */
    AG_LINK_DUMP,  /* for what was counted until now */
    AG_LINK_GONE,  /* the machine does not answer any more */
};

enum { AG_LINK_TEXT_BYTES = 512 };

/* Functions return 0 or a negative errno with one line in the text. */
struct ag_link_kind {
    const char *runtime;
    /* Files below the user's home that may hold the cookie, the first one that is there counts;
     * NULL at the end. */
    const char *const *cookie_files;
    bool (*takes)(const char *name); /* it is a name of this kind */
    int (*open)(const struct ag_link_place *place, struct ag_link **ret_link,
                char ret_text[AG_LINK_TEXT_BYTES]);
    /* Drops the connection; what the machine records for this link ends. NULL: nothing. */
    struct ag_link *(*close)(struct ag_link *link);
    uint32_t (*pid)(const struct ag_link *link); /* of the machine, as it knows itself */
    int (*fd)(const struct ag_link *link);       /* readable: call next */
    /* From here on it records. Refusals change nothing. The text holds a remark on success, or "".
     */
    int (*start)(struct ag_link *link, const struct ag_link_options *wishes,
                 char ret_text[AG_LINK_TEXT_BYTES]);
    /* What came, without waiting. Called at least every ten seconds. */
    enum ag_link_event (*next)(struct ag_link *link);
    /* It records no more, and nothing of ours acts there. The text: as start's. */
    int (*stop)(struct ag_link *link, char ret_text[AG_LINK_TEXT_BYTES]);
    /* Any link, not only the one that started: pause, resume, reset, dump, stop. */
    int (*control)(struct ag_link *link, const char *action, char ret_text[AG_LINK_TEXT_BYTES]);
};
/* adapters/machine_links.c: all that were built, NULL at the end. */
extern const struct ag_link_kind *const ag_link_kinds[];

#endif
