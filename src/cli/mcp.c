/* mcp.c: `allogram mcp`: a server of the Model Context Protocol on standard input and output, which
 * answers questions about traces, for example those of a language model.
 *
 * 1. The protocol. Each message is one line with an object of JSON-RPC 2.0. Two kinds of clients
 * are served, as the section "Backward Compatibility with Initialization-Based Versions" describes
 * (https://modelcontextprotocol.io/specification/2026-07-28/basic/versioning). A request of
 * revision 2026-07-28 names its revision in its _meta, and depends on no earlier request. Clients
 * of earlier revisions first send `initialize`
 * (https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle). The server remembers
 * nothing between requests, so clients of both kinds may use it.
 *
 * 2. The tools. A tool is a command of allogram with fewer options. A call becomes the words of a
 * command line, which the command checks as it checks those of a user. So the answers are those of
 * the command, and no number is computed here. Only options in the tables below exist: none that
 * writes a file, reads a file other than the trace, or uses the network.
 *
 * 3. Untrusted input. The messages may come from a model that has read hostile text. A message has
 * at most MESSAGE_BYTES and VALUES_MOST values; JSON is read without recursion
 * (text/json_reader.h). The command runs in a child process, because reading a hostile trace may
 * take time and memory: the child is killed after SECONDS_MOST, or when it has written more than
 * OUTPUT_BYTES. If the server dies, the child dies, too. If traces are named on the command line,
 * no other trace can be read.
 *
 * 4. Requests are answered one after the other. So a notification that cancels a request is read
 * only after the answer was sent. It is ignored, as the specification allows. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "text/json_reader.h"
#include "text/json_writer.h"

enum {
    MESSAGE_BYTES = 1 << 20,
    VALUES_MOST = 4096,
    OUTPUT_BYTES = 128 << 10, /* most output of a call: about as much as a model can read at once */
    ERROR_BYTES = 8 << 10,
    SECONDS_MOST = 60,
    WORDS_MOST = 32,   /* of a command line */
    WORD_BYTES = 4200, /* an option with a path */
    ROWS_USUAL = 20,
    ROWS_MOST = 1000,
};
enum error_code { /* of JSON-RPC 2.0; the last is of the Model Context Protocol */
                  ERROR_PARSE = -32700,
                  ERROR_REQUEST = -32600,
                  ERROR_METHOD = -32601,
                  ERROR_PARAMETERS = -32602,
                  ERROR_INTERNAL = -32603,
                  ERROR_VERSION = -32022,
};

static const char modern_version[] = "2026-07-28";
/* a client that asks for a version that is not in this list is offered the first one */
static const char *const legacy_versions[] = {"2025-11-25", "2025-06-18", "2024-11-05"};

/* ---- tools ---- */

