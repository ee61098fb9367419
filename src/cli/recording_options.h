/* recording_options.h: the values of options that commands which record have in common, checked
 * before anything is started. */
#ifndef AG_RECORDING_OPTIONS_H
#define AG_RECORDING_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "writer/live_session.h"
#include "writer/snapshot.h"

/* --filter: which blocks are recorded. false: message has the invalid term and what is expected. */
extern const char ag_filter_option_help[];
bool ag_filter_option_check(const char *value, char ret_message[512]);

enum ag_sampling_option { AG_SAMPLING_INTERVAL, AG_SAMPLING_BUDGET, AG_SAMPLING_SEED };
extern const char *const ag_sampling_option_names[]; /* "--interval" */
/* NULL, or why the value is invalid: "not a number of bytes ...". */
const char *ag_sampling_option_set(struct ag_session_options *session,
                                   enum ag_sampling_option option, const char *value);

/* --adapters: "auto", "none", or adapter names joined by commas. false: message has the error and
 * the valid names. */
bool ag_adapter_list_check(const char *list, char ret_message[512]);

/* --dump-at: gc, peak, every=BYTES, every=TIME, signal=NAME. A number with a unit of time (a
 * lower-case letter at its end) is a time, any other is bytes: 5m are minutes, 5M are MiB. false:
 * none of them. */
bool ag_dump_trigger_parse(const char *text, struct ag_dump_when *ret_when);
/* HUP, QUIT, USR1 or USR2, with or without SIG: the signals that may request a dump. */
bool ag_dump_signal_parse(const char *name, uint64_t *ret_number);

#endif
