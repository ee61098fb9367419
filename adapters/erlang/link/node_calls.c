/* node_calls.c: connects to a running Erlang node and calls its functions, for node_link.c. For
 * this, allogram is an Erlang node of its own. The node is hidden: other nodes do not connect to it
 * by themselves.
 *
 * OTP's own C library (ei) implements the protocol: it finds the node through epmd, proves that
 * both nodes know the cookie (a shared secret), and encodes terms (Erlang's values). This file
 * reads messages of the node only while it waits for an answer, or in ag_node_listen; the library
 * then also answers the node's keep-alive (every 15 s). A message is either the answer to a call
 * ({rex, Answer}), or an event ({allogram, Event}) from allogram's process in the node
 * (allogram_attached.erl). Received lengths are not trusted: the size of a string is checked before
 * it is decoded. */
#include "node_calls.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"

enum {
    CONNECT_MS = 10 * 1000,
    EPMD_S = 3,
    ANSWER_MS = 60 * 1000, /* a node under full load needs long to set its trace patterns */
    PART_MS = 1000,
    NUMBERS = 64,
};

/* ---- connecting ---- */

/* Asks epmd (the name server of Erlang nodes) for the node. The library has asked already, but does
 * not report at which step it failed. Returns whether epmd knows the node (1 or 0), or a negative
 * errno. */
static int ask_epmd(const char *alive, size_t alive_length, const char *host) {
    enum { PORT_PLEASE = 122, HERE_IT_IS = 119, TAG_BYTES = 1, LENGTH_BYTES = 2 };
    const char *port = getenv("ERL_EPMD_PORT");
    const struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    const struct timeval patience = {.tv_sec = EPMD_S};
    struct addrinfo *found = NULL;
    if (getaddrinfo(host, port != NULL ? port : "4369", &hints, &found) != 0) {
        return -EADDRNOTAVAIL;
    }
    char question[LENGTH_BYTES + TAG_BYTES + MAXNODELEN];
    question[0] = (char)((alive_length + TAG_BYTES) >> 8);
    question[1] = (char)(alive_length + TAG_BYTES);
    question[2] = PORT_PLEASE;
    memcpy(question + LENGTH_BYTES + TAG_BYTES, alive, alive_length);
    unsigned char answer[2];
    const ssize_t wanted = (ssize_t)(LENGTH_BYTES + TAG_BYTES + alive_length);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r = -ECONNREFUSED;
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0 &&
        connect(fd, found->ai_addr, found->ai_addrlen) == 0 &&
        send(fd, question, (size_t)wanted, MSG_NOSIGNAL) == wanted &&
        recv(fd, answer, sizeof answer, MSG_WAITALL) == (ssize_t)sizeof answer &&
        answer[0] == HERE_IT_IS) {
        r = answer[1] == 0 ? 1 : 0;
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    freeaddrinfo(found);
    return r;
}

static int explain(const char *name, char ret_text[AG_LINK_TEXT_BYTES]) {
    const char *host = strchr(name, '@') + 1;
    const bool is_late = erl_errno == ETIMEDOUT;
    const int known = ask_epmd(name, (size_t)(host - 1 - name), host);
    if (known == 1) {
        (void)snprintf(ret_text, AG_LINK_TEXT_BYTES, "%.200s: the node %s", name,
                       is_late ? "does not answer"
                               : "refuses the connection: it has another cookie (use "
                                 "--cookie-file=FILE), or accepts only TLS");
        return -EACCES;
    }
    (void)snprintf(ret_text, AG_LINK_TEXT_BYTES, "%.150s: no such node: %s %.150s%s", name,
                   known == 0                ? "no node of this name is registered with epmd on"
                   : known == -EADDRNOTAVAIL ? "there is no machine"
                                             : "no epmd answers on",
                   host, known == 0 ? "; epmd -names lists those that are" : "");
    return -ENOENT;
}

/* Returns a number for the name of allogram's own node. The other node keeps each name for ever, as
 * an atom, so only a few numbers are in use. A node accepts one connection of each name, so a bound
 * socket without a file reserves the number. *ret_fd: the socket. If all numbers are reserved
 * already, or no number can be reserved, returns the pid of this process, and *ret_fd is -1. */
