/* process_life.c: keeps the word by which the recorder detects that its process was forked, on a
 * page of its own (process_life.h). The page is in the zero-initialized data of this library, at a
 * page boundary. Every loader maps anonymous private memory there, which is the only kind of memory
 * that the kernel can clear in a forked child. */
#include "process_life.h"

#include <sys/mman.h>

#include "base/raw_syscall.h"
#include "base/short_wait.h"

struct ag_life_page ag_life_page;
static bool is_wiped; /* whether the kernel clears the page in a forked child */

void ag_process_life_settle(enum ag_process_life life) {
    /* release: pairs with the acquire in ag_process_life_claim */
    atomic_store_explicit(&ag_life_page.life, life, memory_order_release);
}

void ag_process_life_begin(void) {
    is_wiped =
        ag_syscall3(SYS_madvise, (long)&ag_life_page, AG_LIFE_PAGE_BYTES, MADV_WIPEONFORK) == 0;
    ag_process_life_settle(AG_LIFE_BEGUN);
}

bool ag_process_life_claim(void) {
    enum { YIELD_NS = 1000 };
    uintptr_t found = AG_LIFE_FORKED;
    while (!atomic_compare_exchange_strong_explicit(&ag_life_page.life, &found, AG_LIFE_BEGINNING,
                                                    memory_order_acquire, memory_order_acquire)) {
        if (found != AG_LIFE_BEGINNING) {
            return false;
        }
        found = AG_LIFE_FORKED;
        ag_short_wait(YIELD_NS);
    }
    return true;
}

void ag_process_life_forked(void) {
    if (!is_wiped) {
        ag_process_life_settle(AG_LIFE_FORKED);
    }
}
