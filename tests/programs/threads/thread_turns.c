/* thread_turns.c: two threads take strict turns, so that the peak is known although two threads
 * make it. 20000 times, A allocates 1000 bytes, B frees them and allocates 500, and A frees these.
 * Once, in the middle, B allocates 100 x 40 bytes before it frees A's block. If allogram orders the
 * threads' events wrongly, the peak that it reports is another one.
 *
 * The threads hand over through memory, so their events are nanoseconds apart. The peak is 1000 +
 * 4000 bytes and what the C runtime keeps for the two threads.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's
 * runtime allocates; the judge (counting_preload.c) counts them.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 40100 + runtime
 * @allocated_bytes  20000 * 1500 + 4000 + runtime
 * @freed_blocks     40100 + runtime
 * @peak_bytes       5000 + runtime
 * @ghost_frees      0
 * @threads          3
 */
#include <pthread.h>
#include <stdatomic.h>

#include "../say.h"

enum { TURNS = 20000, MIDDLE = 100 };
static _Atomic(void *) for_a, for_b;
static _Atomic int started;

static void give(_Atomic(void *) *to, void *block) {
    atomic_store(to, block);
}

static void *take(_Atomic(void *) *from) {
    void *block;
    for (unsigned spins = 0; (block = atomic_exchange(from, NULL)) == NULL; spins++) {
        if (spins % 1024 == 1023) {
            sched_yield();
        }
    }
    return block;
}

static void wait_for_both(void) {
    atomic_fetch_add(&started, 1);
    while (atomic_load(&started) < 2) {
        sched_yield();
    }
}

static void *run_a(void *unused) {
    wait_for_both();
    for (int i = 0; i < TURNS; i++) {
        give(&for_b, malloc(1000));
        free(take(&for_a));
    }
    return unused;
}

static void *run_b(void *unused) {
    wait_for_both();
    for (int i = 0; i < TURNS; i++) {
        void *block = take(&for_b), *more[MIDDLE];
        for (int k = 0; i == TURNS / 2 && k < MIDDLE; k++) {
            more[k] = malloc(40);
        }
        for (int k = 0; i == TURNS / 2 && k < MIDDLE; k++) {
            free(more[k]);
        }
        free(block);
        give(&for_a, malloc(500));
    }
    return unused;
}

int main(void) {
    pthread_t a, b;
    pthread_create(&a, NULL, run_a, NULL);
    pthread_create(&b, NULL, run_b, NULL);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    say("turns\n");
    return 0;
}
