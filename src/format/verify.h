/* verify.h: is a trace whole? Decodes everything once, in the memory of one chunk. */
#ifndef AG_VERIFY_H
#define AG_VERIFY_H

#include "decode.h"
#include "segment.h"

struct ag_verdict {
    bool is_whole; /* sealed, every chunk decodes, every stream's chunks come once and in order */
    bool is_trace; /* false: it could not even be opened; damage says why, all else is 0 */
    bool has_end;  /* an END record: how the process ended is known */
    uint64_t chunks;
    uint64_t events; /* allocs, frees, realloc_frees and undo_frees that can be read */
    uint64_t lost[AG_LOST_CAUSES]; /* events the recorder counted as lost, by enum ag_lost_cause */
    uint64_t lost_unknown;         /* of causes that this reader does not know */
    struct ag_decode_error damage; /* the first damaged place; code AG_DECODE_OK: none */
    /* Of chunks that do not decode to their end, as their headers have it: what may be missing. */
    uint64_t damaged_chunks, damaged_events, damaged_bytes;
};

/* 0 with *ret_verdict, whatever the file is; negative errno when it could not be read (no such
 * file, no memory): then ret_verdict->damage tells too. */
int ag_trace_verify(const char *path, struct ag_verdict *ret_verdict);

#endif