enum argument_kind { TEXT, COUNT, FLAG, TRACE };
struct argument {
    const char *name; /* name of the option, with _ in place of - */
    enum argument_kind kind;
    const char *about;
};
enum { ARGUMENTS_MOST = 24 };
struct tool {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *about;
    const char *option; /* an option that the command always gets; NULL: none */
    struct argument arguments[ARGUMENTS_MOST];
};
static const struct tool tools[] = {
    {"explain",
     ag_command_explain,
     "The most important facts of a memory trace in at most 5000 bytes of JSON: sums, findings with "
     "file and line, the lines that allocate most, and what is missing. Call this first.",
     "--json",
     {{"trace", TRACE, "path of the trace"},
      {"findings", FLAG, "look for all findings, however large the trace"}}},
    {"report",
     ag_command_report,
     "One view of a memory trace as a table or tree, with the options of `allogram report`.",
     NULL,
     {{"trace", TRACE, "path of the trace"},
      {"view", TEXT,
       "summary, sites, tree, types, blocks, leaks, peak, temporary, lifetimes, timeline, "
       "functions, gc, threads, heaps, mappings, rss"},
      {"json", FLAG, "JSON with exact numbers instead of text"},
      {"limit", COUNT, "rows, or children of a node: 20 if not given, at most 1000"},
      {"sort", TEXT, "a metric, such as peak_bytes, allocated_bytes, in_use_bytes, acc_words"},
      {"by", TEXT, "sites: function (default), line, stack, image, thread, heap, type, label"},
      {"focus", TEXT, "regular expression: only stacks with a frame that matches"},
      {"ignore", TEXT, "regular expression: no stacks with a frame that matches"},
      {"from", TEXT, "only blocks allocated from this time on: seconds from the start, or 10ms"},
      {"to", TEXT, "only events before this time"},
      {"at", TEXT, "peak: the blocks in use at another moment"},
      {"thread", COUNT, "only this thread"},
      {"runtime", TEXT, "only blocks of this runtime (c: native blocks)"},
      {"type", TEXT, "types: the stacks of this type; blocks: only blocks of it"},
      {"state", TEXT, "blocks: open, closed, inherited, ghost"},
      {"frames", COUNT, "frames of each stack, or levels of the tree"},
      {"bottom_up", FLAG, "tree: from the allocating functions to their callers"},
      {"tree", FLAG, "functions: by call path"},
      {"callers", TEXT, "functions: callers of this function"},
      {"blame", FLAG, "gc: the functions that caused the collections"},
      {"min_count", COUNT, "leave out rows with fewer blocks"},
      {"within", COUNT, "temporary: freed after at most this many other allocations"}}},
    {"diff",
     ag_command_diff,
     "What grew and what shrank from one memory trace to another.",
     NULL,
     {{"before", TRACE, "path of the earlier trace"},
      {"after", TRACE, "path of the later trace"},
      {"json", FLAG, "JSON with exact numbers instead of text"},
      {"limit", COUNT, "rows: 20 if not given, at most 1000"},
      {"sort", TEXT, "a metric, such as peak_bytes, allocated_bytes, in_use_bytes"},
      {"by", TEXT, "function (default), line, image, heap, type, label"},
      {"focus", TEXT, "regular expression: only stacks with a frame that matches"},
      {"ignore", TEXT, "regular expression: no stacks with a frame that matches"}}},
};

struct server {
    char **traces; /* the only traces that may be read */
    int n_traces;  /* 0: all */
    char *message; /* room for MESSAGE_BYTES */
    struct ag_json_value *values;
    struct ag_json_document document;
    FILE *out;
};
struct request {
    struct server *server;
    /* the id of the request: a text or a number; NULL: not known, or a notification */
    const struct ag_json_value *id;
    const struct ag_json_value *parameters; /* NULL: none */
    bool is_modern;                         /* of revision 2026-07-28 */
};

/* ---- answers ---- */

static void write_id(struct ag_json *json, const struct request *request) {
    char text[512];
    int64_t number;
    if (request->id != NULL &&
        ag_json_copy_integer(&request->server->document, request->id, &number)) {
        ag_json_signed(json, "id", number);
    } else {
        const bool is_text =
            ag_json_copy_text(&request->server->document, request->id, text, sizeof text);
        ag_json_string(json, "id", is_text ? text : NULL); /* NULL becomes null */
    }
}

static struct ag_json answer_begin(const struct request *request) {
    struct ag_json json = {.out = request->server->out};
    ag_json_open(&json, NULL, '{');
    ag_json_string(&json, "jsonrpc", "2.0");
    write_id(&json, request);
    return json;
}

static void answer_error(const struct request *request, enum error_code code, const char *message) {
    struct ag_json json = answer_begin(request);
    ag_json_open(&json, "error", '{');
    ag_json_signed(&json, "code", code);
    ag_json_string(&json, "message", message);
    ag_json_close(&json, '}');
    ag_json_close(&json, '}'); /* ends the line, too */
}

static void write_self(struct ag_json *json, const char *key) {
    ag_json_open(json, key, '{');
    ag_json_string(json, "name", "allogram");
    ag_json_string(json, "version", AG_VERSION);
    ag_json_close(json, '}');
}

