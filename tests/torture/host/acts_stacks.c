/* acts_stacks.c: acts (steps of torture programs; an act may contain inner acts, see nodes.h)
 * that run on stacks which the program makes itself, with ucontext and with hand-written
 * coroutines. The memory of these stacks is reused, divided into another number of stacks,
 * protected and unmapped. A profiler that caches stacks can miss these changes. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "nodes.h"
#include "sites.h"

enum { POOL_BYTES = 1 << 20, MOST_COROUTINES = 8 };

/* One turn of a coroutine: an allocation at a random depth of calls. */
static __attribute__((noinline, noclone)) uint64_t turn(struct dice *dice, int depth) {
    volatile char frame[96];
    frame[depth % 96] = (char)depth;
    if (depth > 0) {
        return mix(turn(dice, depth - 1), (uint64_t)frame[depth % 96]);
    }
    const size_t n = 40 + dice_below(dice, 200);
    void *block = block_make((unsigned)dice_below(dice, 10), n);
    block_free(block);
    return n;
}

/* ---- memory for stacks ---- */

/* A pool of n stacks. Kind 0: each stack is a block of malloc. The other kinds are one mapping:
 * kind 2 with a guard page below each stack, kind 3 with an unmapped page below each stack. For
 * kind 4 the contents are dropped (MADV_DONTNEED) before the mapping is reused. */
struct pool {
    char *mapping;
    char *stacks[MOST_COROUTINES];
    size_t stack_bytes;
    int kind, n;
};

static void pool_make(struct pool *pool, int kind, int n, char *place) {
    *pool = (struct pool){.kind = kind,
                          .n = n,
                          .stack_bytes = (size_t)POOL_BYTES / (size_t)n / PAGE_BYTES * PAGE_BYTES};
    if (kind == 0) {
        for (int i = 0; i < n; i++) {
            pool->stacks[i] = malloc(pool->stack_bytes);
        }
        return;
    }
    pool->mapping = mmap(place, POOL_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | (place != NULL ? MAP_FIXED : 0), -1, 0);
    for (int i = 0; i < n; i++) {
        char *low = pool->mapping + (size_t)i * pool->stack_bytes;
        pool->stacks[i] = low + (kind == 2 || kind == 3 ? PAGE_BYTES : 0);
        if (kind == 2) {
            mprotect(low, PAGE_BYTES, PROT_NONE);
        } else if (kind == 3) {
            munmap(low, PAGE_BYTES);
        }
    }
    pool->stack_bytes -= kind == 2 || kind == 3 ? PAGE_BYTES : 0;
}

/* Ends the use of a pool. Way 0 frees its memory, way 1 protects the mapping, way 2 keeps it. The
 * memory of kinds 0 and 3 is freed in any case. Returns the mapping for the next pool, or NULL if
 * it was freed. */
static char *pool_end(struct pool *pool, int way) {
    if (pool->kind == 0) {
        for (int i = 0; i < pool->n; i++) {
            free(pool->stacks[i]);
        }
        return NULL;
    }
    if (pool->kind == 3) { /* another thread may have mapped memory in the gaps by now */
        for (int i = 0; i < pool->n; i++) {
            munmap(pool->stacks[i], pool->stack_bytes);
        }
        return NULL;
    }
    if (way == 0) {
        munmap(pool->mapping, POOL_BYTES);
        return NULL;
    }
    if (way == 1) {
        mprotect(pool->mapping, POOL_BYTES, PROT_NONE);
        return pool->mapping;
    }
    if (pool->kind == 4) {
        madvise(pool->mapping, POOL_BYTES, MADV_DONTNEED);
    }
    return pool->mapping;
}

/* ---- ucontext ---- */

struct context_work {
    ucontext_t own, *back;
    const struct node *node; /* its inner acts run in the first turn of this context; or NULL */
    struct dice dice;
    int n_turns;
    uint64_t result;
};

static void context_body(unsigned low, unsigned high) {
    struct context_work *work = (struct context_work *)((uintptr_t)high << 32 | low);
    work->result = work->node != NULL ? node_run_children(work->node, 1) : 0;
    for (int i = 0; i < work->n_turns; i++) {
        work->result = mix(work->result, turn(&work->dice, (int)dice_below(&work->dice, 12)));
        swapcontext(&work->own, work->back);
    }
}

/* contexts(seed, kind, n, turns, ...): contexts of makecontext run in turns, in three rounds. Their
 * stacks are from a pool of this kind. Their number depends on n and on the round. In round i the
 * inner acts run on the stack of context i, if there are so many contexts. */
