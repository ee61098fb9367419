/* host_rate.h: selects the blocks of the program's own heaps that a sampled recording records. */
#ifndef AG_HOST_RATE_H
#define AG_HOST_RATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decides whether allogram.h may skip blocks: only if the recording samples and no tracker (the
 * program's callbacks for sampled blocks, tracker.h) samples. Called whenever the recording or the
 * tracker has changed. */
void ag_host_rate_follow(bool has_tracker);
/* Whether this block of the calling thread is a sample, and the interval that it was selected with.
 * Called for each block that allogram.h did not skip. */
bool ag_host_rate_selects(size_t bytes, uint64_t *ret_interval_bytes);

#endif
