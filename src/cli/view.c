/* view.c: `allogram view`: writes one HTML page about a trace, or about two, and opens it in the
 * browser if there is one.
 *
 * The page is written to a temporary file in the same folder, which is renamed when the page is
 * complete, so that no reader sees an incomplete page. The page contains data of the trace, so only
 * its owner can read the file (mode 0600). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/background.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/open_trace.h"
#include "cli/options.h"
#include "model/profile.h"
#include "page/html_page.h"

enum { OPTION_NO_OPEN = AG_OPTION_LONG_ONLY, PATH_BYTES = 4096 };
static const struct ag_option table[] = {
    {'o', "output", "OUT.html",
     "file of the page; an existing one is replaced; -: standard\n"
     "output (default: the trace's name with .html, in this folder)"},
    {OPTION_NO_OPEN, "no-open", NULL, "do not open the page in a browser"},
    {AG_OPTION_SYSROOT, "sysroot", "DIR", "look for images and debug files below DIR"},
    {AG_OPTION_DEBUG_DIR, "debug-dir", "DIR", "another place for debug files; may be repeated"},
    AG_OPTIONS_OF_DECODERS,
    {AG_OPTION_DEBUGINFOD, "debuginfod", NULL,
     "fetch debug files from the servers of $DEBUGINFOD_URLS"},
};

struct view_request { /* what the command line requests */
    struct ag_trace_request trace;
    const char *output;
    bool opens;
};

static int set_option(void *context, int id, const char *value) {
    struct view_request *request = context;
    switch (id) {
    case 'o':
        request->output = value;
        return AG_EXIT_OK;
    case OPTION_NO_OPEN:
        request->opens = false;
        return AG_EXIT_OK;
    }
    return ag_trace_request_set(&request->trace, id, value);
}

/* Makes "allogram.jq.4711.html" from "/tmp/allogram.jq.4711.allogram". */
static void name_output(char *to, size_t capacity, const char *trace) {
    const char *slash = strrchr(trace, '/');
    const char *name = slash ? slash + 1 : trace;
    static const char ending[] = ".allogram";
    size_t length = strlen(name);
    if (length > sizeof(ending) && strcmp(name + length - (sizeof(ending) - 1), ending) == 0) {
        length -= sizeof(ending) - 1;
    }
    snprintf(to, capacity, "%.*s.html", (int)length, name);
}

static int write_page(FILE *out, const char *name, struct ag_profile *profile,
                      struct ag_profile *before) {
    const int r = ag_html_page_write(out, profile, before);
    if (r < 0) {
        return ag_fail(AG_EXIT_FAILURE, "view: %s: %s", name, strerror(-r));
    }
    if (fflush(out) != 0 || ferror(out)) {
        return ag_fail(AG_EXIT_FAILURE, "view: %s: %s", name, strerror(errno));
    }
    return AG_EXIT_OK;
}

/* Writes the page into an existing file: the temporary file, or a device or pipe, which cannot be
 * replaced by a rename. */
static int write_there(const char *path, struct ag_profile *profile, struct ag_profile *before) {
    FILE *out = fopen(path, "we");
    if (!out) {
        return ag_fail(AG_EXIT_FAILURE, "view: %s: %s", path, strerror(errno));
    }
    int status = write_page(out, path, profile, before);
    if (fclose(out) != 0 && status == AG_EXIT_OK) {
        status = ag_fail(AG_EXIT_FAILURE, "view: %s: %s", path, strerror(errno));
    }
    return status;
}

static int write_new(const char *path, struct ag_profile *profile, struct ag_profile *before) {
    char unfinished[PATH_BYTES + 16];
    snprintf(unfinished, sizeof unfinished, "%s.XXXXXX", path);
    /* creates a new file with mode 0600, and follows no link */
    const int fd = mkostemp(unfinished, O_CLOEXEC);
    if (fd < 0) {
        return ag_fail(AG_EXIT_FAILURE, "view: %s: %s; choose another place with -o", path,
                       strerror(errno));
    }
    close(fd);
    int status = write_there(unfinished, profile, before);
    if (status == AG_EXIT_OK && rename(unfinished, path) != 0) {
        status = ag_fail(AG_EXIT_FAILURE, "view: %s: %s", path, strerror(errno));
    }
    if (status != AG_EXIT_OK) {
        unlink(unfinished);
    }
    return status;
}

static int write_file(const char *path, struct ag_profile *profile, struct ag_profile *before) {
    struct stat there;
    const bool is_special = stat(path, &there) == 0 && !S_ISREG(there.st_mode);
    return is_special ? write_there(path, profile, before) : write_new(path, profile, before);
}

/* Opens the page in the browser, if standard output is a terminal and the user has a display. So
 * the page is not opened when a script runs the command. */
static void show_in_browser(const char *path) {
    if (!isatty(STDOUT_FILENO) || !(getenv("DISPLAY") || getenv("WAYLAND_DISPLAY"))) {
        return;
    }
    const pid_t child = fork();
    if (child == 0) {
        ag_background_replace_by_null(STDIN_FILENO, STDERR_FILENO);
        execlp("xdg-open", "xdg-open", path, (char *)NULL);
        _exit(127);
    }
    if (child > 0) {
        int status;
        waitpid(child, &status, 0);
    }
}

static int view_traces(const struct view_request *request, char **paths, int n_paths) {
    char output[PATH_BYTES];
    if (request->output) {
        snprintf(output, sizeof output, "%s", request->output);
    } else {
        name_output(output, sizeof output, paths[0]);
    }
    struct ag_profile *profile = NULL, *before = NULL;
    int status = ag_trace_request_open(&request->trace, paths[0], &profile);
    if (status == AG_EXIT_OK && n_paths == 2) {
        status = ag_trace_request_open(&request->trace, paths[1], &before);
    }
    if (status == AG_EXIT_OK && strcmp(output, "-") == 0) {
        status = write_page(stdout, "standard output", profile, before);
    } else if (status == AG_EXIT_OK) {
        status = write_file(output, profile, before);
        if (status == AG_EXIT_OK) {
            printf("%s\n", output);
            fflush(stdout);
        }
        if (status == AG_EXIT_OK && request->opens) {
            show_in_browser(output);
        }
    }
    if (status == AG_EXIT_OK) {
        ag_say_what_is_missing("view", profile);
    }
    if (status == AG_EXIT_OK && before) {
        ag_say_what_is_missing("view", before);
    }
    ag_profile_close(profile);
    ag_profile_close(before);
    return status;
}

int ag_command_view(int argc, char **argv) {
    struct view_request request = {.opens = true};
    ag_trace_request_start(&request.trace, "view");
    struct ag_options options = {
        .usage = "view TRACE [BEFORE] [OPTIONS]",
        .about = "Writes a trace as one self-contained HTML page; with BEFORE, also what grew and\n"
                 "what shrank since then.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
    };
    if (!ag_options_read(&options, argc, argv, set_option, &request)) {
        return options.status;
    }
    if (options.n_operands < 1 || options.n_operands > 2) {
        return ag_options_refuse_operands(&options, "trace", "one trace, or two to compare",
                                          "view allogram.ls.4711.allogram");
    }
    if (ag_html_page_missing()) {
        return ag_fail(AG_EXIT_FAILURE, "view: %s", ag_html_page_missing());
    }
    return view_traces(&request, options.operands, options.n_operands);
}
