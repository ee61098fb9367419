/* reached_code.h: finds the functions of the target that a function reaches by jumps. A function
 * that ends with a jump to another function (a tail call) has no frame while that function runs. */
#ifndef AG_REACHED_CODE_H
#define AG_REACHED_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "observe/observed_images.h"

enum { AG_REACHED_MOST = 256 };
struct ag_reached_code { /* zero-initialize, then set `images` and `libc` */
    const struct ag_observed_images *images;
    const struct ag_observed_image *libc; /* jumps into it are not followed */
    size_t n;
    /* [low, high) of each function: first those that were added, later those that they reach */
    struct {
        uint64_t low, high;
    } functions[AG_REACHED_MOST];
};

/* Adds the function of the target at ADDRESS and all functions that it reaches by direct jumps and
 * by jumps through words in memory, such as those of the PLT (procedure linkage table). Jumps
 * through registers are not followed. If there are more than AG_REACHED_MOST functions, the rest is
 * missing. */
void ag_reached_code_add(struct ag_reached_code *reached, uint64_t address);

/* Whether PC of process PID is in a stub of the PLT: a thread there is about to enter a function of
 * a library. A function that ends with a jump to the stub has no frame anymore. */
bool ag_is_in_stub(pid_t pid, uint64_t pc);

#endif
