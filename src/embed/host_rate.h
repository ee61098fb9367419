/* host_rate.h: which blocks of the program's own heaps a sampled recording takes. */
#ifndef AG_HOST_RATE_H
#define AG_HOST_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Whether allogram.h may pass blocks by: the recording samples, and no tracker does. Whenever one
 * of the two has changed. */
void ag_host_rate_follow(bool has_tracker);
/* Whether this block of the calling thread is a sample, and with which interval it was chosen. For
 * each block that allogram.h did not pass by. */
bool ag_host_rate_selects(size_t bytes, uint64_t *ret_interval_bytes);

#endif
