/* cross_free.c: two threads free each other's blocks. A allocates 20000 x 48 bytes for B, and B
 * allocates 30000 x 80 bytes for A; each frees all blocks of the other. The main thread only waits.
 *
 * Pairs (from the threads view): A->B 20000 blocks 960000 bytes, B->A 30000 blocks 2400000 bytes.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's
 * runtime allocates; the judge (counting_preload.c) counts them.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 50000 + runtime
 * @allocated_bytes  20000 * 48 + 30000 * 80 + runtime
 * @freed_blocks     50000 + runtime
 * @ghost_frees      0
 * @threads          3
 * @pair             20000 20000 * 48
 * @pair             30000 30000 * 80
 * @varies           peak_bytes peak_blocks temporary_blocks
 */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../say.h"

enum { RING = 256 };
struct mailbox {
    _Atomic(void *) slots[RING];
    unsigned long n;
    size_t size;
};
static struct mailbox for_b = {.n = 20000, .size = 48}, for_a = {.n = 30000, .size = 80};

struct side {
    struct mailbox *out, *in;
};

static void *work(void *argument) {
    struct side *side = argument;
    unsigned long sent = 0, received = 0;
    while (sent < side->out->n || received < side->in->n) {
        _Atomic(void *) *slot = &side->out->slots[sent % RING];
        if (sent < side->out->n && atomic_load(slot) == NULL) {
            char *block = malloc(side->out->size);
            memset(block, (int)sent, side->out->size);
            atomic_store(slot, block);
            sent++;
        }
        slot = &side->in->slots[received % RING];
        if (received < side->in->n && atomic_load(slot) != NULL) {
            void *block = atomic_exchange(slot, NULL);
            free(block);
            received++;
        } else if (sent == side->out->n) {
            sched_yield();
        }
    }
    return NULL;
}

int main(void) {
    pthread_t a, b;
    struct side side_a = {&for_b, &for_a}, side_b = {&for_a, &for_b};
    pthread_create(&a, NULL, work, &side_a);
    pthread_create(&b, NULL, work, &side_b);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    say("done\n");
    return 0;
}
