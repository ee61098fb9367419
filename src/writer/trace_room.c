/* trace_room.c: reserves disk space for a trace's end and index, which must fit even when the trace
 * meets a full disk, a quota or its own size limit. The space is reserved before each chunk, as
 * blocks behind the file's end (FALLOC_FL_KEEP_SIZE), where the file system supports that. */
#include "trace_room.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    END_BYTES = 24 * 1024,       /* timeline, heaps, threads, end and footer, compressed */
    BYTES_PER_STACK = 16,        /* of its sums, compressed: 10 to 14 were measured */
    TRACE_BYTES_PER_ENTRY = 512, /* the list of chunks: 10 bytes per 5 KiB or more of trace */
    STEP_MAX_BYTES = 1024 * 1024,
};

void ag_trace_room_start(struct ag_trace_room *room, int fd, uint64_t max_bytes) {
    struct rlimit limit = {.rlim_cur = RLIM_INFINITY};
    (void)getrlimit(RLIMIT_FSIZE, &limit); /* cannot fail for a known limit */
    *room = (struct ag_trace_room){
        .fd = fd,
        .max_bytes = max_bytes,
        .limit_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur,
    };
}

static uint64_t end_bytes(const struct ag_trace_room *room, uint64_t trace_bytes,
                          uint64_t n_stacks) {
    const uint64_t bytes =
        END_BYTES + n_stacks * BYTES_PER_STACK + trace_bytes / TRACE_BYTES_PER_ENTRY;
    /* in a small trace, events are worth more than an index */
    const uint64_t most = room->max_bytes / 4;
    return room->max_bytes > 0 && bytes > most ? most : bytes;
}

static int room_reserve(struct ag_trace_room *room, uint64_t from, uint64_t to) {
    if (fallocate(room->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from)) == 0) {
        room->reserved_to = to;
        return 0;
    }
    if (errno == ENOSPC || errno == EDQUOT || errno == EINTR) {
        return -errno;
    }
    room->cannot_reserve = true;
    return 0;
}

int ag_trace_room_check(struct ag_trace_room *room, uint64_t trace_bytes, uint64_t bytes,
                        uint64_t n_stacks) {
    const uint64_t wanted = trace_bytes + bytes + end_bytes(room, trace_bytes, n_stacks);
    if (room->max_bytes > 0 && wanted > room->max_bytes) {
        return AG_ROOM_AS_ASKED;
    }
    if (wanted > room->limit_bytes) {
        return -EFBIG;
    }
    if (wanted <= room->reserved_to || room->cannot_reserve) {
        return 0;
    }
    const uint64_t from = room->reserved_to > trace_bytes ? room->reserved_to : trace_bytes;
    /* Reserves in steps of a quarter, so that a trace of many chunks asks seldom. No more than
     * that: each process of a session reserves its own space, and the space that idle ones hold is
     * missing for busy ones. */
    uint64_t step = trace_bytes / 4;
    step = step > STEP_MAX_BYTES ? STEP_MAX_BYTES : step;
    int r = room_reserve(room, from, wanted + step);
    if (r == -ENOSPC || r == -EDQUOT) {
        r = room_reserve(room, from, wanted); /* tries the remainder */
    }
    return r == -EINTR ? 0 : r; /* asked again before the next chunk */
}

void ag_trace_room_done(struct ag_trace_room *room, uint64_t trace_bytes) {
    if (room->fd >= 0 && room->reserved_to > trace_bytes) {
        /* blocks that stay reserved are wasted but harmless */
        (void)!ftruncate(room->fd, (off_t)trace_bytes);
    }
}
