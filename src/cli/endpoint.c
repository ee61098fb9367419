/* endpoint.c: an HTTP server with the page of `allogram view` on the recording so far, and with
 * three profiles for `go tool pprof` and other tools for Go programs.
 *
 * 1. Access. The server listens only on 127.0.0.1, and every request needs the token that `run`
 *    printed, as ?token= or as a bearer token. Other users of the machine, and web pages in a
 *    browser of this user, can connect to the port, but do not know the token.
 *
 * 2. Content. For each profile, and for each page "/view", the writer (the process that makes the
 *    traces) writes a snapshot of the program's first process (writer/snapshot.c) in a private
 *    folder. A child exports the snapshot to pprof with `allogram export`, or makes the page with
 *    `allogram view`. So the server returns exactly what these commands write. The profile `growth`
 *    shows the memory that was allocated since the last request for `growth` and is still in use.
 *
 * 3. Load. The server answers one request at a time. All clients are polled together, and the bytes
 *    and the time of each request are limited, so a client that connects and sends nothing does not
 *    delay other clients. If CLIENTS_MOST clients are connected, a new client replaces the client
 *    that connected first. Expensive work, and work that a client can delay by not reading, is done
 *    only for clients with the token. The server is a separate process, so that clients cannot
 *    affect `run` or the writer. */
#include "cli/endpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "base/descriptor.h"
#include "cli/background.h"

enum {
    REQUEST_BYTES = 8192,
    CLIENT_PATIENCE_S = 10,
    /* most clients that are connected at a time; each needs 8 KiB of memory, and a user with
     * several scripts needs fewer clients */
    CLIENTS_MOST = 16,
    SNAPSHOT_PATIENCE_MS = 30 * 1000,
    BACKLOG = 16,
};

struct client { /* a client that has not sent a complete request */
    int fd;
    uint64_t end_ns; /* time at which the client times out */
    size_t length;   /* length of `text`, without its NUL */
    char text[REQUEST_BYTES];
};

struct server {
    const struct ag_endpoint *endpoint;
    struct ag_snapshot_requests *requests;
    char folder[64];
    /* time of the snapshot of the last `growth` profile, in ns since the start of the recording; 0:
     * no such profile was sent */
    uint64_t growth_ns;
    struct client clients[CLIENTS_MOST]; /* the clients in the order in which they connected */
    size_t n_clients;
};

static volatile sig_atomic_t is_over;

static void end_it(int signal) {
    (void)signal;
    is_over = 1;
}

/* ---- answers ---- */

static bool send_all(int client, const char *bytes, size_t length) {
    while (length > 0) {
        const ssize_t n = send(client, bytes, length, MSG_NOSIGNAL);
        if (n > 0) {
            bytes += n;
            length -= (size_t)n;
        } else if (n == 0 || errno != EINTR) {
            return false; /* the client closed the connection, or has not read for too long */
        }
    }
    return true;
}

/* The address of a page contains the token, so no browser may store it or pass it on. */
static const char page_headers[] =
    "Content-Type: text/html; charset=utf-8\r\n"
    "Cache-Control: no-store\r\nReferrer-Policy: no-referrer\r\nX-Frame-Options: DENY\r\n";

/* The page "/" shows the page "/view" in a frame, and replaces it by a new one from time to time.
 * The fragment of the frame's address contains what the user has selected; the new page gets the
 * same fragment. The pause between two pages is thirty times as long as the server needed for the
 * last page, and at least 5 s, so that the server uses at most some 3 % of a CPU. When the
 * recording has ended, the last page remains visible. */