static struct ag_json result_begin(const struct request *request) {
    struct ag_json json = answer_begin(request);
    ag_json_open(&json, "result", '{');
    if (request->is_modern) {
        ag_json_string(&json, "resultType", "complete");
        ag_json_open(&json, "_meta", '{');
        write_self(&json, "io.modelcontextprotocol/serverInfo");
        ag_json_close(&json, '}');
    }
    return json;
}

static void result_end(struct ag_json *json) {
    ag_json_close(json, '}');
    ag_json_close(json, '}'); /* ends the line, too */
}

/* Writes how long a client may keep a result that depends only on this server's command line. */
static void write_caching(const struct request *request, struct ag_json *json) {
    enum { HOUR_MS = 3600000 };
    if (request->is_modern) {
        ag_json_integer(json, "ttlMs", HOUR_MS);
        ag_json_string(json, "cacheScope", "private");
    }
}

static void write_capabilities(struct ag_json *json) {
    ag_json_open(json, "capabilities", '{');
    ag_json_open(json, "tools", '{');
    ag_json_close(json, '}');
    ag_json_close(json, '}');
}

static const char instructions[] =
    "allogram records every allocation and free of a program in a trace. Call explain first; it "
    "names the options of report that show more.";

/* ---- methods other than tools/call ---- */

static void answer_initialize(const struct request *request) {
    const struct ag_json_document *document = &request->server->document;
    char asked[64] = "";
    const char *version = legacy_versions[0];
    if (!ag_json_copy_text(document,
                           ag_json_member(document, request->parameters, "protocolVersion"), asked,
                           sizeof asked)) {
        answer_error(request, ERROR_PARAMETERS, "initialize: protocolVersion is not a string");
        return;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(legacy_versions); i++) {
        version = strcmp(asked, legacy_versions[i]) == 0 ? legacy_versions[i] : version;
    }
    struct ag_json json = result_begin(request);
    ag_json_string(&json, "protocolVersion", version);
    write_capabilities(&json);
    write_self(&json, "serverInfo");
    ag_json_string(&json, "instructions", instructions);
    result_end(&json);
}

static void write_versions(struct ag_json *json, const char *key) {
    ag_json_open(json, key, '[');
    ag_json_string(json, NULL, modern_version);
    for (size_t i = 0; i < AG_ARRAY_SIZE(legacy_versions); i++) {
        ag_json_string(json, NULL, legacy_versions[i]);
    }
    ag_json_close(json, ']');
}

static void answer_discover(const struct request *request) {
    struct ag_json json = result_begin(request);
    write_versions(&json, "supportedVersions");
    write_capabilities(&json);
    ag_json_string(&json, "instructions", instructions);
    write_caching(request, &json);
    result_end(&json);
}

static void answer_ping(const struct request *request) {
    struct ag_json json = result_begin(request);
    result_end(&json);
}

static void write_argument(const struct server *server, struct ag_json *json,
                           const struct argument *argument) {
    static const char *const types[] = {
        [TEXT] = "string", [COUNT] = "integer", [FLAG] = "boolean", [TRACE] = "string"};
    ag_json_open(json, argument->name, '{');
    ag_json_string(json, "type", types[argument->kind]);
    ag_json_string(json, "description", argument->about);
    if (argument->kind == COUNT) {
        ag_json_integer(json, "minimum", 0);
    }
    if (argument->kind == TRACE && server->n_traces > 0) {
        ag_json_strings(json, "enum", (const char *const *)server->traces,
                        (size_t)server->n_traces);
    }
    ag_json_close(json, '}');
}

/* Whether a call must contain the argument. The argument `trace` may be missing if the server was
 * started with exactly one trace. */
static bool is_required(const struct server *server, const struct argument *argument) {
    return argument->kind == TRACE &&
           (server->n_traces != 1 || strcmp(argument->name, "trace") != 0);
}

