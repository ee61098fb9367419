/* node_link.c: connects to an Erlang node by its name (remote/machine_link.h): attaches to it, for
 * `allogram attach NODE`, and reads how its memory is divided, for `allogram observe NODE`.
 *
 * To attach, this file sends the node the bytes of three modules, which the node loads (to observe:
 * of one module, allogram_memory, which removes itself from the node). The node loads the
 * tracer's native library from a file in the folder of the modules, so the node has to run on this
 * machine and be able to read that folder. If the node already has one of these modules, that
 * module is used, and stays loaded at the end. If the node has another module of that name,
 * attaching fails, and that module stays loaded. All reasons for a failure are checked before
 * anything is traced. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/compiler.h"
#include "node_calls.h"
#include "node_cookie.h"

extern const struct ag_link_kind ag_link_erlang;

enum { MODULE_BYTES_MOST = 1024 * 1024, PATH_BYTES = 4096 };
static const char *const modules[] = {"allogram", "allogram_selection", "allogram_attached"};
enum { N_MODULES = AG_ARRAY_SIZE(modules) };
static const char memory_module[] = "allogram_memory";
enum { LEAVE_MS = 300, LEAVE_US = 20 * 1000, LEAVE_TIMES = 25 };

struct ag_link {
    struct ag_node_connection connection;
    char name[MAXNODELEN + 1];
    char folder[PATH_BYTES]; /* folder of the modules; "": not found */
    uint32_t pid;
    /* by module: this link loaded it, and so removes it at the end */
    bool has_loaded[N_MODULES];
    bool has_looked; /* the node may have the module for `observe NODE` */
};

/* ---- answers ---- */

static int fail(const struct ag_link *link, int error, const char *what,
                char ret_text[AG_LINK_TEXT_BYTES]) {
    (void)snprintf(ret_text, AG_LINK_TEXT_BYTES, "%.150s: %.300s", link->name, what);
    return error;
}

static int fail_call(const struct ag_link *link, int error, char ret_text[AG_LINK_TEXT_BYTES]) {
    return fail(link, error,
                error == -ENOTCONN    ? "the connection to the node is closed"
                : error == -ETIMEDOUT ? "the node does not answer"
                                      : "the node's answer has an unknown form",
                ret_text);
}

/* Joins the strings of a list, separated by "; ". */
static bool join_texts(const ei_x_buff *answer, int at, char ret_text[AG_LINK_TEXT_BYTES]) {
    int arity = 0;
    size_t length = 0;
    ret_text[0] = '\0';
    if (ei_decode_list_header(answer->buff, &at, &arity) < 0) {
        return false;
    }
    for (int i = 0; i < arity && length + 4 < AG_LINK_TEXT_BYTES; i++) {
        if (i > 0) {
            length += (size_t)snprintf(ret_text + length, 4, "; ");
        }
        if (!ag_node_text(answer, &at, ret_text + length, AG_LINK_TEXT_BYTES - length)) {
            return false;
        }
        length += strlen(ret_text + length);
    }
    return true;
}

/* If the call failed, the answer is {badrpc, {'EXIT', {Reason, Stack}}}, or {badrpc, Reason}.
 * Returns true if the call failed. *ret_is_undefined: whether the reason is `undef`, which means
 * that the module is not loaded. */
static bool has_failed(const ei_x_buff *answer, int at, bool *ret_is_undefined) {
    int arity = 0;
    *ret_is_undefined = false;
    if (ei_decode_tuple_header(answer->buff, &at, &arity) < 0 || arity != 2 ||
        !ag_node_is_atom(answer, &at, "badrpc")) {
        return false;
    }
    *ret_is_undefined = ei_decode_tuple_header(answer->buff, &at, &arity) == 0 && arity == 2 &&
                        ag_node_is_atom(answer, &at, "EXIT") &&
                        ei_decode_tuple_header(answer->buff, &at, &arity) == 0 && arity == 2 &&
                        ag_node_is_atom(answer, &at, "undef");
    return true;
}

/* Reads an answer: ok, {ok, [Text]}, {error, Text}, or {badrpc, Reason} if the call failed. Returns
 * 0 or a negative errno, with the texts or an error message in ret_text. */