static const char live_page[] =
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>allogram</title><style>"
    "html,body{margin:0;height:100%}body{display:flex;flex-direction:column;font:14px sans-serif}"
    "p{margin:4px 12px}iframe{flex:1;border:0}</style>"
    "<p><button id=\"pause\" aria-pressed=\"false\">pause</button> "
    "<span id=\"state\" role=\"status\">waiting for the first numbers</span></p>"
    "<iframe id=\"view\" title=\"the recording so far\"></iframe><script>\n"
    "const [pause, state, view] = ['pause', 'state', 'view'].map(id => "
    "document.getElementById(id));\n"
    "let paused = false, url = null, shown = '';\n"
    "pause.onclick = () => { paused = !paused; pause.setAttribute('aria-pressed', paused); "
    "state.textContent = (paused ? 'paused' : 'live') + shown; };\n"
    "view.onload = () => { document.title = view.contentDocument.title || 'allogram'; };\n"
    "async function refresh() {\n"
    "  const begin = performance.now();\n"
    "  if (!paused) try {\n"
    "    const answer = await fetch('/view' + location.search);\n"
    "    const text = await answer.text();\n"
    "    if (!answer.ok) state.textContent = text;\n"
    "    else if (!paused) {\n"
    "      const before = url;\n"
    "      url = URL.createObjectURL(new Blob([text], {type: 'text/html'}));\n"
    "      view.src = url + view.contentWindow.location.hash;\n"
    "      if (before) URL.revokeObjectURL(before);\n"
    "      shown = ', as of ' + new Date().toLocaleTimeString();\n"
    "      state.textContent = 'live' + shown;\n"
    "    }\n"
    "  } catch { state.textContent = 'no connection: the recording has ended' + shown; }\n"
    "  setTimeout(refresh, Math.max(5000, 30 * (performance.now() - begin)));\n"
    "}\n"
    "refresh();\n"
    "</script></html>\n";

static void answer_live_page(int client) {
    char head[512];
    const int length = snprintf(head, sizeof(head),
                                "HTTP/1.1 200 OK\r\n%sContent-Length: %zu\r\n"
                                "Connection: close\r\n\r\n",
                                page_headers, sizeof(live_page) - 1);
    (void)(send_all(client, head, (size_t)length) &&
           send_all(client, live_page, sizeof(live_page) - 1));
}

