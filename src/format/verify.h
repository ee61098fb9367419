/* verify.h: checks whether a trace is whole. For this, it decodes all chunks (separately compressed
 * parts) of the trace, one at a time. */
#ifndef AG_VERIFY_H
#define AG_VERIFY_H

#include "decode.h"
#include "segment.h"

struct ag_verdict {
    /* the trace is complete (sealed), every chunk decodes, and the chunks of every stream (thread)
     * are in order */
    bool is_whole;
    /* false: the file could not be opened as a trace; `damage` has the cause, all other fields are
     * 0 */
    bool is_trace;
    bool has_end; /* the trace has an END record, which says how the process ended */
    uint64_t chunks;
    uint64_t events; /* readable events of all kinds but stamps (times) */
    /* events that were counted as lost during the recording, by enum ag_lost_cause */
    uint64_t lost[AG_LOST_CAUSES];
    uint64_t lost_unknown;         /* lost events whose cause is unknown to this reader */
    struct ag_decode_error damage; /* the first damaged place; code AG_DECODE_OK: none */
    /* The number of chunks that could not be decoded to their end, and the events and stored bytes
     * of these chunks by their headers. Some of these events were readable. */
    uint64_t damaged_chunks, damaged_events, damaged_bytes;
};

/* Reports its pass to PROGRESS, unless PROGRESS is NULL. Fills *ret_verdict and returns 0, whatever
 * the file contains. Returns a negative errno if the file could not be opened (then
 * ret_verdict->damage is set, too), or if there is no memory. */
int ag_trace_verify(const char *path, const struct ag_progress *progress,
                    struct ag_verdict *ret_verdict);

#endif