static int take_answer(const struct ag_link *link, const ei_x_buff *answer, int at,
                       char ret_text[AG_LINK_TEXT_BYTES]) {
    char why[AG_LINK_TEXT_BYTES];
    int arity = 0;
    bool is_undefined = false;
    ret_text[0] = '\0';
    if (ag_node_is_atom(answer, &at, "ok")) {
        return 0;
    }
    if (has_failed(answer, at, &is_undefined)) {
        return is_undefined
                   ? fail(link, -ENOENT, "no recording by allogram attach runs on this node",
                          ret_text)
                   : fail(link, -EREMOTEIO,
                          "a call of allogram_attached failed in the node (badrpc)", ret_text);
    }
    if (ei_decode_tuple_header(answer->buff, &at, &arity) < 0 || arity != 2) {
        return fail_call(link, -EPROTO, ret_text);
    }
    if (ag_node_is_atom(answer, &at, "ok")) {
        return join_texts(answer, at, ret_text) ? 0 : fail_call(link, -EPROTO, ret_text);
    }
    return ag_node_is_atom(answer, &at, "error") && ag_node_text(answer, &at, why, sizeof why)
               ? fail(link, -EPERM, why, ret_text)
               : fail_call(link, -EPROTO, ret_text);
}

/* ---- calls of one argument, or of none ---- */

static void begin_arguments(ei_x_buff *arguments, int n) {
    (void)ei_x_new(arguments); /* a failure is noticed later: without arguments no call is made */
    if (n > 0) {
        (void)ei_x_encode_list_header(arguments, n);
    }
}

static int call_for_answer(struct ag_link *link, const char *function, ei_x_buff *arguments,
                           char ret_text[AG_LINK_TEXT_BYTES]) {
    ei_x_buff answer;
    int at = 0;
    int r = ag_node_call(&link->connection, "allogram_attached", function, arguments, &answer, &at);
    r = r < 0 ? fail_call(link, r, ret_text) : take_answer(link, &answer, at, ret_text);
    (void)ei_x_free(&answer);
    return r;
}

/* Calls MODULE:FUNCTION(Atom). Returns whether the answer was the atom WANTED. */
static bool ask_about(struct ag_link *link, const char *module, const char *function,
                      const char *atom, const char *wanted) {
    ei_x_buff arguments, answer;
    int at = 0;
    begin_arguments(&arguments, 1);
    (void)ei_x_encode_atom(&arguments, atom);
    const bool is_so =
        ag_node_call(&link->connection, module, function, &arguments, &answer, &at) == 0 &&
        ag_node_is_atom(&answer, &at, wanted);
    (void)ei_x_free(&answer);
    return is_so;
}

/* ---- opening ---- */

static bool takes(const char *name) {
    const char *at = strchr(name, '@');
    return at != NULL && at != name && at[1] != '\0' && strchr(at + 1, '@') == NULL;
}

/* Finds the folder of the modules. If allogram is installed, it is next to the agent (allogram's
 * library for programs); in a build tree it is adapters/erlang/inside. */
static void find_folder(struct ag_link *link, const char *agent_folder) {
    static const char *const places[] = {"beam", "../erlang/inside"};
    for (size_t i = 0; agent_folder != NULL && i < AG_ARRAY_SIZE(places); i++) {
        char path[2 * PATH_BYTES], resolved[PATH_BYTES];
        (void)snprintf(path, sizeof path, "%.4000s/%s/allogram_attached.beam", agent_folder,
                       places[i]);
        if (realpath(path, resolved) != NULL && access(resolved, R_OK) == 0) {
            *strrchr(resolved, '/') = '\0';
            memcpy(link->folder, resolved, sizeof link->folder);
            return;
        }
    }
}

static int ask_pid(struct ag_link *link, char ret_text[AG_LINK_TEXT_BYTES]) {
    ei_x_buff arguments, answer;
    int at = 0;
    char text[32] = "";
    begin_arguments(&arguments, 0);
    const int r = ag_node_call(&link->connection, "os", "getpid", &arguments, &answer, &at);
    const bool is_text = r == 0 && ag_node_text(&answer, &at, text, sizeof text);
    (void)ei_x_free(&answer);
    link->pid = is_text ? (uint32_t)strtoul(text, NULL, 10) : 0;
    return link->pid != 0 ? 0 : fail_call(link, r < 0 ? r : -EPROTO, ret_text);
}

