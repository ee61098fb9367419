/* endpoint.h: `run --serve=PORT`: an HTTP server with the page of `allogram view` on the recording
 * so far, and with the profiles that Go's pprof reads from a running program. */
#ifndef AG_ENDPOINT_H
#define AG_ENDPOINT_H

#include <stdint.h>
#include <sys/types.h>

#include "writer/snapshot.h"

enum { AG_ENDPOINT_TOKEN_BYTES = 33 };
struct ag_endpoint {
    int listen_fd; /* listening socket; -1: no endpoint */
    uint16_t port;
    char token[AG_ENDPOINT_TOKEN_BYTES];
    char name[256]; /* file name of the trace, which pages show */
    pid_t server;   /* pid of the server process; 0: none */
};

/* Binds PORT on loopback (0: any free port), and makes the token, a random text that every request
 * to the server must contain. Called before the program and the writer are started. Returns 0, or a
 * negative errno with one line in ret_message. */
int ag_endpoint_open(struct ag_endpoint *endpoint, uint16_t port, char ret_message[512]);
/* Starts a process that serves requests until it is stopped or its parent ends. TRACE: the path of
 * the trace. Closes the listening socket in this process. Returns 0 or a negative errno. */
int ag_endpoint_start(struct ag_endpoint *endpoint, struct ag_snapshot_requests *requests,
                      const char *trace);
/* Ends the server process and waits until it has ended. */
void ag_endpoint_stop(struct ag_endpoint *endpoint);

#endif
