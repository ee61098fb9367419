/* recording_file.h: the trace file of a recording: opens it and reserves disk space for it. */
#ifndef AG_RECORDING_FILE_H
#define AG_RECORDING_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "format/segment.h"

struct ag_recording;

/* Opens or creates the trace of the process, and starts or resumes its trace writer. COPY is a copy
 * of the process' slot: its entry in the live segment, the memory that recorder and writer share.
 * 0, or negative errno: the recording cannot write to a file. */
int ag_recording_open_trace(struct ag_recording *recording, const struct ag_process_slot *copy);

/* ---- room ---- */

struct ag_trace_room {    /* how large a trace may become */
    int fd;               /* descriptor of the trace; -1: there is none */
    uint64_t max_bytes;   /* size limit by option; 0: none */
    uint64_t limit_bytes; /* RLIMIT_FSIZE; UINT64_MAX: none */
    uint64_t reserved_to; /* file offset up to which disk space is reserved */
    bool cannot_reserve;  /* the file system does not support reservations */
};
void ag_trace_room_start(struct ag_trace_room *room, int fd, uint64_t max_bytes);

/* Is there a size limit? */
static inline bool ag_trace_room_is_bounded(const struct ag_trace_room *room) {
    return room->max_bytes > 0 || room->limit_bytes != UINT64_MAX;
}

enum { AG_ROOM_AS_ASKED = 1 };
/* May the trace, which has trace_bytes now, grow by `bytes`, and then by its end, which contains
 * the sums of n_stacks stacks? 0: yes. AG_ROOM_AS_ASKED: the trace would exceed the requested size.
 * -ENOSPC, -EDQUOT, -EFBIG: there is no room. */
int ag_trace_room_check(struct ag_trace_room *room, uint64_t trace_bytes, uint64_t bytes,
                        uint64_t n_stacks);

#endif