static void answer_tools(const struct request *request) {
    struct ag_json json = result_begin(request);
    ag_json_open(&json, "tools", '[');
    for (size_t i = 0; i < AG_ARRAY_SIZE(tools); i++) {
        const struct argument *arguments = tools[i].arguments;
        ag_json_open(&json, NULL, '{');
        ag_json_string(&json, "name", tools[i].name);
        ag_json_string(&json, "description", tools[i].about);
        ag_json_open(&json, "inputSchema", '{');
        ag_json_string(&json, "type", "object");
        ag_json_open(&json, "properties", '{');
        for (size_t k = 0; k < ARGUMENTS_MOST && arguments[k].name != NULL; k++) {
            write_argument(request->server, &json, &arguments[k]);
        }
        ag_json_close(&json, '}');
        ag_json_open(&json, "required", '[');
        for (size_t k = 0; k < ARGUMENTS_MOST && arguments[k].name != NULL; k++) {
            if (is_required(request->server, &arguments[k])) {
                ag_json_string(&json, NULL, arguments[k].name);
            }
        }
        ag_json_close(&json, ']');
        ag_json_bool(&json, "additionalProperties", false);
        ag_json_close(&json, '}');
        ag_json_open(&json, "annotations", '{');
        ag_json_bool(&json, "readOnlyHint", true);
        ag_json_bool(&json, "openWorldHint", false);
        ag_json_close(&json, '}');
        ag_json_close(&json, '}');
    }
    ag_json_close(&json, ']');
    write_caching(request, &json);
    result_end(&json);
}

/* ---- the command line of a call ---- */

struct command_line {
    char words[WORDS_MOST][WORD_BYTES];
    int n_words;
    char traces[2][WORD_BYTES];
    int n_traces;
    bool has_limit;
    char error[512]; /* empty: the arguments are valid */
};

static char *next_word(struct command_line *line) {
    return line->words[line->n_words++];
}

static void add_trace(const struct server *server, struct command_line *line, const char *path) {
    bool is_allowed = server->n_traces == 0;
    for (int i = 0; i < server->n_traces; i++) {
        is_allowed |= strcmp(server->traces[i], path) == 0;
    }
    if (!is_allowed) {
        (void)snprintf(line->error, sizeof line->error,
                       "%.200s is not one of the traces that this server was started with", path);
    }
    (void)snprintf(line->traces[line->n_traces++], WORD_BYTES, "%s", path);
}

/* Adds an option --name=VALUE, or --name for a flag that is true. */
static void add_option(const struct ag_json_document *document, struct command_line *line,
                       const struct argument *argument, const struct ag_json_value *value) {
    char name[32], text[WORD_BYTES - sizeof name - 8];
    int64_t number = 0;
    (void)snprintf(name, sizeof name, "%s", argument->name);
    for (char *c = name; *c != '\0'; c++) {
        *c = *c == '_' ? '-' : *c;
    }
    const bool is_limit = strcmp(name, "limit") == 0;
    if (argument->kind == FLAG) {
        if (value->kind == AG_JSON_TRUE) {
            (void)snprintf(next_word(line), WORD_BYTES, "--%s", name);
        } else if (value->kind != AG_JSON_FALSE) {
            (void)snprintf(line->error, sizeof line->error, "%s is not a boolean", argument->name);
        }
    } else if (argument->kind == COUNT) {
        if (!ag_json_copy_integer(document, value, &number) || number < 0) {
            (void)snprintf(line->error, sizeof line->error, "%s is not an integer of at least 0",
                           argument->name);
        } else if (is_limit && (number == 0 || number > ROWS_MOST)) {
            (void)snprintf(line->error, sizeof line->error, "limit is not a number from 1 to %d",
                           ROWS_MOST);
        }
        (void)snprintf(next_word(line), WORD_BYTES, "--%s=%" PRId64, name, number);
        line->has_limit |= is_limit;
    } else if (ag_json_copy_text(document, value, text, sizeof text)) {
        (void)snprintf(next_word(line), WORD_BYTES, "--%s=%s", name, text);
    } else {
        (void)snprintf(line->error, sizeof line->error,
                       "%s is not a string, contains U+0000, or is too long", argument->name);
    }
}

