/* main.c: `allogram`: finds the command and runs it.
 *
 * A command exists if it has a row in the table `commands`. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/compiler.h"
#include "cli/command.h"
#include "cli/message.h"
#include "cli/own_stack.h"
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
    {"mcp", ag_command_mcp, "answers to a language model's questions about traces"},
    {"dump", ag_command_dump, "all records of a trace as text, one per line"},
    {"check", ag_command_check, "whether traces are whole, and where they are damaged"},
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

/* Does not use the functions of message.h, which need more stack than there may be. */
static int refuse_small_stack(uint64_t limit_bytes, const char *name) {
    char line[160];
    const int n =
        snprintf(line, sizeof(line),
                 "allogram: the hard limit of the stack (ulimit -Hs) is %llu KiB, but allogram "
                 "needs %d KiB; start it from a shell with a higher limit\n",
                 (unsigned long long)(limit_bytes >> 10), AG_OWN_STACK_LEAST_KIB);
    (void)!write(STDERR_FILENO, line, n > 0 ? (size_t)n : 0);
    return strcmp(name, "run") == 0 || strcmp(name, "attach") == 0 ? AG_EXIT_OWN_FAILURE
                                                                   : AG_EXIT_FAILURE;
}

int main(int argc, char **argv) {
    const uint64_t stack_limit_bytes = ag_own_stack_raise();
    if (stack_limit_bytes > 0) {
        return refuse_small_stack(stack_limit_bytes, argc > 1 ? argv[1] : "");
    }
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