static void answer_text(int client, const char *status, const char *text) {
    char head[256];
    const int length = snprintf(head, sizeof(head),
                                "HTTP/1.1 %s\r\nContent-Type: text/plain; charset=utf-8\r\n"
                                "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                                status, strlen(text));
    (void)(send_all(client, head, (size_t)length) && send_all(client, text, strlen(text)));
}

static void answer_file(int client, int fd, uint64_t bytes, const char *headers) {
    char head[512];
    const int length = snprintf(head, sizeof(head),
                                "HTTP/1.1 200 OK\r\n%s"
                                "Content-Length: %llu\r\nConnection: close\r\n\r\n",
                                headers, (unsigned long long)bytes);
    off_t at = 0;
    bool goes_on = send_all(client, head, (size_t)length);
    while (goes_on && (uint64_t)at < bytes) {
        const ssize_t n = sendfile(client, fd, &at, (size_t)(bytes - (uint64_t)at));
        goes_on = n > 0 || (n < 0 && errno == EINTR);
    }
}

/* ---- pages ---- */

/* Runs allogram in the private folder with WORDS, which end with NULL. Returns whether it
 * succeeded. */
static bool run_allogram(const struct server *server, const char *const *words) {
    const pid_t child = fork();
    if (child == 0) {
        if (chdir(server->folder) == 0) {
            (void)execv("/proc/self/exe", (char *const *)(uintptr_t)words);
        }
        _exit(127);
    }
    int status = -1;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Takes a snapshot, runs allogram with WORDS, which reads the snapshot and writes the file OUTPUT
 * in the private folder, and sends this file. Returns whether the file was sent; if so,
 * *ret_until_ns is the time of the snapshot, in ns since the start of the recording. */
static bool answer_made(const struct server *server, int client, const char *const *words,
                        const char *output, const char *headers, uint64_t *ret_until_ns) {
    char trace[512], made[512];
    struct stat status;
    bool is_sent = false;
    (void)snprintf(trace, sizeof(trace), "%s/%s", server->folder, server->endpoint->name);
    (void)snprintf(made, sizeof(made), "%s/%s", server->folder, output);
    (void)unlink(trace);
    (void)unlink(made); /* both files may remain from a request that failed */
    if (!ag_snapshot_take(server->requests, trace, SNAPSHOT_PATIENCE_MS, &is_over, ret_until_ns)) {
        answer_text(client, "503 Service Unavailable",
                    "no snapshot: the program has not started yet, or has ended\n");
    } else if (!run_allogram(server, words)) {
        answer_text(client, "500 Internal Server Error",
                    "the snapshot could not be exported: is there room in the folder for "
                    "temporary files?\n");
    } else {
        const int fd = open(made, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &status) == 0) {
            answer_file(client, fd, (uint64_t)status.st_size, headers);
            is_sent = true;
        }
        ag_descriptor_close(fd);
    }
    (void)unlink(trace);
    (void)unlink(made); /* if the snapshot failed, neither file exists */
    return is_sent;
}

static void answer_profile(struct server *server, int client, const char *metric, bool is_growth) {
    static const char output[] = "now.pb.gz";
    char metric_option[64], from_option[64];
    uint64_t until_ns = 0;
    const uint64_t from_ns = is_growth ? server->growth_ns : 0;
    (void)snprintf(metric_option, sizeof(metric_option), "--metric=%s", metric);
    (void)snprintf(from_option, sizeof(from_option), "--from=%lluns", (unsigned long long)from_ns);
    /* --fold=auto would leave out different functions in each profile, because its choice depends
     * on the functions' shares, which change during a recording. Tools subtract profiles of
     * different times, so the profiles have all frames. */
    const char *const words[] = {"allogram",
                                 "export",
                                 server->endpoint->name,
                                 "--to=pprof",
                                 "--fold=none",
                                 "--allow-empty",
                                 "-o",
                                 output,
                                 metric_option,
                                 from_ns > 0 ? from_option : NULL,
                                 NULL};
    if (answer_made(server, client, words, output,
                    "Content-Type: application/octet-stream\r\n"
                    "Content-Disposition: attachment; filename=\"profile.pb.gz\"\r\n",
                    &until_ns)) {
        server->growth_ns = is_growth ? until_ns : server->growth_ns;
    }
}

/* The page of `allogram view` on the recording so far. */
static void answer_view(struct server *server, int client) {
    static const char output[] = "now.html";
    uint64_t unused;
    const char *const words[] = {"allogram",  "view", server->endpoint->name, "-o", output,
                                 "--no-open", NULL};
    (void)answer_made(server, client, words, output, page_headers, &unused);
}

/* ---- requests ---- */

/* Compares a token of a query or header with the correct token, in a time that does not depend on
 * how many of its characters are correct. */
static bool token_matches(const char *text, const char *token) {
    unsigned char difference = 0;
    for (size_t i = 0; i < AG_ENDPOINT_TOKEN_BYTES - 1; i++) {
        difference |= (unsigned char)(text[i] ^ token[i]);
        if (text[i] == '\0') {
            return false;
        }
    }
    const char behind = text[AG_ENDPOINT_TOKEN_BYTES - 1];
    return difference == 0 && (behind == '\0' || strchr("& \r\n", behind));
}

static bool is_allowed(const char *request, const char *query, const char *token) {
    static const char key[] = "token=", bearer[] = "\nauthorization: bearer ";
    for (const char *at = query; at; at = strchr(at, '&')) {
        at += *at == '&';
        if (strncmp(at, key, sizeof(key) - 1) == 0) {
            return token_matches(at + sizeof(key) - 1, token);
        }
    }
    const char *header = strcasestr(request, bearer);
    return header && token_matches(header + sizeof(bearer) - 1, token);
}

enum reading { WAITING, UNDERSTOOD, REFUSED };

/* Reads the bytes that have arrived. A request is complete (UNDERSTOOD) after the empty line that
 * follows the headers. */
static enum reading read_request(struct client *client) {
    const size_t room = REQUEST_BYTES - 1 - client->length;
    char *text = client->text + client->length;
    const ssize_t n = recv(client->fd, text, room, MSG_DONTWAIT);
    const bool is_in_time = ag_monotonic_ns() < client->end_ns;
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        return is_in_time ? WAITING : REFUSED;
    }
    if (n <= 0 || memchr(text, '\0', (size_t)n)) {
        return REFUSED;
    }
    client->length += (size_t)n;
    text[n] = '\0';
    if (strstr(client->text, "\r\n\r\n") || strstr(client->text, "\n\n")) {
        return UNDERSTOOD;
    }
    return is_in_time && client->length < REQUEST_BYTES - 1 ? WAITING : REFUSED;
}