static int own_number(int *ret_fd) {
    const int first = (int)getpid() % NUMBERS;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (int i = 0; i < NUMBERS && fd >= 0; i++) {
        const int number = (first + i) % NUMBERS;
        struct sockaddr_un address = {.sun_family = AF_UNIX}; /* first byte of the path: 0 */
        (void)snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "allogram node %d",
                       number);
        if (bind(fd, (const struct sockaddr *)&address, sizeof address) == 0) {
            *ret_fd = fd;
            return number;
        }
    }
    if (fd >= 0) {
        (void)close(fd);
    }
    *ret_fd = -1;
    return (int)getpid();
}

int ag_node_connect(struct ag_node_connection *connection, const char *node, const char *cookie,
                    char ret_text[AG_LINK_TEXT_BYTES]) {
    char alive[64], own[MAXNODELEN + 1], name[MAXNODELEN + 1];
    const char *host = strchr(node, '@') + 1;
    *connection = (struct ag_node_connection){.fd = -1, .number_fd = -1};
    if (strlen(node) >= MAXNODELEN - sizeof alive || strlen(cookie) > EI_MAX_COOKIE_SIZE) {
        (void)snprintf(ret_text, AG_LINK_TEXT_BYTES,
                       "%.100s: the node's name or its cookie is too long", node);
        return -ENAMETOOLONG;
    }
    (void)snprintf(alive, sizeof alive, "allogram_%d", own_number(&connection->number_fd));
    (void)snprintf(own, sizeof own, "%s@%s", alive, host);
    (void)snprintf(name, sizeof name, "%s", node);
    (void)ei_init(); /* initializes locks; fails only if out of memory, in which case connecting
                      * fails as well */
    if (ei_connect_xinit(&connection->self, host, alive, own, NULL, cookie,
                         (short)(time(NULL) & 0x7fff)) < 0) {
        (void)snprintf(ret_text, AG_LINK_TEXT_BYTES, "%.200s: cannot prepare the connection: %s",
                       node, strerror(erl_errno));
        return -EIO;
    }
    erl_errno = 0;
    connection->fd = ei_connect_tmo(&connection->self, name, CONNECT_MS);
    return connection->fd >= 0 ? 0 : explain(node, ret_text);
}

void ag_node_disconnect(struct ag_node_connection *connection) {
    if (connection->fd >= 0) {
        (void)ei_close_connection(connection->fd); /* the result of closing does not matter */
    }
    connection->fd = -1;
    if (connection->number_fd >= 0) {
        (void)close(connection->number_fd); /* nothing was written */
    }
    connection->number_fd = -1;
}

/* ---- messages ---- */

bool ag_node_is_atom(const ei_x_buff *answer, int *at, const char *atom) {
    char found[MAXATOMLEN_UTF8] = "";
    int after = *at, type = 0, size = 0;
    if (ei_get_type(answer->buff, &after, &type, &size) < 0 || type != ERL_ATOM_EXT ||
        ei_decode_atom(answer->buff, &after, found) < 0 || strcmp(found, atom) != 0) {
        return false;
    }
    *at = after;
    return true;
}

static char printable(unsigned long character) {
    return character >= ' ' && character < 127 ? (char)character : '?';
}

static bool take_list(const ei_x_buff *answer, int *at, char *ret_text, size_t capacity) {
    int arity = 0;
    size_t length = 0;
    if (ei_decode_list_header(answer->buff, at, &arity) < 0) {
        return false;
    }
    for (int i = 0; i < arity; i++) {
        unsigned long character = 0;
        if (*at >= answer->index || ei_decode_ulong(answer->buff, at, &character) < 0) {
            return false;
        }
        if (length + 1 < capacity) {
            ret_text[length++] = printable(character);
        }
    }
    ret_text[length] = '\0';
    return arity == 0 || ei_skip_term(answer->buff, at) == 0; /* the tail of the list */
}

