/* options.h: parses the options of a command. One table describes the options for the parser and
 * for --help.
 *
 *     static const struct ag_option table[] = {
 *         {'o', "output", "PATTERN", "where the trace goes"},
 *         {OPTION_QUIET, "quiet", NULL, "no closing summary"},
 *     };
 *     struct ag_options options = {.usage = "run [OPTIONS] [--] COMMAND [ARG...]",
 *                                  .about = "Records ...",
 *                                  .table = table,
 *                                  .n_table = AG_ARRAY_SIZE(table)};
 *     if (!ag_options_read(&options, argc, argv, set_option, &request)) {
 *         return options.status; // --help or an error was printed
 *     }
 *     // the operands are options.operands[0] to options.operands[options.n_operands - 1]
 */
#ifndef AG_OPTIONS_H
#define AG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ag_option {
    /* passed to ag_option_set; if it is a letter, it is also the short option (-o) */
    int id;
    const char *name; /* without dashes */
    /* name of the option's value in the help; NULL: the option has no value */
    const char *argument;
    const char *help; /* lines are separated by '\n' */
};
enum {
    AG_OPTION_LONG_ONLY = 256, /* ids from here on have no short option */
    /* For a virtual machine such as Lua (a runtime), allogram may have a decoder, which reads its
     * traces, and a link, which records it; each may add an option. AG_OPTION_OF_DECODERS + an
     * index in ag_runtimes (base/runtimes.h) is the id of the option that is named by the member
     * types_option of the runtime's decoder. AG_OPTION_OF_LINKS + an index is the id of the option
     * that is named by the member option of the runtime's link. */
    AG_OPTION_OF_DECODERS = 4096,
    AG_OPTION_OF_LINKS = 8192,
};
/* A row in a command's table that ag_options_read replaces by the options of the decoders, or of
 * the links, of all runtimes. */
#define AG_OPTIONS_OF_DECODERS \
    { AG_OPTION_OF_DECODERS, NULL, NULL, NULL }
#define AG_OPTIONS_OF_LINKS \
    { AG_OPTION_OF_LINKS, NULL, NULL, NULL }
enum { AG_OPTIONS_MOST = 64, AG_OPTION_VALUES_BYTES = 512 };

struct ag_options {
    /* set by the command */
    const char
        *usage; /* "report TRACE... [OPTIONS]": its first word is the command's name in messages */
    const char *about; /* description for --help */
    const struct ag_option *table;
    size_t n_table;
    bool ends_at_operand; /* the first operand ends the options, as `run` requires */
    int usage_status;     /* exit status of a usage error; 0: AG_EXIT_USAGE */
    /* Writes the values that the option ID can have, separated by blanks, for shell completions;
     * nothing if they cannot be listed. NULL: only options such as --mode=exact|sample have a list,
     * which is the name of their value. */
    void (*write_values)(int id, char ret_values[AG_OPTION_VALUES_BYTES]);
    /* set by ag_options_read */
    int status; /* exit status, if the command must end */
    /* internal: the table with the options of the runtimes */
    struct ag_option rows[AG_OPTIONS_MOST];
    size_t n_rows;
    /* set by ag_options_read: the words that are not options */
    char **operands;
    int n_operands;
    /* internal */
    int argc;
    char **argv;
};
/* Stores one option in REQUEST; VALUE is NULL if the option has none. Returns AG_EXIT_OK, or prints
 * an error and returns another exit status. */
typedef int ag_option_set(void *request, int id, const char *value);
/* Reads the options and passes each to SET. false: the command must end with options->status. */
bool ag_options_read(struct ag_options *options, int argc, char **argv, ag_option_set *set,
                     void *request);
/* Prints the error that the command has no operand, with EXAMPLE (such as "report
 * allogram.ls.4711.allogram"), or that it has a wrong number of operands. NAME: what an operand is,
 * such as "trace"; EXPECTED: "one trace". Returns the exit status. */
int ag_options_refuse_operands(const struct ag_options *options, const char *name,
                               const char *expected, const char *example);
/* Returns the long name of the option ID, without dashes. TABLE must contain the option. */
const char *ag_option_name(const struct ag_option *table, int id);
/* An ag_option_set for a command with one option without a value: sets REQUEST, a bool, to true. */
int ag_option_set_bool(void *request, int id, const char *value);

/* The functions ag_parse_... parse values. If TEXT is not valid, they return false and do not
 * change the result. */
bool ag_parse_count(const char *text, uint64_t *ret_count); /* decimal digits */
bool ag_parse_pid(const char *text, pid_t *ret_pid);
bool ag_parse_bytes(const char *text,
                    uint64_t *ret_bytes); /* a number, alone or with K, KiB, M, MiB, G or GiB */
bool ag_parse_time(const char *text, uint64_t *ret_time_ns); /* what AG_TIME_FORMS says */
/* for messages: the times that ag_parse_time accepts */
#define AG_TIME_FORMS "seconds, such as 1.5, or a number with the unit ns, us, ms, s, m or h"
bool ag_parse_percent(const char *text, double *ret_percent); /* 0 to 100, with or without % */

/* Checks a regular expression before any trace is opened. Returns AG_EXIT_OK, or prints an error
 * with COMMAND and OPTION and returns another exit status. */
int ag_check_regex(const char *command, const char *option, const char *value);

#endif
