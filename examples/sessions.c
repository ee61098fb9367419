/* sessions.c: a server's table of sessions, with a leak: the program of docs/tutorials/leak.md and
 * docs/tutorials/ci-gate.md.
 *
 * 1,000 users log in 200 times each. A session has a token of its own. */
#include <stdio.h>
#include <stdlib.h>

enum { USERS = 1000, REQUESTS = 200000, TOKEN_BYTES = 64 };

struct session {
    int user;
    char *token;
};

static struct session *sessions[USERS];

static struct session *open_session(int user, int request) {
    struct session *session = malloc(sizeof *session);
    char *token = malloc(TOKEN_BYTES);
    if (!session || !token) {
        abort();
    }
    (void)snprintf(token, TOKEN_BYTES, "%08x-%08x", (unsigned)user, (unsigned)request);
    *session = (struct session){user, token};
    return session;
}

static void close_session(struct session *session) {
    if (session) {
        free(session->token);
        free(session);
    }
}

static void log_in(int user, int request) {
    free(sessions[user]);
    sessions[user] = open_session(user, request);
}

int main(void) {
    for (int request = 0; request < REQUESTS; request++) {
        log_in(request * 7 % USERS, request);
    }
    for (int user = 0; user < USERS; user++) {
        close_session(sessions[user]);
    }
    return 0;
}
