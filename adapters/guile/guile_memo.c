/* guile_memo.c: remembers the frames of a thread's VM stack between two walks, so that only frames
 * that changed cost more than a comparison.
 *
 * 1. A walk reads the frames from the innermost outward, until it has as many frames of procedures
 * as a recorded stack can have, the memo is full, or it has reached the outermost frame. A frame
 * that has the same distance from the end of the stack and the same pc as a remembered frame has
 * the same procedure and line.
 *
 * 2. The remembered frames from the outermost one up to the first difference are kept. The frames
 * further inside are replaced. If the walk ended before the outermost frame, remembered frames
 * further outside are not compared. They do no harm: they are beyond the depth of the recorded
 * stack.
 *
 * 3. A call of Scheme code from C pushes a boot frame, whose pc is 0 (guile_stacks.c). The frames
 * between two boot frames are a run (record/managed_frames.h). Frames of a run that have not
 * changed keep their nodes of the stack tree. */
#include "guile_memo.h"

#include <string.h>

#include "base/pages.h"
#include "record/recorder.h"

enum { FRAMES_PER_DEPTH = 4 };

static bool memo_map(struct ag_guile_memo *memo, uint32_t capacity) {
    const size_t bytes = 2 * sizeof(*memo->known) + sizeof(*memo->frames) + sizeof(*memo->runs);
    if (memo->known) {
        ag_pages_unmap(memo->known, memo->capacity * bytes);
    }
    memo->known = ag_pages_map(capacity * bytes); /* pages never used take no memory */
    memo->capacity = memo->known ? capacity : 0;
    memo->read = memo->known + capacity;
    memo->frames = (struct ag_run_frame *)(memo->read + capacity);
    memo->runs = (struct ag_frame_run *)(memo->frames + capacity);
    memo->n = memo->n_runs = 0;
    return memo->known != NULL;
}

bool ag_guile_memo_begin(struct ag_guile_memo *memo) {
    const uint32_t recording = ag_stacks_recording();
    const uint32_t capacity = ag_recorder.depth * FRAMES_PER_DEPTH;
    memo->n_read = 0;
    if (AG_LIKELY(memo->recording == recording && memo->capacity >= capacity)) {
        return true;
    }
    memo->recording = recording; /* the new mapping also drops the sites and nodes */
    return memo_map(memo, capacity);
}

bool ag_guile_memo_read_new(struct ag_guile_memo *memo, uintptr_t pc, uintptr_t distance,
                            uintptr_t frame) {
    struct ag_guile_frame *read = &memo->read[memo->n_read++];
    *read = (struct ag_guile_frame){.pc = pc, .distance = distance};
    if (pc != 0) {
        read->place = ag_guile_place_of(pc, frame);
    }
    return read->place.function != 0;
}

/* Ends the last run at frame N_FRAMES, and forgets the nodes of its frames further inside. */
static void finish_run(struct ag_guile_memo *memo, uint32_t n_frames) {
    if (memo->n_runs > 0) {
        struct ag_frame_run *run = &memo->runs[memo->n_runs - 1];
        run->n = (uint32_t)(memo->frames + n_frames - run->frames);
        run->n_known = run->n_known < run->n ? run->n_known : run->n;
    }
}

/* Replaces the remembered frames from index `kept` on by the N innermost frames of the walk. */
static void replace(struct ag_guile_memo *memo, uint32_t kept, uint32_t n, uintptr_t stack_high) {
    const uint32_t n_old_runs = memo->n_runs;
    uint32_t n_frames = kept > 0 ? memo->known[kept - 1].n_frames : 0;
    memo->n_runs = kept > 0 ? memo->known[kept - 1].n_runs : 0;
    for (uint32_t i = n; i-- > 0;) {
        struct ag_guile_frame *frame = &memo->known[kept++];
        *frame = memo->read[i];
        if (frame->known != 0) { /* a remembered frame that is further inside than a frame that
                                  * differs; the walk has not looked up its place */
            frame->place = frame->pc != 0
                               ? ag_guile_place_of(frame->pc, stack_high - frame->distance)
                               : (struct ag_guile_place){.function = 0};
        }
        if (frame->pc == 0 || memo->n_runs == 0) {
            finish_run(memo, n_frames);
            struct ag_frame_run *run = &memo->runs[memo->n_runs++];
            if (memo->n_runs > n_old_runs || run->frames != memo->frames + n_frames) {
                *run = (struct ag_frame_run){.frames = memo->frames + n_frames};
            }
        }
        if (frame->place.function != 0) {
            struct ag_frame_run *run = &memo->runs[memo->n_runs - 1];
            ag_run_set(run, (uint32_t)(memo->frames + n_frames - run->frames),
                       frame->place.function, frame->place.line);
            n_frames++;
        }
        frame->n_frames = n_frames;
        frame->n_runs = memo->n_runs;
    }
    finish_run(memo, n_frames);
    memo->n = kept;
}

void ag_guile_memo_end(struct ag_guile_memo *memo, uintptr_t stack_high) {
    uint32_t n = memo->n_read; /* the frames from `n` outward are remembered */
    uint32_t kept = 0;
    while (n > 0) {
        const uint32_t index = memo->read[n - 1].known;
        if (index == 0 || (kept != 0 && index != kept + 1)) {
            break;
        }
        kept = index;
        n--;
    }
    if (kept + n > memo->capacity) {
        kept = 0;
        n = memo->n_read;
    }
    replace(memo, kept, n, stack_high);
}
