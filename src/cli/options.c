/* options.c: parses the options of a command, see options.h. getopt_long does the parsing, so
 * options and operands may be mixed, "--" ends the options, and -ofile, --output=file and --output
 * file are equivalent. This file implements the table, the help and the messages. */
#include "cli/options.h"

#include <getopt.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

#include "base/runtimes.h"
#include "cli/command.h"
#include "cli/message.h"
#include "remote/machine_link.h"
#include "symbol/decoder.h"
#include "text/nearest_name.h"

enum { HELP_COLUMN = 30, STOP = -1 };

static int name_length(
    const struct ag_options *options) { /* length of the command's name, which is the first word of
                                         * the usage */
    return (int)strcspn(options->usage, " ");
}

static bool has_letter(const struct ag_option *option) {
    return option->id > 0 && option->id < AG_OPTION_LONG_ONLY;
}

static void print_option(const struct ag_option *option) {
    char head[128];
    int length = has_letter(option) ? snprintf(head, sizeof head, "-%c, ", option->id) : 0;
    length += snprintf(head + length, sizeof head - (size_t)length, "--%s%s%s", option->name,
                       option->argument != NULL ? "=" : "",
                       option->argument != NULL ? option->argument : "");
    printf("  %-*s", HELP_COLUMN - 2, head);
    if (length > HELP_COLUMN - 4) {
        printf("\n%*s", HELP_COLUMN, "");
    }
    if (*option->help == '\0') {
        putchar('\n');
    }
    for (const char *line = option->help; *line != '\0';) {
        int line_length = (int)strcspn(line, "\n");
        printf("%.*s\n", line_length, line);
        line += line_length;
        if (*line == '\n') {
            line++;
            printf("%*s", HELP_COLUMN, "");
        }
    }
}

static void print_help(const struct ag_options *options) {
    printf("usage: allogram %s\n\n%s\n", options->usage, options->about);
    printf("\noptions\n");
    for (size_t i = 0; i < options->n_rows; i++) {
        print_option(&options->rows[i]);
    }
    print_option(&(struct ag_option){'h', "help", NULL, "this text"});
}

/* Prints the values of the option NAME, one per line, for shell completions. Names in capitals,
 * such as LIST in auto|none|LIST, stand for values that are not listed. */
static void print_values(const struct ag_options *options, const char *name) {
    for (size_t i = 0; i < options->n_rows; i++) {
        const struct ag_option *row = &options->rows[i];
        char values[AG_OPTION_VALUES_BYTES] = "", *rest = values;
        if (strcmp(row->name, name) != 0 || row->argument == NULL) {
            continue;
        }
        if (strchr(row->argument, '|') != NULL) {
            (void)snprintf(values, sizeof values, "%s", row->argument);
        } else if (options->write_values != NULL) {
            options->write_values(row->id, values);
        }
        for (char *value; (value = strsep(&rest, " |")) != NULL;) {
            if (*value != '\0' && (*value < 'A' || *value > 'Z')) {
                puts(value);
            }
        }
    }
}

static void options_add(struct ag_options *options, struct ag_option row) {
    if (options->n_rows < AG_OPTIONS_MOST) {
        options->rows[options->n_rows++] = row;
    }
}

/* Adds the options of all runtimes' decoders (FIRST_ID: AG_OPTION_OF_DECODERS) or links (FIRST_ID:
 * AG_OPTION_OF_LINKS). */
static void options_add_of_runtimes(struct ag_options *options, int first_id) {
    for (int i = 0; ag_runtimes[i].name; i++) {
        const struct ag_decoder *decoder = ag_runtimes[i].decoder;
        const struct ag_link_kind *link = ag_runtimes[i].link;
        struct ag_option row = {.id = first_id + i, .argument = "FILE"};
        if (first_id == AG_OPTION_OF_DECODERS && decoder) {
            row.name = decoder->types_option;
            row.help = decoder->types_help;
        } else if (first_id == AG_OPTION_OF_LINKS && link) {
            row.name = link->option;
            row.help = link->option_help;
        }
        if (row.name) {
            options_add(options, row);
        }
    }
}

static void options_make_rows(struct ag_options *options) {
    options->n_rows = 0;
    for (size_t i = 0; i < options->n_table; i++) {
        const int id = options->table[i].id;
        if (id == AG_OPTION_OF_DECODERS || id == AG_OPTION_OF_LINKS) {
            options_add_of_runtimes(options, id);
        } else {
            options_add(options, options->table[i]);
        }
    }
}