static void add_argument(const struct server *server, struct command_line *line,
                         const struct argument *argument, const struct ag_json_value *value) {
    char path[WORD_BYTES];
    if (argument->kind != TRACE) {
        if (value != NULL) {
            add_option(&server->document, line, argument, value);
        }
    } else if (value == NULL && !is_required(server, argument)) {
        add_trace(server, line, server->traces[0]);
    } else if (ag_json_copy_text(&server->document, value, path, sizeof path)) {
        add_trace(server, line, path);
    } else {
        (void)snprintf(line->error, sizeof line->error, "%s is not the path of a trace",
                       argument->name);
    }
}

/* An argument with an unknown name is an error: if it were ignored, the model would take the answer
 * for an answer to its question. */
static void check_names(const struct ag_json_document *document, const struct tool *tool,
                        const struct ag_json_value *given, struct command_line *line) {
    const struct ag_json_value *end = document->values + given->after;
    for (const struct ag_json_value *name = given + 1; name < end;
         name = document->values + name[1].after) {
        char text[64];
        bool is_known = false;
        const bool is_short = ag_json_copy_text(document, name, text, sizeof text);
        for (size_t i = 0; is_short && i < ARGUMENTS_MOST && tool->arguments[i].name; i++) {
            is_known |= strcmp(tool->arguments[i].name, text) == 0;
        }
        if (!is_short) {
            (void)snprintf(line->error, sizeof line->error,
                           "%s: an argument has a name that is too long or is not valid text",
                           tool->name);
        } else if (!is_known) {
            (void)snprintf(line->error, sizeof line->error, "%s has no argument %s", tool->name,
                           text);
        }
    }
}

static void make_command_line(const struct server *server, const struct tool *tool,
                              const struct ag_json_value *given, struct command_line *line) {
    (void)snprintf(next_word(line), WORD_BYTES, "%s", tool->name);
    if (tool->option != NULL) {
        (void)snprintf(next_word(line), WORD_BYTES, "%s", tool->option);
    }
    if (given != NULL) {
        check_names(&server->document, tool, given, line);
    }
    bool takes_limit = false;
    for (size_t i = 0; i < ARGUMENTS_MOST && tool->arguments[i].name != NULL; i++) {
        const struct argument *argument = &tool->arguments[i];
        takes_limit |= strcmp(argument->name, "limit") == 0;
        add_argument(server, line, argument,
                     ag_json_member(&server->document, given, argument->name));
    }
    if (takes_limit && !line->has_limit) {
        (void)snprintf(next_word(line), WORD_BYTES, "--limit=%d", ROWS_USUAL);
    }
    (void)snprintf(next_word(line), WORD_BYTES, "--"); /* a path may begin with - */
    for (int i = 0; i < line->n_traces; i++) {
        (void)snprintf(next_word(line), WORD_BYTES, "%s", line->traces[i]);
    }
}

/* ---- a call ---- */

struct outcome {
    char *output; /* room for OUTPUT_BYTES and a terminator */
    size_t n_output;
    char error[ERROR_BYTES + 1]; /* what the command wrote to standard error */
    size_t n_error;
    const char *failure; /* why the child was killed, or was not started; NULL: it ended itself */
    int status;
};

/* Called in the child process: runs the command and exits. */
static void become_command(const struct tool *tool, struct command_line *line, pid_t parent,
                           int output, int error) {
    char *words[WORDS_MOST + 1] = {NULL};
    for (int i = 0; i < line->n_words; i++) {
        words[i] = line->words[i];
    }
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail for a valid signal */
    if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(output, STDOUT_FILENO) < 0 ||
        dup2(error, STDERR_FILENO) < 0 || getppid() != parent) {
        _exit(AG_EXIT_OWN_FAILURE);
    }
    const int status = ag_stdout_finish(tool->run(line->n_words, words));
    (void)fflush(stderr); /* cannot fail: stderr has no buffer */
    _exit(status);
}

/* Reads a part of what the child has written. Returns false if there is no more. Bytes for which
 * there is no room are dropped; *ret_exceeds is then true. */
