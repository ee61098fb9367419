/* stack_lives.c: sums of single stacks from a replay: their own highest moment, and the lifetimes
 * of their blocks.
 *
 * A lifetime that has not ended is counted until the end of the recording: all births are
 * subtracted, deaths added, and the end is added for what is open then. 128 bits, because a hundred
 * million blocks that live for minutes exceed 64, with room for the parts of blocks that a sample
 * stands for. */
#include <errno.h>
#include <stdlib.h>

#include "model/pass/replay.h"
#include "model/profile_state.h"

struct life { /* of one row, while it is counted; in parts of AG_REPLAY_ONE_BLOCK */
    unsigned __int128 lifetime_ns, born_ns; /* of the dead; sum of births of the open */
    uint64_t bytes, block_parts;
};
struct lives {
    struct ag_stack_life *results;
    struct life *running;
};

static int count_life(void *context, const struct ag_replay_step *step) {
    struct lives *lives = context;
    struct life *life = &lives->running[step->row];
    struct ag_stack_life *result = &lives->results[step->row];
    if (step->is_death) {
        life->bytes -= step->bytes;
        life->block_parts -= step->block_parts;
        life->born_ns -= (unsigned __int128)step->born_ns * step->block_parts;
        life->lifetime_ns += (unsigned __int128)step->lifetime_ns * step->block_parts;
        return 0;
    }
    life->bytes += step->bytes;
    life->block_parts += step->block_parts;
    life->born_ns += (unsigned __int128)step->born_ns * step->block_parts;
    if (life->bytes >= result->max_bytes) { /* the latest, on a tie: as the process' peak */
        result->max_bytes = life->bytes;
        result->max_blocks = life->block_parts / AG_REPLAY_ONE_BLOCK;
    }
    return 0;
}

int ag_profile_stack_lives(struct ag_profile *profile, struct ag_stack_life **ret_lives) {
    struct lives lives = {.results = calloc(profile->n_rows + 1, sizeof(*lives.results)),
                          .running = calloc(profile->n_rows + 1, sizeof(*lives.running))};
    int r =
        lives.results && lives.running ? ag_profile_replay(profile, count_life, &lives) : -ENOMEM;
    for (size_t i = 0; i < profile->n_rows && r == 0; i++) {
        const struct life *life = &lives.running[i];
        const unsigned __int128 ends_ns =
            (unsigned __int128)life->block_parts * profile->summary.duration_ns;
        const unsigned __int128 open_ns = ends_ns > life->born_ns ? ends_ns - life->born_ns : 0;
        lives.results[i].lifetime_us =
            (uint64_t)((life->lifetime_ns + open_ns) / 1000 / AG_REPLAY_ONE_BLOCK);
    }
    free(lives.running);
    if (r < 0) {
        free(lives.results);
        return r;
    }
    *ret_lives = lives.results;
    return 0;
}
