/* options.h: the options of a command, from one table that also makes its --help.
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
 *     // the words that are no options: options.operands[0 .. options.n_operands)
 */
#ifndef AG_OPTIONS_H
#define AG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct ag_option {
    int id;               /* passed to the command; a letter is also the short option (-o) */
    const char *name;     /* without dashes */
    const char *argument; /* name of its value in the help; NULL: it has none */
    const char *help;     /* lines are separated by '\n' */
};
enum {
    AG_OPTION_LONG_ONLY = 256, /* ids from here on have no short option */
    /* One of these plus an index into ag_runtimes is the id of an option that a runtime adds: with
     * its decoder (types_option), or with its link (option). */
    AG_OPTION_OF_DECODERS = 4096,
    AG_OPTION_OF_LINKS = 8192,
};
/* A row of a command's table which ag_options_read replaces by the options of all runtimes'
 * decoders, or links. */
#define AG_OPTIONS_OF_DECODERS \
    { AG_OPTION_OF_DECODERS, NULL, NULL, NULL }
#define AG_OPTIONS_OF_LINKS \
    { AG_OPTION_OF_LINKS, NULL, NULL, NULL }
enum { AG_OPTIONS_MOST = 64 };

struct ag_options {
    /* set by the command */
    const char
        *usage; /* "report TRACE... [OPTIONS]": its first word is the command's name in messages */
    const char *about; /* description for --help */
    const struct ag_option *table;
    size_t n_table;
    bool ends_at_operand; /* the first operand ends the options: for `run` */
    int usage_status;     /* exit status of a usage error; 0: AG_EXIT_USAGE */
    /* set by ag_options_read */
    int status; /* exit status of a command that must end */
    /* internal: the table, completed by the options of the runtimes */
    struct ag_option rows[AG_OPTIONS_MOST];
    size_t n_rows;
    /* set by ag_options_read: the words that are no options */
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
/* Returns the long name of the option ID of a table that has it, without dashes. */
const char *ag_option_name(const struct ag_option *table, int id);
/* For a command with one option, which has no value: REQUEST is the bool that it sets. */
int ag_option_set_bool(void *request, int id, const char *value);

/* These functions parse values. Each returns false if TEXT is not valid, and leaves *ret unchanged.
 */
bool ag_parse_count(const char *text, uint64_t *ret_count); /* decimal digits */
bool ag_parse_pid(const char *text, pid_t *ret_pid);
bool ag_parse_bytes(const char *text,
                    uint64_t *ret_bytes); /* a count with K, M or G (powers of 1024) */
bool ag_parse_time(const char *text,
                   uint64_t *ret_time_ns); /* seconds, or a number with ns, us, ms, s, m, h */
bool ag_parse_percent(const char *text, double *ret_percent); /* 0 to 100, with or without % */

/* Checks a regular expression before any trace is opened. Returns AG_EXIT_OK, or prints an error
 * with COMMAND and OPTION and returns another exit status. */
int ag_check_regex(const char *command, const char *option, const char *value);

#endif
