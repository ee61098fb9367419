/* main.c: `allogram`: finds the command and runs it.
 *
 * A command exists if it has a row in the table `commands`. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "text/nearest_name.h"
#include "writer/cut_files.h"

static const struct ag_command commands[] = {
    {"run", ag_command_run, "record a program and the processes it starts"},
    {"attach", ag_command_attach, "record a running program"},
    {"observe", ag_command_observe, "observe a running program from outside, without stopping it"},
    {"control", ag_command_control, "pause, resume, reset, dump or stop a running recording"},
    {"report", ag_command_report, "tables and trees of a trace, as text or JSON"},
    {"explain", ag_command_explain, "the most important facts of a trace, in at most 40 lines"},
    {"view", ag_command_view, "a trace as one self-contained HTML page"},
    {"diff", ag_command_diff, "what grew and what shrank between two traces"},
    {"export", ag_command_export, "a trace in the format of another tool"},
    {"dump", ag_command_dump, "all records of a trace as text, one per line"},
    {"check", ag_command_check, "whether a trace is whole, and where it is damaged"},
    {"doctor", ag_command_doctor, "what can be profiled on this machine"},
};

static const struct ag_command *find_command(const char *name) {
    for (size_t i = 0; i < AG_ARRAY_SIZE(commands); i++) {
        if (strcmp(commands[i].name, name) == 0) {
            return &commands[i];
        }
    }
    return NULL;
}

static void print_overview(FILE *out) {
    fputs("allogram: a memory profiler for every runtime\n\n"
          "  allogram run -- COMMAND [ARG...]      record\n"
          "  allogram report TRACE                 read\n\n"
          "commands\n",
          out);
    for (size_t i = 0; i < AG_ARRAY_SIZE(commands); i++) {
        fprintf(out, "  %-9s %s\n", commands[i].name, commands[i].summary);
    }
    fputs("\nallogram COMMAND --help lists the options of a command; allogram --version prints the "
          "version.\n",
          out);
}

static int refuse_unknown(const char *name) {
    const bool is_option = name[0] == '-';
    struct ag_nearest_name nearest;
    ag_nearest_name_start(&nearest, name);
    ag_nearest_name_offer_list(&nearest, is_option ? "--help --version" : "help");
    for (size_t i = 0; i < AG_ARRAY_SIZE(commands) && !is_option; i++) {
        ag_nearest_name_offer(&nearest, commands[i].name);
    }
    const char *hint = ag_nearest_name_hint(&nearest, "");
    return ag_fail(AG_EXIT_USAGE, "unknown %s '%s'%s", is_option ? "option" : "command", name,
                   hint[0] != '\0' ? hint : "; 'allogram help' lists the commands");
}

int main(int argc, char **argv) {
    ag_cut_files_guard();
    if (argc < 2 || strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        (strcmp(argv[1], "help") == 0 && argc == 2)) {
        print_overview(stdout);
        return ag_stdout_finish(AG_EXIT_OK);
    }
    if (strcmp(argv[1], "--version") == 0) {
        puts("allogram " AG_VERSION);
        return ag_stdout_finish(AG_EXIT_OK);
    }
    bool asks_for_help = strcmp(argv[1], "help") == 0; /* allogram help COMMAND */
    const char *name = argv[asks_for_help ? 2 : 1];
    const struct ag_command *command = find_command(name);
    if (command == NULL) {
        return refuse_unknown(name);
    }
    if (asks_for_help) {
        char *words[] = {argv[2], (char *)"--help", NULL};
        return ag_stdout_finish(command->run(/* argc= */ 2, words));
    }
    return ag_stdout_finish(command->run(argc - 1, argv + 1));
}
