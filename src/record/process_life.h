/* process_life.h: says whether this process records, or is a forked child whose recording has not
 * begun yet.
 *
 * fork copies the recorder's state. A child must not use the copy, because it refers to chunks
 * (memory for events) that belong to the parent. So one word is on a page that the kernel clears in
 * every forked child, however the child was made (MADV_WIPEONFORK). A thread's gate is a word that
 * says whether the thread is inside a hook (the code that records a call of malloc or the like).
 * The fast path of recording compares the gate with the cleared word instead of a constant. In a
 * child no gate equals this word, so the first event takes the slow path, which begins the child's
 * own recording. The kernel changes no other state. So if a signal handler interrupts a hook and
 * forks, the hook continues in the child with the state that it had before.
 *
 * A child that shares its parent's memory (vfork, posix_spawn, clone with CLONE_VM) shares the
 * page, too. The recorder treats it as a part of its parent, although its pid differs, because it
 * allocates in the parent's heap.
 *
 * Linux before 4.14 does not support MADV_WIPEONFORK. On such a kernel only the hooks of fork
 * detect a child. */
#ifndef AG_PROCESS_LIFE_H
#define AG_PROCESS_LIFE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/compiler.h"

enum { AG_LIFE_PAGE_BYTES = 4096 };

enum ag_process_life {
    /* a forked child whose recording has not begun; also before the recorder is started */
    AG_LIFE_FORKED = 0,
    /* the process is recorded; equals AG_GATE_OPEN; no gate equals one of the other values */
    AG_LIFE_BEGUN = 1,
    AG_LIFE_BEGINNING = 3, /* a thread of the child is beginning its recording */
    AG_LIFE_UNRECORDED = 5 /* the child is not recorded */
};

struct ag_life_page {
    __attribute__((aligned(AG_LIFE_PAGE_BYTES))) _Atomic uintptr_t life;
};
_Static_assert(sizeof(struct ag_life_page) == AG_LIFE_PAGE_BYTES,
               "no other variable is in this page");
extern struct ag_life_page ag_life_page AG_HIDDEN;

AG_FAST uintptr_t ag_process_life(void) {
    return atomic_load_explicit(&ag_life_page.life, memory_order_relaxed);
}

/* Whether this process is a forked child whose recording has not begun. Also true before the
 * recorder is started, and in a child that is not recorded. */
AG_FAST bool ag_process_is_forked(void) {
    return ag_process_life() != AG_LIFE_BEGUN;
}

/* Called when the recorder has started in this process. From then on, forked children are
 * detected. */
void ag_process_life_begin(void);
/* Returns true if the calling thread has to begin the child's recording and then to call
 * ag_process_life_settle; false: another thread has already begun it. Call it with signals
 * blocked. */
bool ag_process_life_claim(void);
void ag_process_life_settle(enum ag_process_life life);
/* Called in a child when a hook of fork returns. The call is needed if the kernel does not clear
 * the page. */
void ag_process_life_forked(void);

#endif
