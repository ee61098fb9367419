/* endpoint.h: `run --serve=PORT`: what Go's pprof asks a running program for, over HTTP. */
#ifndef AG_ENDPOINT_H
#define AG_ENDPOINT_H

#include <stdint.h>
#include <sys/types.h>

#include "writer/writer.h"

enum { AG_ENDPOINT_TOKEN_BYTES = 33 };
struct ag_endpoint {
    int listen_fd; /* -1: nobody asked for one */
    uint16_t port;
    char token[AG_ENDPOINT_TOKEN_BYTES];
    pid_t server; /* 0: none */
};

/* Takes the port on loopback (0: any that is free), before anything is started. 0, or negative
 * errno with one line. */
int ag_endpoint_open(struct ag_endpoint *endpoint, uint16_t port, char ret_message[512]);
/* A process that answers until it is ended, or we are; our copy of the port is closed. 0 or
 * negative errno. */
int ag_endpoint_start(struct ag_endpoint *endpoint, struct ag_snapshot_desk *desk);
/* Ends it and waits for it. */
void ag_endpoint_stop(struct ag_endpoint *endpoint);

#endif
