/* filter_option.h: --filter of `run` and `attach`: which blocks are recorded. */
#ifndef AG_FILTER_OPTION_H
#define AG_FILTER_OPTION_H

#include <stdbool.h>

extern const char ag_filter_option_help[];
/* false: message has the invalid term and what is expected. */
bool ag_filter_option_check(const char *value, char ret_message[512]);

#endif
