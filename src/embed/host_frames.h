/* host_frames.h: the frames that a program reports for its virtual machine, in the form that the
 * recorder (the code that writes events for the trace) uses. */
#ifndef AG_HOST_FRAMES_H
#define AG_HOST_FRAMES_H

#include "allogram/allogram.h"
#include "record/managed_frames.h"

enum { AG_HOST_BLOCK_FRAMES_MOST = 64 };

/* Converts the frames that were reported with the block; returns their number. */
uint32_t ag_host_frames_of(const struct allogram_block *block,
                           struct ag_managed_frame ret_frames[AG_HOST_BLOCK_FRAMES_MOST]);

#endif
