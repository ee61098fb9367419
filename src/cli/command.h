/* command.h: a command of allogram, as main.c sees it. Each command has a file of its own and a row
 * in main.c's table.
 *
 * The function of a command gets the words after "allogram", so argv[0] is the command's name, and
 * returns the exit status. */
#ifndef AG_COMMAND_H
#define AG_COMMAND_H

enum ag_exit {
    AG_EXIT_OK = 0,
    AG_EXIT_FAILURE = 1, /* the command was valid, but failed */
    AG_EXIT_USAGE = 2,   /* the command line is invalid */
    AG_EXIT_GATE = 3,    /* success, and a --fail-if condition holds */
    /* `run` or `attach` itself failed; otherwise `run` exits with its program's status */
    AG_EXIT_OWN_FAILURE = 125,
};

struct ag_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* its line in the list that `allogram` alone prints */
};

int ag_command_attach(int argc, char **argv);
int ag_command_check(int argc, char **argv);
int ag_command_control(int argc, char **argv);
int ag_command_diff(int argc, char **argv);
int ag_command_doctor(int argc, char **argv);
int ag_command_dump(int argc, char **argv);
int ag_command_export(int argc, char **argv);
int ag_command_observe(int argc, char **argv);
int ag_command_report(int argc, char **argv);
int ag_command_run(int argc, char **argv);
int ag_command_view(int argc, char **argv);

#endif
