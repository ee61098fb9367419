/* attach_link.h: implements `allogram attach NAME` and `allogram control NAME` for a virtual
 * machine that has a name, such as an Erlang node (remote/machine_link.h). */
#ifndef AG_ATTACH_LINK_H
#define AG_ATTACH_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_link;
struct ag_link_kind;

enum { AG_LINK_CHOICES_MOST = 64 };
struct ag_attach_choice { /* the values of an option that may be given several times */
    const char *texts[AG_LINK_CHOICES_MOST];
    size_t count;
};

struct ag_link_attach {
    const char *name;
    const struct ag_link_kind *kind;
    /* Name, without dashes, of the last given option that is valid only for a machine with a name;
     * printed in a message. NULL: none was given */
    const char *option;
    /* value of the option that `attach` has only for this kind of machine; NULL: not given */
    const char *kind_option;
    const char *output_pattern;
    uint64_t max_bytes, duration_ns; /* limits of the trace and of the recording; 0: none */
    bool is_exact, is_quiet;
    struct ag_attach_choice processes, functions; /* values of --process and --trace */
};

/* Returns the kind of machine whose names have the form of NAME; NULL: no kind has such names. */
const struct ag_link_kind *ag_link_kind_of(const char *name);
/* Connects to the machine. OPTION: the value of the kind's option, or NULL. Returns AG_EXIT_OK, or
 * prints an error and returns another exit status. */
int ag_link_connect(const char *name, const struct ag_link_kind *kind, const char *option,
                    struct ag_link **ret_link);
/* Records until Ctrl-C, the end of the duration, `control NAME stop`, or the machine's end. Returns
 * the exit status. */
int ag_attach_link(const struct ag_link_attach *attach);
/* Sends the ACTION of `control` to the machine. Returns the exit status. */
int ag_control_link(const char *name, const struct ag_link_kind *kind, const char *option,
                    const char *action);

#endif
