/* safe_point.h: examines the stack of a thread of the target (the process that is attached to):
 * whether it is safe to make the thread call the loader, and whether it is inside certain code. */
#ifndef AG_SAFE_POINT_H
#define AG_SAFE_POINT_H

#include "observe/frame_walk.h"
#include "observe/observed_images.h"
#include "traced_thread.h"

enum { AG_ZONES_MOST = 512, AG_SAFE_POINT_FRAMES = 16384 };

struct ag_zone { /* code of the target, [low, high), that may hold locks which dlopen takes */
    uint64_t low, high;
    const char *what; /* description for a message, for example "in the allocator" */
};
struct ag_code_range {
    uint64_t low, high; /* [low, high) */
};
/* What is known about the code of the target, and memory for the walk of one stack at a time. */
struct ag_safe_ground {
    struct ag_observed_images *images;
    struct ag_frame_walker walker;
    const struct ag_observed_image *libc;
    struct ag_zone zones[AG_ZONES_MOST];
    size_t n_zones;
    struct ag_code_range libc_allocator; /* low == high: there is none */
    /* found by the last walk of a stack */
    struct allogram_native_frame frames[AG_SAFE_POINT_FRAMES];
    uint8_t stack[64 << 10]; /* copy of the thread's stack */
};

/* Finds the zones and the allocator of the C library in IMAGES, the mapped files. LIBC: the image
 * of the C library. Returns 0 or -ENOMEM. */
int ag_safe_ground_survey(struct ag_safe_ground *ground, struct ag_observed_images *images,
                          const struct ag_observed_image *libc);
void ag_safe_ground_done(struct ag_safe_ground *ground);

/* Returns NULL if the thread may call malloc and the loader at this point, otherwise the reason why
 * not, a constant text. */
const char *ag_safe_point_obstacle(struct ag_safe_ground *ground,
                                   const struct ag_traced_thread *thread);

/* Whether the thread runs on its own stack, not on another stack such as that of a signal handler,
 * and the stack has room for all calls. */
bool ag_safe_point_has_room(const struct ag_safe_ground *ground,
                            const struct ag_traced_thread *thread);

/* Whether the thread is inside one of these ranges, or will return there. A stack that cannot be
 * walked to its end is searched word by word; in that case, true means that the thread may be
 * inside. */
bool ag_thread_is_in_ranges(struct ag_safe_ground *ground, const struct ag_traced_thread *thread,
                            const struct ag_code_range *ranges, size_t n_ranges);
/* Whether the thread is inside one of these ranges. Unlike ag_thread_is_in_ranges, does not count
 * outermost frames in the ranges that have called other code: a thread that was started by code in
 * the ranges always has such frames. */
bool ag_thread_is_busy_in(struct ag_safe_ground *ground, const struct ag_traced_thread *thread,
                          const struct ag_code_range *ranges, size_t n_ranges);

#endif
