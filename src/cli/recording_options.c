/* recording_options.c: parses and checks the values of the options that `run` and `attach` have in
 * common, and of --dump-at and --signal of `run`. */
#include "cli/recording_options.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/block_filter.h"
#include "base/compiler.h"
#include "base/runtimes.h"
#include "base/skip.h"
#include "cli/options.h"
#include "text/nearest_name.h"

#define MIN_BUDGET_PERCENT 0.01
enum { MAX_DEPTH = 65536 };

const char ag_filter_option_help[] = "record only blocks for which all terms hold:\n"
                                     "domain=cpu|gpu|external, allocator=NAME, heap=NAME,\n"
                                     "size=LOW..HIGH, type=GLOB, joined by commas; ! negates one";

static bool is_adapter(const char *name, size_t length) {
    for (const struct ag_runtime *row = ag_runtimes; row->name; row++) {
        if (row->symbol && strlen(row->name) == length && strncmp(row->name, name, length) == 0) {
            return true;
        }
    }
    return false;
}

/* Checks LIST: "auto", "none", or names of adapters (the code for runtimes such as Lua) joined by
 * commas. If LIST is invalid, returns false, with the error and the valid names in ret_message. */
static bool check_adapters(const char *list, char ret_message[512]) {
    if (strcmp(list, "auto") == 0 || strcmp(list, "none") == 0) {
        return true;
    }
    for (const char *at = list;; at++) {
        const size_t length = strcspn(at, ",");
        if (!is_adapter(at, length)) {
            char name[65];
            (void)snprintf(name, sizeof(name), "%.*s", (int)(length < 64 ? length : 64), at);
            struct ag_nearest_name nearest;
            ag_nearest_name_start(&nearest, name);
            ag_nearest_name_offer_list(&nearest, "auto none");
            for (const struct ag_runtime *row = ag_runtimes; row->name; row++) {
                if (row->symbol) {
                    ag_nearest_name_offer(&nearest, row->name);
                }
            }
            int used = snprintf(ret_message, 512, "unknown adapter '%s'%s; one of auto, none", name,
                                ag_nearest_name_hint(&nearest, ""));
            for (const struct ag_runtime *row = ag_runtimes; row->name && used < 500; row++) {
                if (row->symbol) {
                    used += snprintf(ret_message + used, 512 - (size_t)used, ", %s", row->name);
                }
            }
            return false;
        }
        at += length;
        if (*at == '\0') {
            return true;
        }
    }
}

static bool set_mode(struct ag_session_options *session, const char *value, char ret_why[512]) {
    struct ag_nearest_name nearest;
    session->is_sampling = strcmp(value, "sample") == 0;
    if (session->is_sampling || strcmp(value, "exact") == 0) {
        return true;
    }
    ag_nearest_name_start(&nearest, value);
    ag_nearest_name_offer_list(&nearest, "exact sample");
    (void)snprintf(ret_why, 512, "neither exact nor sample%s", ag_nearest_name_hint(&nearest, ""));
    return false;
}