static bool read_part(int fd, char *to, size_t *used, size_t room, bool *ret_exceeds) {
    char part[4096];
    const ssize_t n = read(fd, part, sizeof part);
    if (n < 0) {
        return errno == EINTR;
    }
    const size_t fits = (size_t)n < room - *used ? (size_t)n : room - *used;
    memcpy(to + *used, part, fits);
    *used += fits;
    *ret_exceeds = fits < (size_t)n;
    return n > 0;
}

/* Reads what the child writes, until it ends or has to be killed. */
static void listen_to(struct outcome *outcome, int output, int error) {
    const uint64_t end_ns = ag_monotonic_ns() + SECONDS_MOST * UINT64_C(1000000000);
    struct pollfd ways[] = {{.fd = output, .events = POLLIN}, {.fd = error, .events = POLLIN}};
    while (outcome->failure == NULL && (ways[0].fd >= 0 || ways[1].fd >= 0)) {
        const uint64_t now_ns = ag_monotonic_ns();
        bool exceeds = false;
        if (now_ns >= end_ns) {
            outcome->failure = "the call took more than 60 seconds, and was ended; use a filter, "
                               "or the command in a terminal";
            return;
        }
        if (poll(ways, AG_ARRAY_SIZE(ways), (int)((end_ns - now_ns) / 1000000) + 1) <= 0) {
            continue;
        }
        if (ways[1].revents != 0 &&
            !read_part(error, outcome->error, &outcome->n_error, ERROR_BYTES, &exceeds)) {
            ways[1].fd = -1; /* poll ignores negative descriptors */
        }
        exceeds = false; /* bytes of standard error for which there is no room are dropped */
        if (ways[0].revents != 0 &&
            !read_part(output, outcome->output, &outcome->n_output, OUTPUT_BYTES, &exceeds)) {
            ways[0].fd = -1;
        }
        if (exceeds) {
            outcome->failure = "the result has more than 131072 bytes; use a smaller limit, fewer "
                               "frames, or a filter";
        }
    }
}

static void run_command(const struct tool *tool, struct command_line *line,
                        struct outcome *outcome) {
    int output[2] = {-1, -1}, error[2] = {-1, -1};
    const pid_t self = getpid();
    pid_t child = -1;
    if (pipe2(output, O_CLOEXEC) == 0 && pipe2(error, O_CLOEXEC) == 0) {
        child = fork();
    }
    if (child == 0) {
        become_command(tool, line, self, output[1], error[1]);
    }
    (void)close(output[1]); /* nothing was written; close(-1) fails and does nothing */
    (void)close(error[1]);
    if (child < 0) {
        outcome->failure = "the command could not be started";
    } else {
        listen_to(outcome, output[0], error[0]);
        if (outcome->failure != NULL) {
            (void)kill(child, SIGKILL); /* its pid is not reused before waitpid */
        }
        while (waitpid(child, &outcome->status, 0) < 0 && errno == EINTR) {
        }
    }
    (void)close(output[0]); /* only read */
    (void)close(error[0]);
    outcome->output[outcome->n_output] = '\0';
    outcome->error[outcome->n_error] = '\0';
}

static void write_text(struct ag_json *json, const char *text) {
    if (text[0] != '\0') {
        ag_json_open(json, NULL, '{');
        ag_json_string(json, "type", "text");
        ag_json_string(json, "text", text);
        ag_json_close(json, '}');
    }
}

/* An error that the caller of the tool can correct is a result, so that a model sees it. */
static void answer_call(const struct request *request, const struct outcome *outcome,
                        const char *wrong) {
    const bool has_ended = wrong == NULL && outcome->failure == NULL;
    const bool is_good =
        has_ended && WIFEXITED(outcome->status) && WEXITSTATUS(outcome->status) == AG_EXIT_OK;
    struct ag_json json = result_begin(request);
    ag_json_open(&json, "content", '[');
    if (wrong != NULL) {
        write_text(&json, wrong);
    } else if (outcome->failure != NULL) {
        write_text(&json, outcome->failure);
    } else {
        write_text(&json, outcome->output);
        write_text(&json, outcome->error);
        if (WIFSIGNALED(outcome->status)) {
            write_text(&json, "the command was ended by a signal");
        }
    }
    ag_json_close(&json, ']');
    ag_json_bool(&json, "isError", !is_good);
    result_end(&json);
}

