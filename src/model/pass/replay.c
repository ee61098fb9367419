/* replay.c: converts the steps of a ledger (births and deaths of blocks) to a history for exporters
 * and views. The ledger may undo steps; steps that are undone soon are left out of the history
 * (section 1).
 *
 * 1. Steps wait in a ring of a quarter of a million entries. When the ledger undoes a step, the
 *    newest equal step in the ring is found by a hash of its contents and removed. The oldest step
 *    of a full ring is delivered. The ledger undoes steps of the last milliseconds, which are
 *    normally still in the ring, and births of blocks whose types become known. If the ring does
 *    not contain the step, a step of the opposite kind is delivered, so that the sums remain
 *    correct.
 *
 * 2. A step belongs to a row of the profile (step_rows.h). Steps that the filters exclude have no
 *    row and are skipped.
 *
 * 3. The ledger of a sampled trace gets groups in place of stacks (weights.h). The weight of a
 *    group says how many blocks and bytes each of its samples represents.
 *
 * 4. The ledger may report a step after another step that has a later time, because the exact time
 *    of an event between two stamps is not known. In the history, such a step gets the time of the
 *    previous step, so that times never decrease. */
#include "model/pass/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "model/interval.h"
#include "model/pass/step_rows.h"
#include "model/profile_state.h"

enum { HELD_BITS = 18, HELD_STEPS = 1 << HELD_BITS };

struct held {
    struct ag_step step;
    uint64_t older; /* 1 + number of the next older step in the same slot of `newest`; 0: none */
    bool is_struck; /* the ledger has undone the step, so it is not delivered */
};
struct replay {
    struct ag_profile *profile;
    struct ag_ledger *ledger;
    ag_replay_visit *visit;
    void *context;
    struct held *ring;
    uint64_t first, end; /* steps are numbered; the ring contains those from `first` to `end` - 1 */
    /* by hash of a step: 1 + number of the newest step with this hash; 0: none. NULL until the
     * first step is undone. */
    uint64_t *newest;
    struct ag_step_rows rows;
    struct ag_weights weights; /* of a sampled trace: the ledger's stacks are groups of samples */
    uint64_t now_ns;
};

/* ---- delivering steps ---- */

/* Sets `bytes` and `block_parts` of RET_SITE. In a sampled trace, replaces the group and the
 * estimate in STEP by the stack and the size of the block. */
static void weigh(const struct replay *replay, struct ag_step *step,
                  struct ag_replay_step *ret_site) {
    const struct ag_weight *weight = replay->profile->definitions.is_sampled
                                         ? ag_weights_of(&replay->weights, step->stack)
                                         : NULL;
    /* in a sampled trace, the size that the ledger has is the number of bytes that the sample
     * represents */
    ret_site->bytes = step->size;
    ret_site->block_parts = AG_REPLAY_ONE_BLOCK;
    if (weight) {
        step->stack = weight->stack;
        step->size = weight->size;
        ret_site->block_parts = ag_estimate_whole(weight->blocks * AG_REPLAY_ONE_BLOCK);
    }
}

static int pass_on(struct replay *replay, const struct ag_step *held) {
    struct ag_step own = *held, *step = &own;
    struct ag_replay_step reported = {0};
    weigh(replay, step, &reported);
    const uint64_t start_ns = replay->profile->definitions.start_ns;
    const uint64_t time_ns = step->time_ns > start_ns ? step->time_ns - start_ns : 0;
    const uint64_t born_ns = step->allocated_ns > start_ns ? step->allocated_ns - start_ns : 0;
    if (AG_ARRAY_EXTEND(replay->rows.of_sum, replay->rows.n_sums, step->sum + (size_t)1) < 0) {
        return -ENOMEM;
    }
    const uint32_t row = ag_step_rows_of(&replay->rows, step);
    replay->now_ns = time_ns > replay->now_ns ? time_ns : replay->now_ns;
    if (row == UINT32_MAX) {
        return 0;
    }
    const bool is_death = step->kind == AG_STEP_DEATH || step->kind == AG_STEP_BIRTH_UNDONE;
    reported.time_ns = replay->now_ns;
    reported.size = step->size;
    reported.born_ns = born_ns;
    reported.lifetime_ns = is_death && time_ns > born_ns ? time_ns - born_ns : 0;
    reported.row = row;
    reported.is_death = is_death;
    reported.is_temporary = step->is_temporary;
    return replay->visit(replay->context, &reported);
}

static int let_go(struct replay *replay, uint64_t until) {
    int r = 0;
    while (replay->first < until && r == 0) {
        const struct held *oldest = &replay->ring[replay->first++ % HELD_STEPS];
        r = oldest->is_struck ? 0 : pass_on(replay, &oldest->step);
    }
    return r;
}

static uint64_t *slot_of(const struct replay *replay, const struct ag_step *step,
                         enum ag_step_kind kind) {
    const uint64_t hash = ag_keyed_hash_pair(ag_keyed_hash_pair(step->address, step->size),
                                             (uint64_t)step->sum << 1 | (kind == AG_STEP_DEATH));
    return &replay->newest[hash >> (64 - HELD_BITS)];
}

