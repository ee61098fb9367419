/* node_calls.h: a connection to an Erlang node, and calls of the node's functions. */
#ifndef AG_BEAM_NODE_CALLS_H
#define AG_BEAM_NODE_CALLS_H

#include <ei.h>
#include <stdbool.h>
#include <stddef.h>

#include "remote/machine_link.h"

struct ag_node_connection {
    ei_cnode self; /* allogram's own node */
    int fd;
    int number_fd; /* a socket that reserves the number in allogram's own node name; -1: none */
    bool is_gone;
    uint32_t events; /* bits 1 << enum ag_link_event: events that have come from allogram's
                      * process in the node */
};

/* Returns 0, or a negative errno with a line in ret_text. */
int ag_node_connect(struct ag_node_connection *connection, const char *node, const char *cookie,
                    char ret_text[AG_LINK_TEXT_BYTES]);
void ag_node_disconnect(struct ag_node_connection *connection);

/* Calls MODULE:FUNCTION with ARGUMENTS, a list whose end this function adds, and frees ARGUMENTS.
 * ret_answer: a new buffer; *ret_at is where the answer begins in it. Returns 0; -ENOTCONN: the
 * node is gone; -ETIMEDOUT. The caller frees ret_answer in any case. */
int ag_node_call(struct ag_node_connection *connection, const char *module, const char *function,
                 ei_x_buff *arguments, ei_x_buff *ret_answer, int *ret_at);
/* The same for a call that may need up to MS milliseconds. */
int ag_node_long_call(struct ag_node_connection *connection, const char *module,
                      const char *function, ei_x_buff *arguments, unsigned ms,
                      ei_x_buff *ret_answer, int *ret_at);
/* Waits up to MS milliseconds for one message, and sets the bit of the message's event in
 * connection->events. */
void ag_node_listen(struct ag_node_connection *connection, unsigned ms);

/* Reads the string at AT and advances AT. Returns false if there is none. Characters that are not
 * ASCII become '?'. */
bool ag_node_text(const ei_x_buff *answer, int *at, char *ret_text, size_t capacity);
/* Whether the term at AT is this atom; if so, advances AT. */
bool ag_node_is_atom(const ei_x_buff *answer, int *at, const char *atom);

#endif
