/* node_link_none.c: used in place of node_link.c if allogram was built without OTP's C library.
 * Each attempt to connect to a node by its name fails with a message. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "node_cookie.h"
#include "remote/machine_link.h"

extern const struct ag_link_kind ag_link_erlang;

static bool takes(const char *name) {
    return strchr(name, '@') != NULL;
}

static int open_link(const struct ag_link_place *place, struct ag_link **ret_link,
                     char ret_text[AG_LINK_TEXT_BYTES]) {
    (void)ret_link;
    (void)snprintf(
        ret_text, AG_LINK_TEXT_BYTES,
        "%.200s: this allogram cannot connect to Erlang nodes, because it was built without the C "
        "library of OTP (package erlang-dev)",
        place->name);
    return -ENOSYS;
}

const struct ag_link_kind ag_link_erlang = {.runtime = "beam",
                                            .option = AG_NODE_COOKIE_OPTION,
                                            .option_help = AG_NODE_COOKIE_HELP,
                                            .takes = takes,
                                            .open = open_link};
