/* recording_options.h: parses the values of the options that `run` and `attach` have in common, and
 * of --dump-at and --signal of `run`, before the recording starts. */
#ifndef AG_RECORDING_OPTIONS_H
#define AG_RECORDING_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/live_session.h"
#include "writer/snapshot.h"

/* The ids of the common options in the table of a command. The options up to AG_OPTION_SEED are
 * valid only in sample mode. */
enum ag_recording_option {
    AG_OPTION_INTERVAL = 2048,
    AG_OPTION_BUDGET,
    AG_OPTION_SEED,
    AG_OPTION_MODE,
    AG_OPTION_DEPTH,
    AG_OPTION_MAX_SIZE,
    AG_OPTION_FREE_STACKS,
    AG_OPTION_FILTER,
    AG_OPTION_ADAPTERS, /* ag_recording_option_set only checks the value */
};
#define AG_OPTIONS_OF_SAMPLING                                                                    \
    {AG_OPTION_INTERVAL, "interval", "BYTES",                                                     \
     "sample: mean bytes between samples; suffixes K, M\n(default: 512K)"},                       \
        {AG_OPTION_BUDGET, "budget", "PERCENT",                                                   \
         "sample, and adjust the interval so that the cost stays under\nthis share of CPU time"}, \
    {                                                                                             \
        AG_OPTION_SEED, "seed", "N", "seed of the sampler's random numbers (default: random)"     \
    }
extern const char ag_filter_option_help[];
/* Stores VALUE in SESSION. If VALUE is invalid, returns false, with VALUE (of a filter: the invalid
 * term) and the reason ("0: not a number ...") in ret_message. */
bool ag_recording_option_set(struct ag_session_options *session, enum ag_recording_option option,
                             const char *value, char ret_message[1024]);

/* Parses a value of --dump-at: gc, peak, every=BYTES, every=TIME, memory=PERCENT%,
 * pressure=PERCENT% or signal=NAME. A number that ends in s, m or h is a time; all other numbers
 * are bytes: 5m is minutes, 5M is MiB. Returns false if TEXT is invalid. */
bool ag_dump_trigger_parse(const char *text, struct ag_dump_when *ret_when);
/* Parses the name of a signal for --dump-at or --signal: HUP, QUIT, USR1 or USR2, with or without
 * SIG before it. Returns false if NAME is invalid. */
bool ag_dump_signal_parse(const char *name, uint64_t *ret_number);

#endif
