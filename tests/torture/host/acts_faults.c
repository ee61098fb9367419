/* acts_faults.c: acts (steps of torture programs, see nodes.h) that handle their own page faults,
 * switch to another stack in a signal handler, and allocate in destructors of thread-local data. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "nodes.h"
#include "processes.h"
#include "sites.h"

enum { BARRIER_PAGES = 16 };
static char *barrier;
static int n_faults, n_strange;

/* A write barrier like that of garbage collectors: the handler of a fault makes the page writable,
 * and allocates. */
static void on_fault(int number, siginfo_t *info, void *context) {
    char *address = info->si_addr;
    (void)context;
    if (address < barrier || address >= barrier + BARRIER_PAGES * PAGE_BYTES) {
        n_strange++;
        signal(number, SIG_DFL);
        return;
    }
    n_faults++;
    mprotect((void *)((uintptr_t)address & ~(uintptr_t)(PAGE_BYTES - 1)), PAGE_BYTES,
             PROT_READ | PROT_WRITE);
    block_free(block_make(9, 99));
}

/* faults(seed, n, ...): in each of n rounds a child protects some pages and writes to them five
 * times, and handles the faults. Then it runs the inner acts. Faults at other addresses are counted
 * as errors (n_strange). */
uint64_t act_faults(const struct node *node, uint64_t seed) {
    const unsigned result = truth_new_result();
    const pid_t child = fork();
    if (child == 0) {
        struct dice dice = dice_of(node, seed);
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER};
        sigaction(SIGSEGV, &action, NULL);
        sigaction(SIGBUS, &action, NULL);
        barrier = mmap(NULL, BARRIER_PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (int64_t i = 0; i < node->numbers[1]; i++) {
            mprotect(barrier, BARRIER_PAGES * PAGE_BYTES, i & 1 ? PROT_NONE : PROT_READ);
            for (int k = 0; k < 5; k++) {
                ((volatile char *)barrier)[dice_below(&dice, BARRIER_PAGES * PAGE_BYTES)] = 1;
                block_free(
                    block_make((unsigned)dice_below(&dice, 10), 50 + dice_below(&dice, 100)));
            }
        }
        const uint64_t within = node_run_children(node, seed);
        atomic_store(truth_result(result),
                     mix(within, (uint64_t)n_faults << 8 | (uint64_t)n_strange));
        _exit(24);
    }
    const uint64_t how = process_wait(child);
    return mix(how, atomic_load(truth_result(result)));
}

static __thread ucontext_t interrupted, elsewhere;
static __thread int n_returns;

static void live_elsewhere(void) {
    block_free(block_make(2, 61));
    n_returns++;
    setcontext(&interrupted);
}

static void leave_handler(int number) {
    (void)number;
    block_free(block_make(2, 62));
    swapcontext(&interrupted, &elsewhere); /* returns when live_elsewhere calls setcontext */
    block_free(block_make(2, 63));
}

/* leave(seed, n): n times, a signal handler switches to another stack and back, and returns. */
uint64_t act_leave(const struct node *node, uint64_t seed) {
    enum { STACK = 64 << 10 };
    struct sigaction action = {.sa_handler = leave_handler, .sa_flags = SA_NODEFER}, before;
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    (void)seed;
    sigaction(SIGURG, &action, &before);
    n_returns = 0;
    for (int64_t i = 0; i < node->numbers[1]; i++) {
        getcontext(&elsewhere);
        elsewhere.uc_stack.ss_sp = stack;
        elsewhere.uc_stack.ss_size = STACK;
        elsewhere.uc_link = NULL;
        makecontext(&elsewhere, live_elsewhere, 0);
        raise(SIGURG);
        if (i & 1) {
            madvise(stack, STACK, MADV_DONTNEED);
        }
    }
    munmap(stack, STACK);
    return (uint64_t)n_returns;
}

/* ---- data of threads ---- */

extern int __cxa_thread_atexit_impl(void (*function)(void *), void *argument, void *object);

static int end_key_of_data; /* the C library finds by its address the object (program or library)
                             * to which the destructors belong */

static void at_data_end(void *block) {
    block_free(block);
    block_free(block_make(11, 71));
}

static void *have_data(void *argument) {
    const int n = *(const int *)argument;
    for (int i = 0; i < n; i++) {
        __cxa_thread_atexit_impl(at_data_end, block_make(11, 72), &end_key_of_data);
    }
    return NULL;
}

/* tls(seed, n): starts a thread with n thread-local objects, like those of C++'s thread_local.
 * Their destructors run when the thread ends. */
uint64_t act_tls(const struct node *node, uint64_t seed) {
    pthread_t thread;
    int n = (int)node->numbers[1];
    (void)seed;
    if (pthread_create(&thread, NULL, have_data, &n) != 0) {
        complain("a thread could not be made");
        _Exit(94);
    }
    pthread_join(thread, NULL);
    return (uint64_t)n;
}