static void index_step(struct replay *replay, uint64_t number) {
    struct held *held = &replay->ring[number % HELD_STEPS];
    uint64_t *newest = slot_of(replay, &held->step, held->step.kind);
    held->older = *newest;
    *newest = number + 1;
}

static int make_index(struct replay *replay) {
    replay->newest = calloc(HELD_STEPS, sizeof(*replay->newest));
    if (!replay->newest) {
        return -ENOMEM;
    }
    for (uint64_t i = replay->first; i < replay->end; i++) {
        index_step(replay, i);
    }
    return 0;
}

/* Removes the newest step of kind KIND and of the block of UNDONE from the ring and from its slot.
 * Returns false if the ring does not contain such a step. Other steps of the slot, which have the
 * same hash by chance or are equal and older, stay. */
static bool strike(struct replay *replay, const struct ag_step *undone, enum ag_step_kind kind) {
    for (uint64_t *link = slot_of(replay, undone, kind); *link > replay->first;) {
        struct held *held = &replay->ring[(*link - 1) % HELD_STEPS];
        if (held->step.address == undone->address && held->step.kind == kind &&
            held->step.sum == undone->sum && held->step.size == undone->size) {
            held->is_struck = true;
            *link = held->older;
            return true;
        }
        link = &held->older;
    }
    return false;
}

static int hold(void *context, const struct ag_step *step) {
    struct replay *replay = context;
    const bool is_undone = step->kind == AG_STEP_BIRTH_UNDONE || step->kind == AG_STEP_DEATH_UNDONE;
    int r = is_undone && !replay->newest ? make_index(replay) : 0;
    if (r < 0) {
        return r;
    }
    if (is_undone &&
        strike(replay, step, step->kind == AG_STEP_BIRTH_UNDONE ? AG_STEP_BIRTH : AG_STEP_DEATH)) {
        return 0;
    }
    r = replay->end - replay->first == HELD_STEPS ? let_go(replay, replay->first + 1) : 0;
    replay->ring[replay->end % HELD_STEPS] = (struct held){.step = *step};
    if (replay->newest) {
        index_step(replay, replay->end);
    }
    replay->end++;
    return r;
}

int ag_profile_replay(struct ag_profile *profile, ag_replay_visit *visit, void *context) {
    if (profile->n_parts > 0) {
        return ag_profile_replay_of_parts(profile, visit, context);
    }
    struct replay replay = {.profile = profile, .visit = visit, .context = context};
    struct ag_pass_options pass = profile->pass;
    pass.weights = profile->definitions.is_sampled ? &replay.weights : NULL;
    replay.ledger = ag_ledger_new();
    /* the kernel allocates the pages of the ring when they are used */
    replay.ring = calloc(HELD_STEPS, sizeof(*replay.ring));
    int r =
        replay.ledger && replay.ring ? ag_step_rows_init(&replay.rows, replay.profile) : -ENOMEM;
    r = r < 0 ? r : ag_ledger_on_step(replay.ledger, hold, &replay);
    r = r < 0 ? r : ag_event_pass(profile->file, &profile->definitions, &pass, replay.ledger);
    r = r < 0 ? r : let_go(&replay, replay.end);
    (void)ag_ledger_free(replay.ledger);
    ag_step_rows_done(&replay.rows);
    ag_weights_done(&replay.weights);
    free(replay.ring);
    free(replay.newest);
    return r;
}

/* ---- sums per stack ---- */

/* Computes for each stack, from a replay, the most bytes that it had in use, and the sum of the
 * lifetimes of its blocks.
 *
 * The lifetime of a block that is still in use ends with the recording: the sum of the lifetimes of
 * all blocks in use is (number of these blocks) * (end of the recording) - (sum of the times of
 * their births). The sums have 128 bits, because in units of 1 / AG_REPLAY_ONE_BLOCK the sum over a
 * hundred million blocks that live for minutes exceeds 64 bits. */

struct life { /* sums of one row; blocks are counted in units of 1 / AG_REPLAY_ONE_BLOCK */
    /* lifetime_ns: sum of the lifetimes of freed blocks; born_ns: sum of the times of the births of
     * blocks in use */
    unsigned __int128 lifetime_ns, born_ns;
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
    /* if several moments have equally many bytes, the last counts, as for the peak of the
     * process */
    if (life->bytes >= result->max_bytes) {
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

/* ---- memory in use at given times ---- */

/* Computes from one replay how many bytes each stack had in use at several moments. */

struct moments {
    struct ag_moment *moments;
    size_t n, next;
    uint64_t *row_bytes; /* bytes in use by each row at the current time */
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
    /* multiplying an unsigned number by UINT64_MAX negates it */
    const uint64_t sign = step->is_death ? UINT64_MAX : 1;
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
