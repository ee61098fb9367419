/* verify.h: checks whether a trace is whole: decodes all of it, one chunk at a time. */
#ifndef AG_VERIFY_H
#define AG_VERIFY_H

#include "decode.h"
#include "segment.h"

struct ag_verdict {
    bool is_whole; /* sealed, every chunk decodes, and the chunks of every stream are in order */
    bool is_trace; /* false: it could not even be opened; damage has the cause, all else is 0 */
    bool has_end;  /* an END record: how the process ended is known */
    uint64_t chunks;
    uint64_t events; /* readable events of all kinds but stamps */
    /* events that the recorder counted as lost, by enum ag_lost_cause */
    uint64_t lost[AG_LOST_CAUSES];
    uint64_t lost_unknown;         /* of causes unknown to this reader */
    struct ag_decode_error damage; /* the first damaged place; code AG_DECODE_OK: none */
    /* The chunks that could not be decoded to their end. By their headers, they have so many events
     * and stored bytes, some of which were readable. */
    uint64_t damaged_chunks, damaged_events, damaged_bytes;
};

/* 0 with *ret_verdict, whatever the file contains; negative errno when it could not be read (no
 * such file, no memory): ret_verdict->damage is set then, too. */
int ag_trace_verify(const char *path, struct ag_verdict *ret_verdict);

#endif