static void answer_request(struct server *server, int client, char *request) {
    static const struct {
        const char *path, *metric;
        bool is_growth;
    } pages[] = {{"/debug/pprof/heap", "in_use_bytes", false},
                 {"/debug/pprof/allocs", "allocated_bytes", false},
                 {"/debug/pprof/growth", "in_use_bytes", true}};
    char *path = strncmp(request, "GET ", 4) == 0 ? request + 4 : NULL;
    char *end = path ? strpbrk(path, " \r\n") : NULL;
    if (!end || *end != ' ') {
        answer_text(client, "405 Method Not Allowed", "only GET is supported\n");
        return;
    }
    char *headers = end + 1;
    *end = '\0';
    char *query = strchr(path, '?');
    if (query) {
        *query++ = '\0';
    }
    if (!is_allowed(headers, query, server->endpoint->token)) {
        answer_text(client, "403 Forbidden",
                    "the token is missing or wrong: add ?token=... as allogram run printed it\n");
        return;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(pages); i++) {
        if (strcmp(path, pages[i].path) == 0) {
            answer_profile(server, client, pages[i].metric, pages[i].is_growth);
            return;
        }
    }
    if (strcmp(path, "/") == 0) {
        answer_live_page(client);
        return;
    }
    if (strcmp(path, "/view") == 0) {
        answer_view(server, client);
        return;
    }
    answer_text(
        client, "404 Not Found",
        "/                    the page of allogram view, refreshed\n"
        "/view                the same page, once\n/debug/pprof/heap    in use now\n/debug/pprof/allocs  allocated so far\n"
        "/debug/pprof/growth  in use now, allocated since the last request for growth\n");
}

/* ---- clients ---- */

static void finish_client(struct server *server, size_t at, enum reading reading) {
    struct client *client = &server->clients[at];
    if (reading == UNDERSTOOD) {
        answer_request(server, client->fd, client->text);
    } else {
        answer_text(client->fd, "400 Bad Request", "malformed request\n");
    }
    (void)shutdown(client->fd, SHUT_WR);
    (void)close(client->fd); /* a client that has stopped reading does not get the rest */
    server->n_clients--;
    memmove(client, client + 1, (server->n_clients - at) * sizeof(*client));
}

static void read_clients(struct server *server) {
    for (size_t at = 0; at < server->n_clients && !is_over;) {
        const enum reading reading = read_request(&server->clients[at]);
        if (reading == WAITING) {
            at++;
        } else {
            finish_client(server, at, reading);
        }
    }
}

static void accept_client(struct server *server, int listen_fd) {
    const struct timeval patience = {.tv_sec = CLIENT_PATIENCE_S};
    const int fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) {
        return; /* for example, because the client closed the connection */
    }
    if (server->n_clients == CLIENTS_MOST) {
        finish_client(server, 0, REFUSED);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    struct client *client = &server->clients[server->n_clients++];
    client->fd = fd;
    client->end_ns = ag_monotonic_ns() + CLIENT_PATIENCE_S * UINT64_C(1000000000);
    client->length = 0;
}

/* Waits until a client connects or sends something, at most a second. Then answers the requests
 * that are complete, and accepts a new client. */
static void wait_for_clients(struct server *server, int listen_fd) {
    struct pollfd polled[1 + CLIENTS_MOST] = {{.fd = listen_fd, .events = POLLIN}};
    for (size_t i = 0; i < server->n_clients; i++) {
        polled[1 + i] = (struct pollfd){.fd = server->clients[i].fd, .events = POLLIN};
    }
    const int n = poll(polled, 1 + server->n_clients, 1000);
    /* before accept_client, which may replace a client that has already sent its request */
    read_clients(server);
    if (n > 0 && polled[0].revents & POLLIN && !is_over) {
        accept_client(server, listen_fd);
    }
}