/* Ends the use of the module for `observe NODE`. The node removes the module by itself, even if the
 * command is killed. This function waits a short time for the removal. */
static void leave_memory(struct ag_link *link) {
    ei_x_buff arguments, answer;
    int at;
    erlang_pid self = *ei_self(&link->connection.self);
    begin_arguments(&arguments, 1);
    (void)ei_x_encode_pid(&arguments, &self);
    const int r = ag_node_long_call(&link->connection, memory_module, "leave", &arguments, LEAVE_MS,
                                    &answer, &at);
    (void)ei_x_free(&answer);
    /* if no answer comes, the node removes the module when it notices that the connection is
     * closed */
    for (int i = 0; r == 0 && i < LEAVE_TIMES && !link->connection.is_gone; i++) {
        if (ask_about(link, "erlang", "module_loaded", memory_module, "false") &&
            ask_about(link, "erlang", "check_old_code", memory_module, "false")) {
            return;
        }
        (void)usleep(LEAVE_US);
    }
}

static struct ag_link *close_link(struct ag_link *link) {
    if (link != NULL) {
        if (link->has_looked) {
            leave_memory(link);
        }
        ag_node_disconnect(&link->connection);
        free(link);
    }
    return NULL;
}

static int open_link(const struct ag_link_place *place, struct ag_link **ret_link,
                     char ret_text[AG_LINK_TEXT_BYTES]) {
    char cookie[AG_NODE_COOKIE_BYTES];
    int r = ag_node_cookie_find(place, cookie, ret_text);
    if (r < 0) {
        return r;
    }
    struct ag_link *link = calloc(1, sizeof *link);
    if (link == NULL) {
        (void)snprintf(ret_text, AG_LINK_TEXT_BYTES, "connect: %s", strerror(ENOMEM));
        return -ENOMEM;
    }
    link->connection.fd = link->connection.number_fd = -1;
    (void)snprintf(link->name, sizeof link->name, "%s", place->name);
    r = ag_node_connect(&link->connection, place->name, cookie, ret_text);
    r = r < 0 ? r : ask_pid(link, ret_text);
    if (r < 0) {
        (void)close_link(link);
        return r;
    }
    find_folder(link, place->agent_folder);
    *ret_link = link;
    return 0;
}

static uint32_t pid_of(const struct ag_link *link) {
    return link->pid;
}

static int fd_of(const struct ag_link *link) {
    return link->connection.fd;
}

/* ---- modules ---- */

static int read_module(const char *path, char **ret_bytes, long *ret_length) {
    struct stat status;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return -errno;
    }
    char *bytes = malloc(MODULE_BYTES_MOST);
    const bool is_sane =
        bytes != NULL && fstat(fd, &status) == 0 && status.st_size < MODULE_BYTES_MOST;
    const ssize_t length = is_sane ? read(fd, bytes, MODULE_BYTES_MOST) : -1;
    (void)close(fd); /* nothing was written */
    if (length <= 0 || length != status.st_size) {
        free(bytes);
        return -EIO;
    }
    *ret_bytes = bytes;
    *ret_length = (long)length;
    return 0;
}

enum { MD5_BYTES = 16 };

/* Calls MODULE:FUNCTION, which returns a checksum. */
static bool ask_md5(struct ag_link *link, const char *module, const char *function,
                    ei_x_buff *arguments, char ret_md5[MD5_BYTES]) {
    ei_x_buff answer;
    int at = 0, size = 0, type = 0;
    long n = 0;
    const bool is_there =
        ag_node_call(&link->connection, module, function, arguments, &answer, &at) == 0 &&
        ei_get_type(answer.buff, &at, &type, &size) == 0 && type == ERL_BINARY_EXT &&
        size == MD5_BYTES && ei_decode_binary(answer.buff, &at, ret_md5, &n) == 0;
    (void)ei_x_free(&answer);
    return is_there;
}

/* Whether the file and the node have the same code: compares code:module_md5(Bytes) with
 * erlang:get_module_info(Module, md5). */
