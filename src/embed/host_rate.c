/* host_rate.c: samples the blocks that a program reports, for host_events.c.
 *
 * These blocks are sampled separately from those of malloc, with a skip (the bytes up to the next
 * sample, base/skip.h) of their own; a block's probability still depends only on its size.
 * allogram.h counts down a part of that skip, the grant, in ag_host_left, so that a block that is
 * not a sample costs a subtraction and a branch.
 *
 * The used part of the grant is unknown in two cases: a tracker (the program's callbacks for
 * sampled blocks, tracker.h) has used ag_host_left meanwhile, or a signal handler interrupted a
 * subtraction. Then the skip is drawn again, which causes no bias: the rest of a skip has the same
 * distribution as a new skip. */
#include "host_rate.h"

#include "allogram/allogram.h"
#include "base/skip.h"
#include "host_events.h"
#include "record/recorder.h"
#include "record/sampler.h"
#include "tracker.h"

static __thread struct {
    struct ag_skip skip;
    uint64_t granted; /* the part of the skip put into ag_host_left */
    uint32_t version; /* ag_tracker_version when that part was put there */
    uint32_t pid;     /* the process that drew the skip; a forked child draws a new one */
} own;

void ag_host_rate_follow(bool has_tracker) {
    const bool is_rated = !has_tracker && ag_recorder_is_sampling();
    ag_host_mode(is_rated ? ALLOGRAM_RATED_ : 0, is_rated ? 0 : ALLOGRAM_RATED_);
}

static void settle_grant(void) {
    const uint64_t left = ag_host_left;
    if (own.pid != ag_recorder.pid) {
        own.skip = (struct ag_skip){0};
    } else if (own.version != ag_tracker_version() || left > own.granted) {
        ag_skip_set_interval(&own.skip, own.skip.interval_bytes);
    } else {
        own.skip.left_bytes -= own.granted - left;
    }
}

bool ag_host_rate_selects(size_t bytes, uint64_t *ret_interval_bytes) {
    settle_grant();
    const bool is_taken = ag_sampler_takes_from(&own.skip, bytes, ret_interval_bytes);
    const uint64_t left = own.skip.left_bytes;
    own.granted = left < AG_TRACKER_GRANT_BYTES ? left : AG_TRACKER_GRANT_BYTES;
    own.version = ag_tracker_version();
    own.pid = ag_recorder.pid;
    ag_host_left = own.granted;
    return is_taken;
}
