/* forked_threads.c: a process that has had THREADS threads forks children, each of which starts
 * THREADS threads at once.
 *
 *     forked_threads HOW CHILDREN THREADS
 *
 * HOW is `fork`, or `raw`: the raw system call makes the child, which starts its threads before it
 * does anything else.
 *
 * The process itself and each of its children, one after the other, has THREADS threads that wait
 * for each other. Then each of them allocates 10 blocks of 60 bytes and frees them; so does the
 * main thread when they have ended. So every process has (THREADS + 1) * 10 blocks of that size. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 10, BLOCK_BYTES = 60, MOST_THREADS = 64, STACK_BYTES = 64 << 10 };

static _Atomic int n_waiting;

static void make_blocks(void) {
    void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

static void *work(void *unused) {
    atomic_fetch_sub(&n_waiting, 1);
    while (atomic_load(&n_waiting) > 0) {
        (void)sched_yield(); /* cannot fail */
    }
    make_blocks();
    return unused;
}

static void run_threads(int count, size_t stack_bytes) {
    pthread_t threads[MOST_THREADS];
    pthread_attr_t attributes;
    (void)pthread_attr_init(&attributes);                      /* cannot fail */
    (void)pthread_attr_setstacksize(&attributes, stack_bytes); /* above the minimum */
    n_waiting = count;
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i], &attributes, work, NULL) != 0) {
            _exit(3);
        }
    }
    for (int i = 0; i < count; i++) {
        (void)pthread_join(threads[i], NULL); /* the result is not needed */
    }
    make_blocks();
}

int main(int argc, char **argv) {
    const int n_children = argc > 3 ? atoi(argv[2]) : 0, n_threads = argc > 3 ? atoi(argv[3]) : 0;
    if (n_threads < 1 || n_threads > MOST_THREADS) {
        return 2;
    }
    const int is_raw = strcmp(argv[1], "raw") == 0;
    run_threads(n_threads, STACK_BYTES);
    for (int i = 0; i < n_children; i++) {
        const pid_t child = is_raw ? (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0) : fork();
        int status = 0;
        if (child == 0) {
            /* Threads of a raw child run on the stacks that the C library kept, for which it
             * allocates nothing. Threads of a forked child have new, larger stacks, so that no
             * stack lies where the parent had one. */
            run_threads(n_threads, is_raw ? STACK_BYTES : 4 * STACK_BYTES);
            _exit(0);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            return 1;
        }
    }
    return 0;
}