static bool is_the_same(struct ag_link *link, const char *module, const char *bytes, long length) {
    ei_x_buff arguments;
    char md5[MD5_BYTES], their_md5[MD5_BYTES];
    begin_arguments(&arguments, 1);
    (void)ei_x_encode_binary(&arguments, bytes, length);
    if (!ask_md5(link, "code", "module_md5", &arguments, md5)) {
        return false;
    }
    begin_arguments(&arguments, 2);
    (void)ei_x_encode_atom(&arguments, module);
    (void)ei_x_encode_atom(&arguments, "md5");
    return ask_md5(link, "erlang", "get_module_info", &arguments, their_md5) &&
           memcmp(md5, their_md5, sizeof md5) == 0;
}

static int send_module(struct ag_link *link, const char *module, const char *path,
                       const char *bytes, long length, char ret_text[AG_LINK_TEXT_BYTES]) {
    ei_x_buff arguments, answer;
    char why[AG_LINK_TEXT_BYTES];
    int at = 0, arity = 0;
    begin_arguments(&arguments, 3);
    (void)ei_x_encode_atom(&arguments, module);
    (void)ei_x_encode_string(&arguments, path);
    (void)ei_x_encode_binary(&arguments, bytes, length);
    int r = ag_node_call(&link->connection, "code", "load_binary", &arguments, &answer, &at);
    if (r < 0) {
        r = fail_call(link, r, ret_text);
    } else if (ei_decode_tuple_header(answer.buff, &at, &arity) < 0 || arity != 2 ||
               !ag_node_is_atom(&answer, &at, "module")) {
        (void)snprintf(why, sizeof why,
                       "the node cannot load %.200s: it has to run on this machine and read that "
                       "folder; its log says more",
                       link->folder);
        r = fail(link, -EACCES, why, ret_text);
    }
    (void)ei_x_free(&answer);
    return r;
}

static void remove_modules(struct ag_link *link) {
    for (size_t i = 0; i < N_MODULES; i++) {
        if (!link->has_loaded[i]) {
            continue;
        }
        (void)ask_about(link, "code", "purge", modules[i], "false"); /* an older version of
                                                                      * allogram's module */
        (void)ask_about(link, "code", "delete", modules[i], "true");
        (void)ask_about(link, "code", "purge", modules[i], "false");
        link->has_loaded[i] = false;
    }
}

/* Sets or clears, in the node, the folder of the tracer's native library. The module `allogram`
 * needs this folder while it is being loaded. */
static void report_folder(struct ag_link *link, bool is_there) {
    ei_x_buff arguments, answer;
    int at;
    begin_arguments(&arguments, is_there ? 3 : 2);
    (void)ei_x_encode_atom(&arguments, modules[0]);
    (void)ei_x_encode_atom(&arguments, "folder");
    if (is_there) {
        (void)ei_x_encode_string(&arguments, link->folder);
    }
    (void)ag_node_call(&link->connection, "application", is_there ? "set_env" : "unset_env",
                       &arguments, &answer, &at); /* a failure is noticed when the module
                                                   * is loaded */
    (void)ei_x_free(&answer);
}

/* Loads one module, if the node does not have it. *ret_is_new: it was loaded. */
static int load_module(struct ag_link *link, const char *module, bool *ret_is_new,
                       char ret_text[AG_LINK_TEXT_BYTES]) {
    char path[PATH_BYTES + 64], why[AG_LINK_TEXT_BYTES];
    char *bytes = NULL;
    long length = 0;
    *ret_is_new = false;
    (void)snprintf(path, sizeof path, "%s/%s.beam", link->folder, module);
    int r = read_module(path, &bytes, &length);
    if (r < 0) {
        (void)snprintf(why, sizeof why, "read %.200s: %s", path, strerror(-r));
        r = fail(link, r, why, ret_text);
    } else if (!ask_about(link, "erlang", "module_loaded", module, "true")) {
        r = send_module(link, module, path, bytes, length, ret_text);
        *ret_is_new = r == 0;
    } else if (!is_the_same(link, module, bytes, length)) {
        (void)snprintf(why, sizeof why,
                       "the node has another module called %s, of another version of allogram "
                       "or of the program",
                       module);
        r = fail(link, -EEXIST, why, ret_text);
    }
    free(bytes);
    return r;
}