/* Prints "unknown option '--vew'; did you mean '--view'?". WORD may end in =VALUE. */
static int refuse_unknown(const struct ag_options *options, int status, const char *word) {
    char name[64];
    (void)snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
    const char *bare = name + strspn(name, "-");
    struct ag_nearest_name nearest;
    ag_nearest_name_start(&nearest, bare);
    ag_nearest_name_offer(&nearest, "help");
    unsigned n_beginning = 0; /* number of options whose names begin with BARE */
    for (size_t i = 0; i < options->n_rows; i++) {
        ag_nearest_name_offer(&nearest, options->rows[i].name);
        n_beginning += strncmp(options->rows[i].name, bare, strlen(bare)) == 0;
    }
    const bool is_ambiguous = strncmp(name, "--", 2) == 0 && n_beginning > 1;
    const char *hint = is_ambiguous ? "" : ag_nearest_name_hint(&nearest, "--");
    const int length = name_length(options);
    char help[64];
    (void)snprintf(help, sizeof help, "; see allogram %.*s --help", length, options->usage);
    return ag_fail(status, "%.*s: %s option '%s'%s", length, options->usage,
                   is_ambiguous ? "ambiguous" : "unknown", name, hint[0] != '\0' ? hint : help);
}

static int option_error(struct ag_options *options, bool lacks_value) {
    const char *word = options->argv[optind > 1 ? optind - 1 : 1];
    char letter[3] = {'-', (char)optopt, '\0'};
    if (optopt > 0 && optopt < 128 && strncmp(word, "--", 2) != 0) {
        /* if letters are combined, as in -qx, the message names only the wrong option */
        word = letter;
    }
    int length = name_length(options);
    const int status = options->usage_status != 0 ? options->usage_status : AG_EXIT_USAGE;
    const bool has_value = optopt != 0 && strncmp(word, "--", 2) == 0;
    options->status =
        lacks_value || has_value
            ? ag_fail(status, "%.*s: option %s %s; see allogram %.*s --help", length,
                      options->usage, word, lacks_value ? "requires a value" : "takes no value",
                      length, options->usage)
            : refuse_unknown(options, status, word);
    return STOP;
}

static int option_value_missing(struct ag_options *options, int id) {
    const int length = name_length(options);
    const char *name = "";
    for (size_t i = 0; i < options->n_rows; i++) {
        name = options->rows[i].id == id ? options->rows[i].name : name;
    }
    options->status = ag_fail(options->usage_status != 0 ? options->usage_status : AG_EXIT_USAGE,
                              "%.*s: option --%s requires a value; see allogram %.*s --help",
                              length, options->usage, name, length, options->usage);
    return STOP;
}

/* Returns the id of the next option, or 0 after the last option, or STOP if the command must end
 * with options->status. */
static int options_next(struct ag_options *options, const char **ret_value) {
    struct option long_options[AG_OPTIONS_MOST + 2] = {{0}};
    char letters[2 * AG_OPTIONS_MOST + 8];
    size_t used = (size_t)sprintf(letters, "%s:h", options->ends_at_operand ? "+" : "");
    size_t count = 0;
    for (; count < options->n_rows; count++) {
        const struct ag_option *option = &options->rows[count];
        long_options[count] = (struct option){
            .name = option->name,
            .has_arg = option->argument != NULL ? required_argument : no_argument,
            .val = option->id,
        };
        if (has_letter(option)) {
            used += (size_t)sprintf(letters + used, "%c%s", option->id,
                                    option->argument != NULL ? ":" : "");
        }
    }
    long_options[count] = (struct option){.name = "help", .val = 'h'};

    int id = getopt_long(options->argc, options->argv, letters, long_options, NULL);
    switch (id) {
    case 'h':
        print_help(options);
        options->status = AG_EXIT_OK;
        return STOP;
    case '?':
    case ':':
        return option_error(options, id == ':');
    case -1:
        options->operands = options->argv + optind;
        options->n_operands = options->argc - optind;
        return 0;
    default:
        /* `run -o -- ls`: the value was forgotten; without this check, -- would be the value */
        if (optarg != NULL && strcmp(optarg, "--") == 0 && optarg == options->argv[optind - 1]) {
            return option_value_missing(options, id);
        }
        *ret_value = optarg;
        return id;
    }
}

bool ag_options_read(struct ag_options *options, int argc, char **argv, ag_option_set *set,
                     void *request) {
    options->argc = argc;
    options->argv = argv;
    options->status = AG_EXIT_OK;
    options_make_rows(options);
    static const char values_of[] = "--values-of="; /* not in the help: for completions/ */
    if (argc == 2 && strncmp(argv[1], values_of, sizeof values_of - 1) == 0) {
        print_values(options, argv[1] + sizeof values_of - 1);
        return false;
    }
    optind = 0; /* a GNU extension: resets the scan */
    opterr = 0; /* getopt_long prints no messages: this file prints them */
    const char *value = NULL;
    for (int id; (id = options_next(options, &value)) != 0;) {
        options->status = id == STOP ? options->status : set(request, id, value);
        if (id == STOP || options->status != AG_EXIT_OK) {
            return false;
        }
    }
    return true;
}