uint64_t act_contexts(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    const int n = 1 + (int)(node->numbers[2] % MOST_COROUTINES);
    struct context_work works[MOST_COROUTINES];
    uint64_t result = 0;
    char *place = NULL;
    for (int round = 0; round < 3; round++) {
        struct pool pool;
        ucontext_t back;
        pool_make(&pool, (int)node->numbers[1], 1 + (n + round) % MOST_COROUTINES, place);
        for (int i = 0; i < pool.n; i++) {
            works[i] = (struct context_work){.back = &back,
                                             .node = i == round ? node : NULL,
                                             .dice = {dice_roll(&dice)},
                                             .n_turns = (int)node->numbers[3]};
            getcontext(&works[i].own);
            works[i].own.uc_stack.ss_sp = pool.stacks[i];
            works[i].own.uc_stack.ss_size = pool.stack_bytes;
            works[i].own.uc_link = &back;
            makecontext(&works[i].own, (void (*)(void))context_body, 2,
                        (unsigned)(uintptr_t)&works[i], (unsigned)((uintptr_t)&works[i] >> 32));
        }
        for (int k = 0; k <= node->numbers[3]; k++) {
            for (int i = 0; i < pool.n; i++) {
                swapcontext(&back, &works[i].own);
            }
        }
        for (int i = 0; i < pool.n; i++) {
            result = mix(result, works[i].result);
        }
        place = pool_end(&pool, (int)dice_below(&dice, 3));
    }
    if (place != NULL) {
        munmap(place, POOL_BYTES);
    }
    return result;
}

/* ---- hand-written coroutines ---- */

/* Saves the callee-saved registers on the current stack, stores the stack pointer in *ret_from_sp,
 * switches to the stack to_sp, restores the registers that are saved on that stack, and returns to
 * the caller that is on that stack. */
void coroutine_switch(void **ret_from_sp, void *to_sp);
void coroutine_begin(void);
__asm__(".text\n"
        ".globl coroutine_switch\n"
        ".type coroutine_switch, @function\n"
        "coroutine_switch:\n"
        "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
        "    ret\n"
        ".size coroutine_switch, . - coroutine_switch\n"
        ".globl coroutine_begin\n"
        ".type coroutine_begin, @function\n"
        "coroutine_begin:\n"
        "    mov %r12, %rdi\n"
        "    call *%r13\n"
        "    ud2\n"
        ".size coroutine_begin, . - coroutine_begin\n");

struct coroutine {
    void *sp, *caller_sp;
    const struct node *node; /* its inner acts run in the first turn of this coroutine; or NULL */
    struct dice dice;
    int n_turns, is_over;
    uint64_t result;
};

static void coroutine_body(struct coroutine *coroutine) {
    coroutine->result = coroutine->node != NULL ? node_run_children(coroutine->node, 1) : 0;
    for (int i = 0; i < coroutine->n_turns; i++) {
        coroutine->result =
            mix(coroutine->result, turn(&coroutine->dice, (int)dice_below(&coroutine->dice, 9)));
        coroutine_switch(&coroutine->sp, coroutine->caller_sp);
    }
    coroutine->is_over = 1;
    coroutine_switch(&coroutine->sp, coroutine->caller_sp);
}

static void coroutine_prepare(struct coroutine *coroutine, char *stack, size_t stack_bytes) {
    void **top = (void **)(((uintptr_t)stack + stack_bytes) & ~(uintptr_t)15);
    *--top = NULL; /* two words, so that the stack is aligned to 16 bytes in coroutine_begin */
    *--top = NULL;
    *--top = (void *)(uintptr_t)coroutine_begin;
    *--top = NULL;                              /* rbp */
    *--top = NULL;                              /* rbx */
    *--top = coroutine;                         /* r12 */
    *--top = (void *)(uintptr_t)coroutine_body; /* r13 */
    *--top = NULL;                              /* r14 */
    *--top = NULL;                              /* r15 */
    coroutine->sp = top;
}

/* coroutines(seed, kind, n, turns, ...): coroutines run in turns, in four rounds. Each round
 * divides the pool into a random number of stacks (n is not used). In round i the inner acts run on
 * the stack of coroutine i, if there are so many coroutines. */
uint64_t act_coroutines(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    struct coroutine coroutines[MOST_COROUTINES];
    uint64_t result = 0;
    char *place = NULL;
    for (int round = 0; round < 4; round++) {
        struct pool pool;
        pool_make(&pool, (int)node->numbers[1], 1 + (int)dice_below(&dice, MOST_COROUTINES), place);
        for (int i = 0; i < pool.n; i++) {
            coroutines[i] = (struct coroutine){
                .node = i == round ? node : NULL,
                .dice = {dice_roll(&dice)},
                .n_turns = (int)dice_below(&dice, 1 + (uint64_t)node->numbers[3])};
            coroutine_prepare(&coroutines[i], pool.stacks[i], pool.stack_bytes);
        }
        for (int n_over = 0; n_over < pool.n;) {
            n_over = 0;
            for (int i = 0; i < pool.n; i++) {
                if (!coroutines[i].is_over) {
                    coroutine_switch(&coroutines[i].caller_sp, coroutines[i].sp);
                }
                n_over += coroutines[i].is_over;
            }
        }
        for (int i = 0; i < pool.n; i++) {
            result = mix(result, coroutines[i].result);
        }
        place = pool_end(&pool, (int)dice_below(&dice, 3));
    }
    if (place != NULL) {
        munmap(place, POOL_BYTES);
    }
    return result;
}
