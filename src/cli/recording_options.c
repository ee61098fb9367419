/* recording_options.c: parses and checks the values of --filter, --interval, --budget, --seed,
 * --adapters and --dump-at, for `run` and `attach`. */
#include "cli/recording_options.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/block_filter.h"
#include "base/compiler.h"
#include "base/runtimes.h"
#include "base/skip.h"
#include "cli/options.h"
#include "text/nearest_name.h"

#define MIN_BUDGET_PERCENT 0.01

/* ---- --filter ---- */

const char ag_filter_option_help[] = "record only blocks for which all terms hold:\n"
                                     "domain=cpu|gpu|external, allocator=NAME, heap=NAME,\n"
                                     "size=LOW..HIGH, type=GLOB, joined by commas; ! negates one";

bool ag_filter_option_check(const char *value, char ret_message[512]) {
    struct ag_block_filter filter;
    return ag_block_filter_parse(value, &filter, ret_message) == 0;
}

/* ---- --interval, --budget, --seed ---- */

const char *ag_sampling_option_name(enum ag_sampling_option option) {
    static const char *const names[] = {"--interval", "--budget", "--seed"};
    return names[option - AG_OPTION_INTERVAL];
}

const char *ag_sampling_option_set(struct ag_session_options *session,
                                   enum ag_sampling_option option, const char *value) {
    switch (option) {
    case AG_OPTION_INTERVAL:
        return ag_parse_bytes(value, &session->interval_bytes) && session->interval_bytes > 0 &&
                       session->interval_bytes <= AG_INTERVAL_MAX_BYTES
                   ? NULL
                   : "not a number of bytes from 1 to 8192G, such as 512K";
    case AG_OPTION_BUDGET:
        return ag_parse_percent(value, &session->budget_percent) &&
                       session->budget_percent >= MIN_BUDGET_PERCENT
                   ? NULL
                   : "not a share of CPU from 0.01 to 100 percent";
    case AG_OPTION_SEED:
        session->has_seed = true;
        return ag_parse_count(value, &session->seed) ? NULL : "not a number from 0 to 2^64 - 1";
    }
    return NULL;
}

/* ---- --adapters ---- */

static bool is_adapter(const char *name, size_t length) {
    for (const struct ag_runtime *row = ag_runtimes; row->name; row++) {
        if (row->symbol && strlen(row->name) == length && strncmp(row->name, name, length) == 0) {
            return true;
        }
    }
    return false;
}

bool ag_adapter_list_check(const char *list, char ret_message[512]) {
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

/* ---- --dump-at ---- */

/* The signals that may request a dump; `run` normally passes them on to the program. INT and TERM
 * are missing here because they are for ending programs. */
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

bool ag_dump_trigger_parse(const char *text, struct ag_dump_when *ret_when) {
    static const char every[] = "every=", at_signal[] = "signal=";
    if (strcmp(text, "gc") == 0 || strcmp(text, "peak") == 0) {
        *ret_when = (struct ag_dump_when){.kind = text[0] == 'g' ? AG_DUMP_GC : AG_DUMP_PEAK};
        return true;
    }
    if (strncmp(text, at_signal, sizeof(at_signal) - 1) == 0) {
        ret_when->kind = AG_DUMP_SIGNAL;
        return ag_dump_signal_parse(text + sizeof(at_signal) - 1, &ret_when->every);
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
