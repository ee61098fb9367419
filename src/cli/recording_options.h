/* recording_options.h: parses the values of options for `run` and `attach`, before anything is
 * started. */
#ifndef AG_RECORDING_OPTIONS_H
#define AG_RECORDING_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/live_session.h"
#include "writer/snapshot.h"

/* --filter: which blocks are recorded. Returns false, with the invalid term and what is expected in
 * ret_message. */
extern const char ag_filter_option_help[];
bool ag_filter_option_check(const char *value, char ret_message[512]);

/* The options of sample mode: their ids, and their rows in the table of a command. */
enum ag_sampling_option { AG_OPTION_INTERVAL = 2048, AG_OPTION_BUDGET, AG_OPTION_SEED };
#define AG_OPTIONS_OF_SAMPLING                                                                \
    {AG_OPTION_INTERVAL, "interval", "BYTES",                                                 \
     "sample: mean bytes between samples; suffixes K, M\n(default: 512K)"},                   \
        {AG_OPTION_BUDGET, "budget", "PERCENT",                                               \
         "sample, and keep the cost under this share of CPU by moving\nthe interval"},        \
    {                                                                                         \
        AG_OPTION_SEED, "seed", "N", "seed of the sampler's random numbers (default: random)" \
    }
const char *ag_sampling_option_name(enum ag_sampling_option option); /* "--interval" */
/* Stores the value in SESSION. Returns NULL, or why the value is invalid ("not a number of bytes
 * ..."). */
const char *ag_sampling_option_set(struct ag_session_options *session,
                                   enum ag_sampling_option option, const char *value);

/* --adapters: "auto", "none", or adapter names joined by commas. Returns false, with the error and
 * the valid names in ret_message. */
bool ag_adapter_list_check(const char *list, char ret_message[512]);

/* --dump-at: gc, peak, every=BYTES, every=TIME, signal=NAME. A number that ends in s, m or h is a
 * time, any other is bytes: 5m are minutes, 5M are MiB. Returns false if TEXT is none of them. */
bool ag_dump_trigger_parse(const char *text, struct ag_dump_when *ret_when);
/* Parses the name of a signal for --dump-at or --signal: HUP, QUIT, USR1 or USR2, with or without
 * SIG. */
bool ag_dump_signal_parse(const char *name, uint64_t *ret_number);

#endif