static int load_modules(struct ag_link *link, char ret_text[AG_LINK_TEXT_BYTES]) {
    int r = 0;
    report_folder(link, /* is_there= */ true);
    for (size_t i = 0; r == 0 && i < N_MODULES; i++) {
        bool is_new;
        r = load_module(link, modules[i], &is_new, ret_text);
        link->has_loaded[i] |= is_new; /* after a reset, the modules are there already */
    }
    report_folder(link, /* is_there= */ false);
    if (r < 0) {
        remove_modules(link);
    }
    return r;
}

/* ---- recording ---- */

static void encode_texts(ei_x_buff *arguments, const char *name, const char *const *texts,
                         size_t n) {
    (void)ei_x_encode_atom(arguments, name);
    if (n > 0) {
        (void)ei_x_encode_list_header(arguments, (int)n);
    }
    for (size_t i = 0; i < n; i++) {
        (void)ei_x_encode_string(arguments, texts[i]);
    }
    (void)ei_x_encode_empty_list(arguments);
}

static void encode_loaded_modules(ei_x_buff *arguments, const struct ag_link *link) {
    for (size_t i = 0; i < N_MODULES; i++) {
        if (link->has_loaded[i]) {
            (void)ei_x_encode_list_header(arguments, 1);
            (void)ei_x_encode_atom(arguments, modules[i]);
        }
    }
    (void)ei_x_encode_empty_list(arguments);
}

static int node_link_start(struct ag_link *link, const struct ag_link_options *options,
                           char ret_text[AG_LINK_TEXT_BYTES]) {
    ei_x_buff arguments;
    if (link->folder[0] == '\0') {
        return fail(link, -ENOENT, "this allogram was built without its Erlang modules", ret_text);
    }
    int r = load_modules(link, ret_text);
    if (r < 0) {
        return r;
    }
    erlang_pid owner = *ei_self(&link->connection.self);
    begin_arguments(&arguments, 1);
    (void)ei_x_encode_map_header(&arguments, 6);
    (void)ei_x_encode_atom(&arguments, "owner");
    (void)ei_x_encode_pid(&arguments, &owner);
    (void)ei_x_encode_atom(&arguments, "live");
    (void)ei_x_encode_string(&arguments, options->live_path);
    (void)ei_x_encode_atom(&arguments, "mode");
    (void)ei_x_encode_atom(&arguments, options->is_exact ? "exact" : "sample");
    (void)ei_x_encode_atom(&arguments, "removes");
    encode_loaded_modules(&arguments, link);
    encode_texts(&arguments, "processes", options->processes, options->n_processes);
    encode_texts(&arguments, "functions", options->functions, options->n_functions);
    r = call_for_answer(link, "attach", &arguments, ret_text);
    if (r < 0) {
        remove_modules(link);
    }
    return r;
}

static enum ag_link_event next_event(struct ag_link *link) {
    static const enum ag_link_event order[] = {AG_LINK_STOP, AG_LINK_RESET, AG_LINK_DUMP};
    ag_node_listen(&link->connection, /* ms= */ 1);
    for (size_t i = 0; i < AG_ARRAY_SIZE(order); i++) {
        const uint32_t bit = 1u << order[i];
        if (link->connection.events & bit) {
            link->connection.events &= ~bit;
            return order[i];
        }
    }
    return link->connection.is_gone ? AG_LINK_GONE : AG_LINK_QUIET;
}

static int node_link_stop(struct ag_link *link, bool is_again, char ret_text[AG_LINK_TEXT_BYTES]) {
    ei_x_buff arguments;
    begin_arguments(&arguments, 1);
    (void)ei_x_encode_atom(&arguments, is_again ? "again" : "over");
    const int r = call_for_answer(link, "detach", &arguments, ret_text);
    if (!is_again || r < 0) {
        remove_modules(link);
    }
    return r;
}

static int control(struct ag_link *link, const char *action, char ret_text[AG_LINK_TEXT_BYTES]) {
    ei_x_buff arguments;
    begin_arguments(&arguments, 1);
    (void)ei_x_encode_atom(&arguments, action);
    return call_for_answer(link, "control", &arguments, ret_text);
}

/* ---- memory ---- */

enum { ENTRIES_MOST = 1 << 17, LOOK_MS = 10 * 60 * 1000 };

static bool take_number(const ei_x_buff *answer, int *at, int64_t *ret_number) {
    long long number = 0;
    if (*at >= answer->index || ei_decode_longlong(answer->buff, at, &number) < 0) {
        return false;
    }
    *ret_number = number;
    return true;
}

