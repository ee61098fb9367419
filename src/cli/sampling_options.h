/* sampling_options.h: the options of `run` and `attach` that control sampling. */
#ifndef AG_SAMPLING_OPTIONS_H
#define AG_SAMPLING_OPTIONS_H

#include "writer/writer.h"

enum ag_sampling_option { AG_SAMPLING_INTERVAL, AG_SAMPLING_BUDGET, AG_SAMPLING_SEED };

extern const char *const ag_sampling_option_names[]; /* "--interval" */

/* NULL, or why the value is invalid: "not a number of bytes ...". */
const char *ag_sampling_option_set(struct ag_session_options *session,
                                   enum ag_sampling_option option, const char *value);

#endif
