/* call_difference_view.h: the part of `allogram diff` that compares function counters: the calls,
 * words and times that runtimes such as Erlang and Lua count for each function. */
#ifndef AG_CALL_DIFFERENCE_VIEW_H
#define AG_CALL_DIFFERENCE_VIEW_H

#include <stdbool.h>

#include "model/answers/call_difference.h"
#include "report/view.h"

/* Whether one of the profiles has function counters. */
static inline bool ag_call_difference_is_there(const struct ag_call_difference *calls) {
    return calls->before->n_trees > 0 || calls->after->n_trees > 0;
}
/* Write the comparison. 0 or -ENOMEM. */
int ag_call_difference_text(struct ag_view *view, const struct ag_call_difference *calls);
int ag_call_difference_json(struct ag_view *view, const struct ag_call_difference *calls);

#endif
