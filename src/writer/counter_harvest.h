/* counter_harvest.h: takes the function counters of a process (the counts of calls, words and time
 * by call path, format/counter_set.h) from the live segment, the memory that the process shares
 * with the writer. */
#ifndef AG_COUNTER_HARVEST_H
#define AG_COUNTER_HARVEST_H

#include "recording.h"

/* Adds the current values of all counter sets of the process to recording->counters, which
 * ag_recording_finish (recording.h) writes into the trace. The process may still live. Only the
 * first call for a recording does anything. */
void ag_counter_harvest(struct ag_recording *recording);
/* Frees the chunks (pieces of the segment) that hold the process' counters, so that other processes
 * can use them. The process must have ended. */
void ag_counter_harvest_release(const struct ag_recording *recording);

#endif