static const struct tool *find_tool(const char *name) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(tools); i++) {
        if (strcmp(tools[i].name, name) == 0) {
            return &tools[i];
        }
    }
    return NULL;
}

static void answer_tool_call(const struct request *request) {
    const struct ag_json_document *document = &request->server->document;
    const struct ag_json_value *given = ag_json_member(document, request->parameters, "arguments");
    char name[64] = "";
    const struct tool *tool =
        ag_json_copy_text(document, ag_json_member(document, request->parameters, "name"), name,
                          sizeof name)
            ? find_tool(name)
            : NULL;
    if (tool == NULL || (given != NULL && given->kind != AG_JSON_OBJECT)) {
        answer_error(request, ERROR_PARAMETERS,
                     tool == NULL ? "tools/call: no tool has this name"
                                  : "tools/call: arguments is not an object");
        return;
    }
    struct command_line *line = calloc(1, sizeof *line);
    struct outcome outcome = {.output = malloc(OUTPUT_BYTES + 1)};
    if (line == NULL || outcome.output == NULL) {
        answer_error(request, ERROR_INTERNAL, "tools/call: out of memory");
    } else {
        make_command_line(request->server, tool, given, line);
        if (line->error[0] == '\0') {
            run_command(tool, line, &outcome);
        }
        answer_call(request, &outcome, line->error[0] != '\0' ? line->error : NULL);
    }
    free(outcome.output);
    free(line);
}

/* ---- messages ---- */

static const struct method {
    const char *name;
    void (*answer)(const struct request *request);
} methods[] = {
    {"initialize", answer_initialize},    {"ping", answer_ping},
    {"server/discover", answer_discover}, {"tools/list", answer_tools},
    {"tools/call", answer_tool_call},
};

/* Determines the revision of the request. If the revision is not supported, sends an error and
 * returns false. */
static bool take_version(struct request *request) {
    const struct ag_json_document *document = &request->server->document;
    const struct ag_json_value *meta = ag_json_member(document, request->parameters, "_meta");
    const struct ag_json_value *named =
        ag_json_member(document, meta, "io.modelcontextprotocol/protocolVersion");
    char version[64] = "";
    request->is_modern = named != NULL;
    if (named == NULL) {
        return true;
    }
    if (!ag_json_copy_text(document, named, version, sizeof version) ||
        ag_json_member(document, meta, "io.modelcontextprotocol/clientCapabilities") == NULL) {
        answer_error(request, ERROR_PARAMETERS,
                     "_meta needs io.modelcontextprotocol/protocolVersion, a string, and "
                     "io.modelcontextprotocol/clientCapabilities");
        return false;
    }
    if (strcmp(version, modern_version) != 0) {
        struct ag_json json = answer_begin(request);
        ag_json_open(&json, "error", '{');
        ag_json_signed(&json, "code", ERROR_VERSION);
        ag_json_string(&json, "message", "Unsupported protocol version");
        ag_json_open(&json, "data", '{');
        write_versions(&json, "supported");
        ag_json_string(&json, "requested", version);
        ag_json_close(&json, '}');
        ag_json_close(&json, '}');
        ag_json_close(&json, '}'); /* ends the line, too */
        return false;
    }
    return true;
}

static void answer_request(struct request *request, const char *name) {
    if (!take_version(request)) {
        return;
    }
    for (size_t i = 0; i < AG_ARRAY_SIZE(methods); i++) {
        if (strcmp(methods[i].name, name) == 0) {
            methods[i].answer(request);
            return;
        }
    }
    answer_error(request, ERROR_METHOD, "unknown method");
}

static bool is_valid_id(const struct ag_json_document *document, const struct ag_json_value *id) {
    char text[512];
    int64_t number;
    return ag_json_copy_integer(document, id, &number) ||
           ag_json_copy_text(document, id, text, sizeof text);
}