bool ag_recording_option_set(struct ag_session_options *session, enum ag_recording_option option,
                             const char *value, char ret_message[1024]) {
    struct ag_block_filter filter;
    uint64_t number = 0;
    char why[512] = "";
    bool is_good = true;
    const char *wanted = why;
    switch (option) {
    case AG_OPTION_INTERVAL:
        is_good = ag_parse_bytes(value, &session->interval_bytes) && session->interval_bytes > 0 &&
                  session->interval_bytes <= AG_INTERVAL_MAX_BYTES;
        wanted = "not a number of bytes from 1 to 8192G, such as 512K";
        break;
    case AG_OPTION_BUDGET:
        is_good = ag_parse_percent(value, &session->budget_percent) &&
                  session->budget_percent >= MIN_BUDGET_PERCENT;
        wanted = "not a share of CPU from 0.01 to 100 percent";
        break;
    case AG_OPTION_SEED:
        session->has_seed = true;
        is_good = ag_parse_count(value, &session->seed);
        wanted = "not a number from 0 to 2^64 - 1";
        break;
    case AG_OPTION_MODE:
        is_good = set_mode(session, value, why);
        break;
    case AG_OPTION_DEPTH:
        is_good = ag_parse_count(value, &number) && number >= 1 && number <= MAX_DEPTH;
        session->depth = (uint32_t)number;
        wanted = "not a number from 1 to 65536";
        break;
    case AG_OPTION_MAX_SIZE:
        is_good = ag_parse_bytes(value, &session->max_bytes) && session->max_bytes > 0;
        wanted = "not a number of bytes such as 64M";
        break;
    case AG_OPTION_FREE_STACKS:
        session->has_free_stacks = true;
        break;
    /* ag_block_filter_parse writes a message that begins with the invalid term of the filter */
    case AG_OPTION_FILTER:
        session->filter = value;
        return ag_block_filter_parse(value, &filter, ret_message) == 0;
    case AG_OPTION_ADAPTERS:
        is_good = check_adapters(value, why);
        break;
    }
    if (!is_good) {
        (void)snprintf(ret_message, 1024, "%.400s: %s", value, wanted);
    }
    return is_good;
}

/* ---- --dump-at ---- */

/* The signals that --dump-at and --signal may name. `run` passes those that neither option names on
 * to the program. INT and TERM are not in the list, because they end programs. */
static const struct {
    const char *name;
    int number;
} signals[] = {{"HUP", SIGHUP}, {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}};

bool ag_dump_signal_parse(const char *name, uint64_t *ret_number) {
    name += strncmp(name, "SIG", 3) == 0 ? 3 : 0;
    for (size_t i = 0; i < AG_ARRAY_SIZE(signals); i++) {
        if (strcmp(name, signals[i].name) == 0) {
            *ret_number = (uint64_t)signals[i].number;
            return true;
        }
    }
    return false;
}

static bool parse_whole_percent(const char *text, uint64_t *ret_percent) { /* 1% to 99% */
    char *end = NULL;
    *ret_percent = strtoul(text, &end, 10);
    return text[0] >= '1' && text[0] <= '9' && *ret_percent < 100 && strcmp(end, "%") == 0;
}

bool ag_dump_trigger_parse(const char *text, struct ag_dump_when *ret_when) {
    static const char every[] = "every=", at_signal[] = "signal=", at_memory[] = "memory=",
                      at_pressure[] = "pressure=";
    if (strcmp(text, "gc") == 0 || strcmp(text, "peak") == 0) {
        *ret_when = (struct ag_dump_when){.kind = text[0] == 'g' ? AG_DUMP_GC : AG_DUMP_PEAK};
        return true;
    }
    if (strncmp(text, at_signal, sizeof(at_signal) - 1) == 0) {
        ret_when->kind = AG_DUMP_SIGNAL;
        return ag_dump_signal_parse(text + sizeof(at_signal) - 1, &ret_when->every);
    }
    if (strncmp(text, at_memory, sizeof(at_memory) - 1) == 0) {
        ret_when->kind = AG_DUMP_MEMORY;
        return parse_whole_percent(text + sizeof(at_memory) - 1, &ret_when->every);
    }
    if (strncmp(text, at_pressure, sizeof(at_pressure) - 1) == 0) {
        ret_when->kind = AG_DUMP_PRESSURE;
        return parse_whole_percent(text + sizeof(at_pressure) - 1, &ret_when->every);
    }
    if (strncmp(text, every, sizeof(every) - 1) != 0) {
        return false;
    }
    const char *number = text + sizeof(every) - 1;
    const size_t length = strlen(number);
    const bool is_time = length > 0 && strchr("smh", number[length - 1]) != NULL;
    ret_when->kind = is_time ? AG_DUMP_TIME : AG_DUMP_BYTES;
    return (is_time ? ag_parse_time(number, &ret_when->every)
                    : ag_parse_bytes(number, &ret_when->every)) &&
           ret_when->every > 0;
}