/* ---- life ---- */

static void isolate_server(int listen_fd) {
    static const int ignored[] = {SIGHUP, SIGINT, SIGQUIT, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM, 0};
    const struct sigaction usual = {.sa_handler = SIG_DFL}, over = {.sa_handler = end_it};
    (void)sigaction(SIGCHLD, &usual, NULL); /* cannot fail for these signals */
    (void)sigaction(SIGTERM, &over, NULL);
    ag_background_begin("allogram-serve", ignored);
    /* if the program's output is a pipe, its reader waits until this process, too, has closed the
     * pipe */
    ag_background_replace_by_null(STDIN_FILENO, STDERR_FILENO);
    ag_background_close_all_but(&listen_fd, 1);
}

static _Noreturn void serve(const struct ag_endpoint *endpoint,
                            struct ag_snapshot_requests *requests, pid_t parent) {
    struct server server = {.endpoint = endpoint, .requests = requests};
    const char *folder = getenv("TMPDIR");
    isolate_server(endpoint->listen_fd);
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    const size_t length = folder ? strlen(folder) : 0;
    const bool fits = length > 0 && length < sizeof(server.folder) - 24 && folder[0] == '/';
    (void)snprintf(server.folder, sizeof(server.folder), "%s/allogram-serve-XXXXXX",
                   fits ? folder : "/tmp");
    if (!mkdtemp(server.folder)) {
        _exit(1);
    }
    while (!is_over && getppid() == parent) {
        wait_for_clients(&server, endpoint->listen_fd);
    }
    (void)rmdir(server.folder);
    _exit(0);
}

static int make_token(char ret_token[AG_ENDPOINT_TOKEN_BYTES]) {
    unsigned char random[(AG_ENDPOINT_TOKEN_BYTES - 1) / 2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        return -EIO;
    }
    for (size_t i = 0; i < sizeof(random); i++) {
        (void)snprintf(ret_token + 2 * i, 3, "%02x", random[i]);
    }
    return 0;
}

int ag_endpoint_open(struct ag_endpoint *endpoint, uint16_t port, char ret_message[512]) {
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    const int yes = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int r = fd < 0 ? -errno : make_token(endpoint->token);
    (void)(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)));
    if (r == 0 &&
        (bind(fd, (struct sockaddr *)&address, sizeof(address)) < 0 || listen(fd, BACKLOG) < 0 ||
         getsockname(fd, (struct sockaddr *)&address, &size) < 0)) {
        r = -errno;
    }
    if (r < 0) {
        (void)snprintf(ret_message, 512, "run: --serve=%u: cannot listen on 127.0.0.1:%u: %s%s",
                       port, port, strerror(-r),
                       r == -EADDRINUSE ? "; choose another port, or 0 for any that is free" : "");
        if (fd >= 0) {
            (void)close(fd); /* nothing was written */
        }
        return r;
    }
    endpoint->listen_fd = fd;
    endpoint->port = ntohs(address.sin_port);
    return 0;
}

int ag_endpoint_start(struct ag_endpoint *endpoint, struct ag_snapshot_requests *requests,
                      const char *trace) {
    const char *slash = strrchr(trace, '/');
    (void)snprintf(endpoint->name, sizeof(endpoint->name), "%s", slash ? slash + 1 : trace);
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
        serve(endpoint, requests, parent);
    }
    const int r = child < 0 ? -errno : 0;
    (void)close(endpoint->listen_fd); /* nothing was written */
    endpoint->listen_fd = -1;
    endpoint->server = child > 0 ? child : 0;
    return r;
}

void ag_endpoint_stop(struct ag_endpoint *endpoint) {
    if (endpoint->server > 0) {
        (void)kill(endpoint->server, SIGTERM);
        while (waitpid(endpoint->server, NULL, 0) < 0 && errno == EINTR) {
        }
        endpoint->server = 0;
    }
}