static void answer_message(struct server *server, size_t length) {
    struct ag_json_document *document = &server->document;
    struct request request = {.server = server};
    char version[8] = "", name[128] = "";
    *document = (struct ag_json_document){.text = server->message,
                                          .length = length,
                                          .values = server->values,
                                          .capacity = VALUES_MOST};
    const int r = ag_json_read(document);
    if (r < 0) {
        answer_error(&request, r == -E2BIG ? ERROR_REQUEST : ERROR_PARSE,
                     r == -E2BIG ? "the message has too many values, or is nested too deeply"
                                 : "the message is not JSON");
        return;
    }
    const struct ag_json_value *all = server->values;
    const struct ag_json_value *method = ag_json_member(document, all, "method");
    const struct ag_json_value *id = ag_json_member(document, all, "id");
    const bool has_version = ag_json_copy_text(document, ag_json_member(document, all, "jsonrpc"),
                                               version, sizeof version) &&
                             strcmp(version, "2.0") == 0;
    if (has_version && method == NULL && id != NULL &&
        (ag_json_member(document, all, "result") != NULL ||
         ag_json_member(document, all, "error") != NULL)) {
        return; /* a response; this server sends no requests, so the response is ignored */
    }
    request.id = id != NULL && is_valid_id(document, id) ? id : NULL;
    if (!has_version || method == NULL || method->kind != AG_JSON_STRING ||
        (id != NULL && request.id == NULL)) {
        answer_error(&request, ERROR_REQUEST, "the message is not a request of JSON-RPC 2.0");
        return;
    }
    if (id == NULL) {
        return; /* a notification gets no answer, and this server ignores all notifications */
    }
    (void)ag_json_copy_text(document, method, name, sizeof name); /* if it is too long, NAME is "",
                                                                   * which is no method */
    request.parameters = ag_json_member(document, all, "params");
    if (request.parameters != NULL && request.parameters->kind != AG_JSON_OBJECT) {
        answer_error(&request, ERROR_PARAMETERS, "params is not an object");
        return;
    }
    answer_request(&request, name);
}

static bool is_blank(const char *text, size_t length) {
    return strspn(text, " \t\r") >= length;
}

/* Reads lines until standard input ends. */
static int serve(struct server *server) {
    size_t length = 0;
    bool is_too_long = false;
    for (bool has_ended = false; !has_ended;) {
        const int c = getc_unlocked(stdin);
        has_ended = c == EOF; /* the last line may lack its newline */
        if (c != '\n' && !has_ended) {
            is_too_long |= length == MESSAGE_BYTES;
            if (!is_too_long) {
                server->message[length++] = (char)c;
            }
            continue;
        }
        server->message[length] = '\0';
        if (is_too_long) {
            const struct request unknown = {.server = server};
            answer_error(&unknown, ERROR_REQUEST, "the message has more than 1048576 bytes");
        } else if (!is_blank(server->message, length)) {
            answer_message(server, length);
        }
        length = 0;
        is_too_long = false;
        if (fflush(server->out) != 0) {
            return AG_EXIT_FAILURE; /* ag_stdout_finish prints the message */
        }
    }
    return ferror(stdin) ? ag_fail(AG_EXIT_FAILURE, "mcp: standard input: %s", strerror(errno))
                         : AG_EXIT_OK;
}

int ag_command_mcp(int argc, char **argv) {
    struct ag_options options = {
        .usage = "mcp [TRACE...]",
        .about = "Answers questions about traces by the Model Context Protocol, on standard input "
                 "and output.\nWith TRACE: only about these traces.",
    };
    if (!ag_options_read(&options, argc, argv, /* set= */ NULL, NULL)) {
        return options.status;
    }
    struct server server = {.traces = options.operands,
                            .n_traces = options.n_operands,
                            .message = malloc(MESSAGE_BYTES + 1),
                            .values = calloc(VALUES_MOST, sizeof *server.values),
                            .out = stdout};
    const int status = server.message != NULL && server.values != NULL
                           ? serve(&server)
                           : ag_fail(AG_EXIT_FAILURE, "mcp: %s", strerror(ENOMEM));
    free(server.values);
    free(server.message);
    return status;
}
