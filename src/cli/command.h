/* command.h: declares the commands of allogram for main.c. Each command has a file of its own and a
 * row in main.c's table.
 *
 * The function of a command gets the words of the command line after "allogram", so argv[0] is the
 * name of the command. The function returns the exit status. */
#ifndef AG_COMMAND_H
#define AG_COMMAND_H

enum ag_exit {
    AG_EXIT_OK = 0,
    AG_EXIT_FAILURE = 1, /* the command was valid, but failed */
    AG_EXIT_USAGE = 2,   /* the command line is invalid */
    AG_EXIT_GATE = 3,    /* the command succeeded, but a condition of --fail-if is true */
    /* `run` or `attach` itself failed. Otherwise `run` exits with the status of the profiled
     * program. */
    AG_EXIT_OWN_FAILURE = 125,
};

struct ag_command {
    const char *name;
    int (*run)(int argc, char **argv);
    /* description in the list of commands that `allogram` prints without arguments */
    const char *summary;
};

int ag_command_attach(int argc, char **argv);
int ag_command_check(int argc, char **argv);
int ag_command_control(int argc, char **argv);
int ag_command_diff(int argc, char **argv);
int ag_command_doctor(int argc, char **argv);
int ag_command_dump(int argc, char **argv);
int ag_command_explain(int argc, char **argv);
int ag_command_export(int argc, char **argv);
int ag_command_mcp(int argc, char **argv);
int ag_command_observe(int argc, char **argv);
int ag_command_report(int argc, char **argv);
int ag_command_run(int argc, char **argv);
int ag_command_view(int argc, char **argv);

#endif