static bool begins_tuple(const ei_x_buff *answer, int *at, int wanted) {
    int arity = 0;
    return *at < answer->index && ei_decode_tuple_header(answer->buff, at, &arity) == 0 &&
           arity == wanted;
}

/* Reads the head of a list; the caller reads the elements and then calls ends_list. */
static bool begins_list(const ei_x_buff *answer, int *at, int *ret_n) {
    return *at < answer->index && ei_decode_list_header(answer->buff, at, ret_n) == 0 &&
           *ret_n <= ENTRIES_MOST;
}

static bool ends_list(const ei_x_buff *answer, int *at, int n) {
    return n == 0 || (*at < answer->index && ei_skip_term(answer->buff, at) == 0);
}

/* An entry is {Name, Owner, Bytes, Count}. */
static bool take_entry(const ei_x_buff *answer, int *at, struct ag_link_memory_entry *entry) {
    return begins_tuple(answer, at, 4) &&
           ag_node_text(answer, at, entry->name, sizeof entry->name) &&
           ag_node_text(answer, at, entry->owner, sizeof entry->owner) &&
           take_number(answer, at, &entry->bytes) && take_number(answer, at, &entry->count);
}

/* A part is {Name, Bytes, Count, Limit, CountName, IsWhole, Entries}. */
static bool take_part(const ei_x_buff *answer, int *at, struct ag_link_memory_part *part) {
    int64_t is_whole = 0;
    int n = 0;
    if (!begins_tuple(answer, at, 7) || !ag_node_text(answer, at, part->name, sizeof part->name) ||
        !take_number(answer, at, &part->bytes) || !take_number(answer, at, &part->count) ||
        !take_number(answer, at, &part->limit) ||
        !ag_node_text(answer, at, part->count_name, sizeof part->count_name) ||
        !take_number(answer, at, &is_whole) || !begins_list(answer, at, &n)) {
        return false;
    }
    part->is_whole = is_whole != 0;
    part->entries = calloc((size_t)n + 1, sizeof *part->entries);
    while (part->entries != NULL && part->n_entries < (size_t)n &&
           take_entry(answer, at, &part->entries[part->n_entries])) {
        part->n_entries++;
    }
    return part->n_entries == (size_t)n && part->entries != NULL && ends_list(answer, at, n);
}

/* The answer is {Release, Parts}. */
static bool take_memory(const ei_x_buff *answer, int at, struct ag_link_memory *memory) {
    char release[32];
    int n = 0;
    if (!begins_tuple(answer, &at, 2) || !ag_node_text(answer, &at, release, sizeof release) ||
        !begins_list(answer, &at, &n) || n > AG_LINK_PARTS_MOST) {
        return false;
    }
    (void)snprintf(memory->version, sizeof memory->version, "OTP %s", release);
    while (memory->n_parts < (size_t)n) {
        if (!take_part(answer, &at, &memory->parts[memory->n_parts++])) {
            return false;
        }
    }
    return true;
}

/* Whether the node's module has the functions of allogram's module for `observe NODE`; otherwise it
 * is a module of the program that only has the same name. */
static bool is_memory_module(struct ag_link *link) {
    static const char *const functions[] = {"look", "leave"};
    bool is_so = true;
    for (size_t i = 0; i < AG_ARRAY_SIZE(functions) && is_so; i++) {
        ei_x_buff arguments, answer;
        int at = 0;
        begin_arguments(&arguments, 3);
        (void)ei_x_encode_atom(&arguments, memory_module);
        (void)ei_x_encode_atom(&arguments, functions[i]);
        (void)ei_x_encode_long(&arguments, /* arity */ 1);
        is_so = ag_node_call(&link->connection, "erlang", "function_exported", &arguments, &answer,
                             &at) == 0 &&
                ag_node_is_atom(&answer, &at, "true");
        (void)ei_x_free(&answer);
    }
    return is_so;
}

/* Loads the module. A module of that name from another version of allogram is replaced, unless a
 * command uses it. */
