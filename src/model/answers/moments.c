/* moments.c: what was in use at several moments, stack by stack, from one replay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/pass/replay.h"
#include "model/profile_state.h"

struct moments {
    struct ag_moment *moments;
    size_t n, next;
    uint64_t *row_bytes; /* in use now */
    size_t n_rows;
    uint64_t bytes, block_parts;
};

static void moments_take(struct moments *all) {
    struct ag_moment *moment = &all->moments[all->next++];
    moment->in_use_bytes = all->bytes;
    moment->in_use_blocks = all->block_parts / AG_REPLAY_ONE_BLOCK;
    if (moment->row_bytes) {
        memcpy(moment->row_bytes, all->row_bytes, all->n_rows * sizeof(*all->row_bytes));
    }
}

static int count_step(void *context, const struct ag_replay_step *step) {
    struct moments *all = context;
    while (all->next < all->n && all->moments[all->next].time_ns <= step->time_ns) {
        moments_take(all);
    }
    const uint64_t sign = step->is_death ? UINT64_MAX : 1; /* times -1 */
    all->row_bytes[step->row] += sign * step->bytes;
    all->bytes += sign * step->bytes;
    all->block_parts += sign * step->block_parts;
    return 0;
}

int ag_profile_moments(struct ag_profile *profile, struct ag_moment *moments, size_t n) {
    if (profile->n_parts > 0) {
        return ag_profile_moments_of_parts(profile, moments, n);
    }
    struct moments all = {.moments = moments,
                          .n = n,
                          .row_bytes = calloc(profile->n_rows + 1, sizeof(*all.row_bytes)),
                          .n_rows = profile->n_rows};
    const int r = all.row_bytes ? ag_profile_replay(profile, count_step, &all) : -ENOMEM;
    while (r == 0 && all.next < n) {
        moments_take(&all);
    }
    free(all.row_bytes);
    return r;
}
