/* control.c: `allogram control`: sends a request to the running recording of a process
 * (control_process.c) or a node (attach_link.c). */
#include <string.h>

#include "base/compiler.h"
#include "cli/attach_link.h"
#include "cli/command.h"
#include "cli/control_process.h"
#include "cli/message.h"
#include "cli/options.h"
#include "remote/machine_link.h"
#include "text/nearest_name.h"

enum { OPTION_COOKIE_FILE = AG_OPTION_LONG_ONLY };

static const struct ag_option table[] = {
    {OPTION_COOKIE_FILE, "cookie-file", "FILE",
     "file with the cookie of a NODE (default: ALLOGRAM_COOKIE in the environment,\nelse the user's own file)"},
};

static bool is_action(const char *word) {
    bool found = false;
    for (size_t i = 0; ag_control_actions[i]; i++) {
        found |= strcmp(word, ag_control_actions[i]) == 0;
    }
    return found;
}

/* Parses a pid. false: TEXT is not one. */
static bool parse_pid(const char *text, pid_t *ret_pid) {
    uint64_t number;
    const bool is_one = ag_parse_count(text, &number) && number > 0 && number <= INT32_MAX;
    *ret_pid = is_one ? (pid_t)number : 0;
    return is_one;
}

int ag_command_control(int argc, char **argv) {
    const char *cookie_file = NULL;
    struct ag_options options = {
        .usage = "control PID|NODE ACTION [OPTIONS]",
        .about =
            "Controls a recording of `allogram run` or `attach`. ACTION is pause, resume, reset (reports begin here;\n"
            "of a NODE: ends the trace and begins another one), dump (writes a trace of the recording so far, next\n"
            "to the trace) or stop. PID is the program or its allogram; all actions but dump affect every process\n"
            "of the session.",
        .table = table,
        .n_table = AG_ARRAY_SIZE(table),
    };
    ag_options_start(&options, argc, argv);
    for (int id; (id = ag_options_next(&options)) != 0;) {
        if (id == AG_OPTIONS_STOP) {
            return options.status;
        }
        cookie_file = options.value;
    }
    if (options.n_operands != 2) {
        return ag_fail(
            AG_EXIT_USAGE,
            "control: expected a process and an action; usage: allogram control PID|NODE "
            "pause|resume|reset|dump|stop");
    }
    const char *name = options.operands[0], *action = options.operands[1];
    const struct ag_link_kind *kind = ag_link_kind_of(name);
    pid_t pid = 0;
    if (!kind && !parse_pid(name, &pid)) {
        return ag_fail(AG_EXIT_USAGE,
                       "control: %s: neither a process number nor a node's name@host", name);
    }
    if (!is_action(action)) {
        static const char actions[] = "pause, resume, reset, dump, stop";
        struct ag_nearest_name nearest;
        ag_nearest_name_start(&nearest, action);
        ag_nearest_name_offer_list(&nearest, actions);
        return ag_fail(AG_EXIT_USAGE, "control: %s: not one of %s%s", action, actions,
                       ag_nearest_name_hint(&nearest, ""));
    }
    if (!kind && cookie_file) {
        return ag_fail(AG_EXIT_USAGE, "control: --cookie-file does not apply to a process");
    }
    return kind ? ag_control_link(name, kind, cookie_file, action)
                : ag_control_process(pid, action);
}