static int load_memory_module(struct ag_link *link, char ret_text[AG_LINK_TEXT_BYTES]) {
    bool is_new;
    int r = load_module(link, memory_module, &is_new, ret_text);
    if (r == -EEXIST && is_memory_module(link) &&
        ask_about(link, "erlang", "whereis", memory_module, "undefined") &&
        ask_about(link, "code", "soft_purge", memory_module, "true") &&
        ask_about(link, "code", "delete", memory_module, "true") &&
        ask_about(link, "code", "soft_purge", memory_module, "true")) {
        r = load_module(link, memory_module, &is_new, ret_text);
    }
    link->has_looked |= r == 0;
    return r;
}

/* Returns -EAGAIN if another command has removed the module. */
static int look(struct ag_link *link, struct ag_link_memory *ret_memory,
                char ret_text[AG_LINK_TEXT_BYTES]) {
    ei_x_buff arguments, answer;
    int at = 0;
    bool is_undefined = false;
    erlang_pid self = *ei_self(&link->connection.self);
    begin_arguments(&arguments, 1);
    (void)ei_x_encode_pid(&arguments, &self);
    int r = ag_node_long_call(&link->connection, memory_module, "look", &arguments, LOOK_MS,
                              &answer, &at);
    if (r < 0) {
        r = fail_call(link, r, ret_text);
    } else if (has_failed(&answer, at, &is_undefined)) {
        r = fail(link, is_undefined ? -EAGAIN : -EREMOTEIO,
                 "the call of allogram_memory:look/1 failed in the node (badrpc)", ret_text);
    } else if (!take_memory(&answer, at, ret_memory)) {
        r = fail_call(link, -EPROTO, ret_text);
    }
    (void)ei_x_free(&answer);
    return r;
}

static int read_memory(struct ag_link *link, struct ag_link_memory *ret_memory,
                       char ret_text[AG_LINK_TEXT_BYTES]) {
    *ret_memory = (struct ag_link_memory){0};
    if (link->folder[0] == '\0') {
        return fail(link, -ENOENT, "this allogram was built without its Erlang modules", ret_text);
    }
    int r = -EAGAIN;
    for (int i = 0; i < 2 && r == -EAGAIN; i++) {
        r = load_memory_module(link, ret_text);
        r = r < 0 ? r : look(link, ret_memory, ret_text);
    }
    for (size_t i = 0; r < 0 && i < ret_memory->n_parts; i++) {
        free(ret_memory->parts[i].entries);
        ret_memory->parts[i] = (struct ag_link_memory_part){0};
    }
    return r;
}

/* The name is an argument of the emulator: -name NAME@HOST, or -sname NAME with or without
 * @HOST. */
static bool name_of(uint32_t pid, char ret_name[AG_LINK_NAME_BYTES]) {
    char path[32], arguments[64 * 1024], host[64] = "";
    (void)snprintf(path, sizeof path, "/proc/%u/cmdline", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd >= 0 ? read(fd, arguments, sizeof arguments - 1) : -1;
    if (fd >= 0) {
        (void)close(fd); /* nothing was written */
    }
    const char *end = arguments + (n > 0 ? n : 0);
    arguments[n > 0 ? n : 0] = '\0';
    for (const char *word = arguments; word < end; word += strlen(word) + 1) {
        const char *name = word + strlen(word) + 1;
        const bool is_short = strcmp(word, "-sname") == 0;
        if (name >= end || (!is_short && strcmp(word, "-name") != 0)) {
            continue;
        }
        if (takes(name)) {
            (void)snprintf(ret_name, AG_LINK_NAME_BYTES, "%s", name);
            return strlen(name) < AG_LINK_NAME_BYTES;
        }
        if (is_short && gethostname(host, sizeof host - 1) == 0) {
            (void)snprintf(ret_name, AG_LINK_NAME_BYTES, "%.100s@%.*s", name,
                           (int)strcspn(host, "."), host);
            return true;
        }
    }
    return false;
}

const struct ag_link_kind ag_link_erlang = {
    .runtime = "beam",
    .option = AG_NODE_COOKIE_OPTION,
    .option_help = AG_NODE_COOKIE_HELP,
    .takes = takes,
    .open = open_link,
    .close = close_link,
    .pid = pid_of,
    .fd = fd_of,
    .start = node_link_start,
    .next = next_event,
    .stop = node_link_stop,
    .control = control,
    .memory = read_memory,
    .name_of = name_of,
};
