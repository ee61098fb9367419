/* command.h: a command of allogram, as main.c sees it. Each lives in a file of its own and has a
 * row in main.c's table.
 *
 * `run` gets the words behind "allogram": argv[0] is the command's name. It returns the exit
 * status. */
#ifndef AG_COMMAND_H
#define AG_COMMAND_H

enum ag_exit {
    AG_EXIT_OK = 0,
    AG_EXIT_FAILURE = 1,       /* understood, but it did not work */
    AG_EXIT_USAGE = 2,         /* the command line makes no sense */
    AG_EXIT_GATE = 3,          /* all went well, and a --fail-if holds */
    AG_EXIT_OWN_FAILURE = 125, /* allogram failed where the status is the program's otherwise */
};

struct ag_command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary; /* one line of the list that `allogram` alone prints */
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
