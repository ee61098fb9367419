/* attach_link.h: `allogram attach NAME` and `allogram control NAME`, of a virtual machine that has
 * a name (remote/machine_link.h). */
#ifndef AG_ATTACH_LINK_H
#define AG_ATTACH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_link_kind;

enum { AG_LINK_CHOICES_MOST = 64 };
struct ag_attach_choice { /* as typed, each may be given several times */
    const char *texts[AG_LINK_CHOICES_MOST];
    size_t count;
};

struct ag_link_attach {
    const char *name;
    const struct ag_link_kind *kind;
    const char *option;      /* one that means nothing for a process; NULL: none */
    const char *cookie_file; /* NULL: the environment, else the user's */
    const char *output_pattern;
    uint64_t max_bytes, duration_ns; /* 0: none */
    bool is_exact, is_quiet;
    struct ag_attach_choice processes, functions;
};

/* NULL: no machine has such names. */
const struct ag_link_kind *ag_link_kind_of(const char *name);
/* Records until Ctrl-C, the duration's end, or `control NAME stop`. The exit status. */
int ag_attach_link(const struct ag_link_attach *attach);
int ag_control_link(const char *name, const struct ag_link_kind *kind, const char *cookie_file,
                    const char *action);

#endif
