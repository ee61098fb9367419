/* control.c: `allogram control`: asks a recording that runs, of somebody's `allogram attach`. */
#include <string.h>

#include "base/compiler.h"
#include "cli/attach_link.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/options.h"
#include "remote/machine_link.h"

enum { OPTION_COOKIE_FILE = AG_OPTION_LONG_ONLY };

static const struct ag_option table[] = {
    {OPTION_COOKIE_FILE, "cookie-file", "FILE",
     "where its cookie is (default: ALLOGRAM_COOKIE in the environment,\nelse the user's own file)"},
};

static bool is_action(const char *word) {
    static const char *const actions[] = {"pause", "resume", "reset", "dump", "stop"};
    bool found = false;
    for (size_t i = 0; i < AG_ARRAY_SIZE(actions); i++) {
        found |= strcmp(word, actions[i]) == 0;
    }
    return found;
}

int ag_command_control(int argc, char **argv) {
    const char *cookie_file = NULL;
    struct ag_options options = {
        .usage = "control NODE ACTION [OPTIONS]",
        .about =
            "Asks a recording that `allogram attach` began for one of: pause, resume; reset (ends the trace and begins\n"
            "another one); dump (a trace of what was recorded until now, beside the trace); stop.",
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
        return ag_fail(AG_EXIT_USAGE,
                       "control: allogram control NODE pause|resume|reset|dump|stop");
    }
    const char *name = options.operands[0], *action = options.operands[1];
    const struct ag_link_kind *kind = ag_link_kind_of(name);
    if (!kind) {
        return ag_fail(AG_EXIT_USAGE, "control: %s is no NODE, which is name@host", name);
    }
    if (!is_action(action)) {
        return ag_fail(AG_EXIT_USAGE, "control: %s: none of pause, resume, reset, dump, stop",
                       action);
    }
    return ag_control_link(name, kind, cookie_file, action);
}
