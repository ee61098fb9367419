/* node_cookie.h: the cookie of an Erlang node: the secret that both ends of a connection have. */
#ifndef AG_NODE_COOKIE_H
#define AG_NODE_COOKIE_H

#include "remote/machine_link.h"

#define AG_NODE_COOKIE_OPTION "cookie-file"
#define AG_NODE_COOKIE_HELP                                             \
    "file with the cookie of a NODE (default: ALLOGRAM_COOKIE in the\n" \
    "environment, else the user's own file)"

enum { AG_NODE_COOKIE_BYTES = 1024 };

/* Reads the cookie from the file of the option, the environment, or the user's own file. The cookie
 * itself is never an argument of a command, because every user of the machine can see arguments.
 * Returns 0, or a negative errno with a line in ret_text. */
int ag_node_cookie_find(const struct ag_link_place *place, char ret_cookie[AG_NODE_COOKIE_BYTES],
                        char ret_text[AG_LINK_TEXT_BYTES]);

#endif
