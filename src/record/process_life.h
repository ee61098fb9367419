/* process_life.h: tells whether this process records, or is a forked child that has not begun yet.
 *
 * fork copies the recorder's state, and a child must not use the copy: its chunks belong to the
 * parent. So one word lies on a page that the kernel clears in every forked child, however the
 * child was made (MADV_WIPEONFORK), and the fast path compares a thread's gate with that word
 * instead of a constant. In a child no gate equals the word, so the first event takes the slow
 * path, which begins the child's own recording. All other state is unchanged: a hook that continues
 * in the child (a signal handler interrupted it, and forked) finds the state that it had before.
 *
 * A child that shares its parent's memory (vfork, posix_spawn, clone with CLONE_VM) shares the page
 * and counts as part of its parent, although its pid differs: it allocates in the parent's heap.
 *
 * Linux before 4.14 clears no page. There only the hooks of fork detect a child. */
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
    AG_LIFE_BEGINNING = 3, /* a thread of the child is beginning its recording */
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

/* Whether this is a child whose recording has not begun. */
AG_FAST bool ag_process_is_forked(void) {
    return ag_process_life() != AG_LIFE_BEGUN;
}

/* Called when the recorder has started in this process: children forked later are detected. */
void ag_process_life_begin(void);
/* true: the calling thread has to begin the child's recording, and then to call
 * ag_process_life_settle. false: another thread has done so. Call it with signals blocked. */
bool ag_process_life_claim(void);
void ag_process_life_settle(enum ag_process_life life);
/* Called when a hook of fork returns in a child. Needed if the kernel does not clear the page. */
void ag_process_life_forked(void);

#endif
