/* coroutines.c: eight coroutines on stacks of their own (16 KiB, in static memory), switched in a
 * circle 1000 times each. At each turn, coroutine N allocates one block of 100 + N bytes, and
 * frees the block that it allocated at its previous turn.
 *
 * @allocated_blocks 8 * 1000
 * @allocated_bytes  1000 * (800 + 28)
 * @freed_blocks     8 * 999
 * @in_use_blocks    8
 * @in_use_bytes     828
 * @peak_bytes       828 + 107
 * @peak_blocks      9
 * @temporary_blocks 0
 * @site             turn 8000 1000 * 828
 */
#include <ucontext.h>

#include "../say.h"

enum { N = 8, TURNS = 1000 };
static ucontext_t contexts[N], back;
static _Alignas(64) char stacks[N][16 * 1024];

__attribute__((noinline, noclone)) static void *turn(int number, void *before) {
    void *block = malloc(100 + (size_t)number);
    OPAQUE(block);
    free(before);
    return block;
}

static void body(int number) {
    void *block = NULL;
    for (int i = 0; i < TURNS; i++) {
        block = turn(number, block);
        swapcontext(&contexts[number], number + 1 < N ? &contexts[number + 1] : &back);
    }
}

int main(void) {
    for (int i = 0; i < N; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = sizeof stacks[i];
        contexts[i].uc_link = NULL;
        makecontext(&contexts[i], (void (*)(void))body, 1, i);
    }
    for (int i = 0; i < TURNS; i++) {
        swapcontext(&back, &contexts[0]);
    }
    say("%d turns\n", N * TURNS);
    return 0;
}