int ag_options_refuse_operands(const struct ag_options *options, const char *name,
                               const char *expected, const char *example) {
    const int status = options->usage_status != 0 ? options->usage_status : AG_EXIT_USAGE;
    const int length = name_length(options);
    return options->n_operands == 0
               ? ag_fail(status, "%.*s: no %s given; for example: allogram %s", length,
                         options->usage, name, example)
               : ag_fail(status, "%.*s: expected %s, got %d; usage: allogram %s", length,
                         options->usage, expected, options->n_operands, options->usage);
}

const char *ag_option_name(const struct ag_option *table, int id) {
    while (table->id != id) {
        table++;
    }
    return table->name;
}

int ag_option_set_bool(void *request, int id, const char *value) {
    bool *is_set = request;
    (void)id;
    (void)value;
    *is_set = true;
    return AG_EXIT_OK;
}

bool ag_parse_count(const char *text, uint64_t *ret_count) {
    uint64_t count = 0;
    if (*text == '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        if (*text < '0' || *text > '9' || __builtin_mul_overflow(count, 10, &count) ||
            __builtin_add_overflow(count, (uint64_t)(*text - '0'), &count)) {
            return false;
        }
    }
    *ret_count = count;
    return true;
}

bool ag_parse_pid(const char *text, pid_t *ret_pid) {
    uint64_t number;
    if (!ag_parse_count(text, &number) || number == 0 || number > INT32_MAX) {
        return false;
    }
    *ret_pid = (pid_t)number;
    return true;
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* Parses a number and a unit. The number may have a fraction, but no sign and no exponent. The
 * locale does not matter. */
static bool parse_with_unit(const char *text, const struct unit *units, size_t n_units,
                            uint64_t *ret_value) {
    size_t digits = strspn(text, "0123456789");
    size_t fraction_digits = text[digits] == '.' ? strspn(text + digits + 1, "0123456789") : 0;
    size_t length = digits + (text[digits] == '.' ? 1 + fraction_digits : 0);
    if (digits + fraction_digits == 0 || length > 40) {
        return false;
    }
    long double number = 0;
    for (size_t i = 0; i < digits; i++) {
        number = number * 10 + (text[i] - '0');
    }
    long double place = 1;
    for (size_t i = 0; i < fraction_digits; i++) {
        place /= 10;
        number += place * (text[digits + 1 + i] - '0');
    }
    for (size_t i = 0; i < n_units; i++) {
        if (strcmp(text + length, units[i].name) == 0) {
            number *= (long double)units[i].factor;
            if (number >= 18446744073709551615.0L) {
                return false;
            }
            *ret_value = (uint64_t)(number + 0.5L);
            return true;
        }
    }
    return false;
}

bool ag_parse_bytes(const char *text, uint64_t *ret_bytes) {
    static const struct unit units[] = {{"", 1},         {"K", 1 << 10},   {"M", 1 << 20},
                                        {"G", 1 << 30},  {"KiB", 1 << 10}, {"MiB", 1 << 20},
                                        {"GiB", 1 << 30}};
    return parse_with_unit(text, units, sizeof units / sizeof units[0], ret_bytes);
}

bool ag_parse_time(const char *text, uint64_t *ret_time_ns) {
    static const struct unit units[] = {
        {"", 1000000000},  {"ns", 1},          {"us", 1000},         {"ms", 1000000},
        {"s", 1000000000}, {"m", 60000000000}, {"h", 3600000000000},
    };
    return parse_with_unit(text, units, sizeof units / sizeof units[0], ret_time_ns);
}

bool ag_parse_percent(const char *text, double *ret_percent) {
    static const struct unit units[] = {{"", 1000000}, {"%", 1000000}};
    uint64_t millionths;
    if (!parse_with_unit(text, units, sizeof units / sizeof units[0], &millionths) ||
        millionths > 100000000) {
        return false;
    }
    *ret_percent = (double)millionths / 1e6;
    return true;
}

int ag_check_regex(const char *command, const char *option, const char *value) {
    regex_t regex;
    const int error = regcomp(&regex, value, REG_EXTENDED | REG_NOSUB);
    if (error == 0) {
        regfree(&regex);
        return AG_EXIT_OK;
    }
    char why[200];
    regerror(error, &regex, why, sizeof why);
    return ag_fail(
        AG_EXIT_USAGE,
        "%s: --%s=%s: not a regular expression (POSIX extended, such as '^parse_.*'): %s", command,
        option, value, why);
}
