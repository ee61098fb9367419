/* process_life.h: whether this process records, or is a forked child that has not begun yet.
 *
 * fork copies all that the recorder knows, and a child must not use it: its chunks are its
 * parent's. So one word lies on a page that the kernel clears in every forked child, however it was
 * made (MADV_WIPEONFORK), and the fast path compares a thread's gate with that word instead of a
 * constant. In a child no gate is equal to it, and the first event comes to the slow path, which
 * begins the child's own recording. All else is left as it was: a hook that the child goes on with
 * (a signal handler interrupted it, and forked) finds the state that it had before.
 *
 * A child that shares its parent's memory (vfork, posix_spawn, clone with CLONE_VM) shares the page
 * and belongs to its parent, whatever its pid: what it allocates lies in the parent's heap.
 *
 * Linux before 4.14 clears nothing. There only the hooks of fork notice a child. */
#ifndef AG_PROCESS_LIFE_H
#define AG_PROCESS_LIFE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum { AG_LIFE_PAGE_BYTES = 4096 };

enum ag_process_life {
    AG_LIFE_FORKED = 0,    /* also before the recorder started */
    AG_LIFE_BEGUN = 1,     /* equals AG_GATE_OPEN; no gate has one of the other values */
    AG_LIFE_BEGINNING = 3, /* a thread of the child begins its recording */
    AG_LIFE_UNRECORDED = 5 /* the child is not recorded */
};

struct ag_life_page {
    __attribute__((aligned(AG_LIFE_PAGE_BYTES))) _Atomic uintptr_t life;
};
_Static_assert(sizeof(struct ag_life_page) == AG_LIFE_PAGE_BYTES, "it has its page for itself");
extern struct ag_life_page ag_life_page AG_HIDDEN;

AG_FAST uintptr_t ag_process_life(void) {
    return atomic_load_explicit(&ag_life_page.life, memory_order_relaxed);
}

/* Is this a child whose recording has not begun? */
AG_FAST bool ag_process_is_forked(void) {
    return ag_process_life() != AG_LIFE_BEGUN;
}

/* The recorder started in this process: a child is one from here on. */
void ag_process_life_begin(void);
/* true: it is up to the caller to begin the child's recording, and to say ag_process_life_settle.
 * false: another thread did, and is done. Call it with signals blocked. */
bool ag_process_life_claim(void);
void ag_process_life_settle(enum ag_process_life life);
/* A hook of fork returned in a child. Needed where the kernel clears nothing. */
void ag_process_life_forked(void);

#endif