bool ag_node_text(const ei_x_buff *answer, int *at, char *ret_text, size_t capacity) {
    int type = 0, size = 0;
    if (ei_get_type(answer->buff, at, &type, &size) < 0) {
        return false;
    }
    if (type != ERL_STRING_EXT) {
        return (type == ERL_LIST_EXT || type == ERL_NIL_EXT) &&
               take_list(answer, at, ret_text, capacity);
    }
    char *whole = malloc((size_t)size + 1);
    const bool is_there = whole != NULL && ei_decode_string(answer->buff, at, whole) == 0;
    size_t length = 0;
    for (; is_there && length < (size_t)size && length + 1 < capacity; length++) {
        ret_text[length] = printable((unsigned char)whole[length]);
    }
    ret_text[length] = '\0';
    free(whole);
    return is_there;
}

static void note_event(struct ag_node_connection *connection, const ei_x_buff *message, int at) {
    static const struct {
        const char *name;
        enum ag_link_event event;
    } events[] = {{"stop", AG_LINK_STOP}, {"reset", AG_LINK_RESET}, {"dump", AG_LINK_DUMP}};
    for (size_t i = 0; i < AG_ARRAY_SIZE(events); i++) {
        if (ag_node_is_atom(message, &at, events[i].name)) {
            connection->events |= 1u << events[i].event;
        }
    }
}

enum came { CAME_NOTHING, CAME_SOMETHING, CAME_ANSWER };

/* Waits up to MS milliseconds for one message. *ret_at: where the answer to a call begins. */
static enum came take_message(struct ag_node_connection *connection, unsigned ms,
                              ei_x_buff *message, int *ret_at) {
    erlang_msg about;
    int version = 0, arity = 0, at = 0;
    message->index = 0;
    erl_errno = 0;
    const int kind = ei_xreceive_msg_tmo(connection->fd, &about, message, ms);
    if (kind == ERL_ERROR) {
        connection->is_gone = erl_errno != ETIMEDOUT && erl_errno != EAGAIN && erl_errno != EINTR;
        return CAME_NOTHING;
    }
    if (kind != ERL_MSG || (about.msgtype != ERL_SEND && about.msgtype != ERL_REG_SEND) ||
        ei_decode_version(message->buff, &at, &version) < 0 ||
        ei_decode_tuple_header(message->buff, &at, &arity) < 0 || arity != 2) {
        return CAME_SOMETHING;
    }
    if (ag_node_is_atom(message, &at, "rex")) {
        *ret_at = at;
        return CAME_ANSWER;
    }
    if (ag_node_is_atom(message, &at, "allogram")) {
        note_event(connection, message, at);
    }
    return CAME_SOMETHING;
}

void ag_node_listen(struct ag_node_connection *connection, unsigned ms) {
    ei_x_buff message;
    int at;
    if (!connection->is_gone && ei_x_new(&message) == 0) {
        (void)take_message(connection, ms, &message, &at); /* late answers are dropped */
        (void)ei_x_free(&message);
    }
}

int ag_node_call(struct ag_node_connection *connection, const char *module, const char *function,
                 ei_x_buff *arguments, ei_x_buff *ret_answer, int *ret_at) {
    return ag_node_long_call(connection, module, function, arguments, ANSWER_MS, ret_answer,
                             ret_at);
}

int ag_node_long_call(struct ag_node_connection *connection, const char *module,
                      const char *function, ei_x_buff *arguments, unsigned ms,
                      ei_x_buff *ret_answer, int *ret_at) {
    const uint64_t until_ns = ag_monotonic_ns() + ms * UINT64_C(1000000);
    char module_name[MAXATOMLEN], function_name[MAXATOMLEN];
    *ret_answer = (ei_x_buff){0};
    (void)snprintf(module_name, sizeof module_name, "%s", module);
    (void)snprintf(function_name, sizeof function_name, "%s", function);
    (void)ei_x_encode_empty_list(arguments);
    connection->is_gone = connection->is_gone || ei_x_new(ret_answer) < 0 ||
                          ei_rpc_to(&connection->self, connection->fd, module_name, function_name,
                                    arguments->buff, arguments->index) < 0;
    (void)ei_x_free(arguments);
    while (!connection->is_gone && ag_monotonic_ns() < until_ns) {
        if (take_message(connection, PART_MS, ret_answer, ret_at) == CAME_ANSWER) {
            return 0;
        }
    }
    return connection->is_gone ? -ENOTCONN : -ETIMEDOUT;
}
