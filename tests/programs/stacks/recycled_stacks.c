/* recycled_stacks.c: in each round, a coroutine runs on a stack that is cut from one pool of
 * memory, at another place and with another size; the rest of the pool is inaccessible. So the
 * memory above a stack, in which an earlier round had the outer frames of another stack, is not
 * readable. Each round allocates and frees three blocks at a depth of its own.
 *
 * @allocated_blocks 3 * 12000
 * @allocated_bytes  300 * 12000
 * @freed_blocks     3 * 12000
 * @in_use_blocks    0
 * @in_use_bytes     0
 * @peak_bytes       100
 * @peak_blocks      1
 * @temporary_blocks 3 * 12000
 * @site             leaf 3*12000 300*12000
 */
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "../say.h"

enum { ROUNDS = 12000, PAGE = 4096, POOL_PAGES = 48, FRAME_MOST = 300, DEEPEST = 150 };
static ucontext_t context, back;
static char *pool;
static uint64_t state = 88172645463325252;
static int depth;

static int below(int bound) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (int)((state >> 33) % (uint64_t)bound);
}

__attribute__((noinline, noclone)) static void leaf(void) {
    for (int i = 0; i < 3; i++) {
        void *block = malloc(100);
        OPAQUE(block);
        free(block);
    }
}

/* With -O2 on x86-64 the frames of small_frames have 128 bytes and those of large_frames 256. So
 * stacks of different depths reach the same stack pointer, with one or more page boundaries between
 * it and their outermost frames. */
__attribute__((noinline, noclone)) static void small_frames(int n) {
    char local[88];
    memset(local, n, sizeof local);
    n > 0 ? small_frames(n - 1) : leaf();
    void *used = local;
    OPAQUE(used);
}

__attribute__((noinline, noclone)) static void large_frames(int n) {
    char local[216];
    memset(local, n, sizeof local);
    n > 0 ? large_frames(n - 1) : leaf();
    void *used = local;
    OPAQUE(used);
}

static void body(void) {
    depth % 2 ? small_frames(depth) : large_frames(depth);
}

/* Makes [low, low + bytes) of the pool accessible, and nothing else: by mprotect if by_guards is
 * set, otherwise by a new mapping of the whole pool. */
static void divide(size_t low, size_t bytes, int by_guards) {
    const size_t pool_bytes = (size_t)POOL_PAGES * PAGE;
    if (by_guards) { // the contents that older frames left there stay
        mprotect(pool, pool_bytes, PROT_NONE);
        mprotect(pool + low, bytes, PROT_READ | PROT_WRITE);
    } else {
        munmap(pool, pool_bytes);
        mmap(pool, pool_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        mprotect(pool + low, bytes, PROT_READ | PROT_WRITE);
    }
}

int main(void) {
    pool = mmap(NULL, (size_t)POOL_PAGES * PAGE, PROT_READ | PROT_WRITE,
                MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < ROUNDS; i++) {
        const int first = below(POOL_PAGES - 4);
        const int n_pages = 3 + below(POOL_PAGES - first - 3);
        const size_t bytes = (size_t)n_pages * PAGE;
        divide((size_t)first * PAGE, bytes, i % 4 != 0);
        const int fitting = (int)(bytes - 4096) / FRAME_MOST;
        depth = below(fitting < DEEPEST ? fitting : DEEPEST);
        getcontext(&context);
        context.uc_stack.ss_sp = pool + (size_t)first * PAGE;
        context.uc_stack.ss_size = bytes;
        context.uc_link = &back;
        makecontext(&context, body, 0);
        swapcontext(&back, &context);
    }
    say("%d rounds\n", ROUNDS);
    return 0;
}
