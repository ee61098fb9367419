/* interrupted_allocator.c: an allocator without locks. A signal handler that interrupts one of its
 * functions may call the allocator, and may leave the interrupted function by longjmp. Threads are
 * cancelled at any instruction of the allocator. Prints how many blocks of each size must be
 * recorded. These numbers do not depend on what was interrupted. Beside main, at most one thread
 * runs at a time. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

enum { HANDLERS = 1500, JUMPS = 300, CANCELLED = 60, AFTER = 500 };
enum {
    NESTED_MOST = 100
}; /* on a loaded machine a handler may last longer than the timer's period; without a limit,
    * handlers would interrupt handlers until the stack is full */
enum { IN_HANDLER = 333, AFTER_JUMP = 555, AT_THE_END = 777 }; /* bytes */

static _Alignas(16) char arena[1 << 30];
static _Atomic size_t used;
static _Atomic long n_freed, bytes_freed;

void *malloc(size_t bytes);
__attribute__((noinline)) void *malloc(size_t bytes) {
    const size_t needed = (bytes + 31) & ~(size_t)15;
    char *header = arena + atomic_fetch_add(&used, needed);
    memcpy(header, &bytes, sizeof(bytes));
    return header + 16;
}

void free(void *block);
__attribute__((noinline)) void free(void *block) {
    if (block) {
        size_t bytes;
        memcpy(&bytes, (char *)block - 16, sizeof(bytes));
        n_freed++;
        bytes_freed += (long)bytes;
    }
}

void *calloc(size_t count, size_t bytes);
void *calloc(size_t count, size_t bytes) {
    return malloc(count * bytes); /* the arena is zero, and no block is used again */
}

void *realloc(void *block, size_t bytes);
void *realloc(void *block, size_t bytes) {
    void *moved = malloc(bytes);
    if (block) {
        size_t before;
        memcpy(&before, (char *)block - 16, sizeof(before));
        memcpy(moved, block, before < bytes ? before : bytes);
    }
    return moved;
}

static void use(size_t bytes) {
    void *volatile block = malloc(bytes);
    free(block);
}

static _Atomic int n_handlers;
static volatile sig_atomic_t may_jump, n_nested;
static sigjmp_buf place;

static void on_alarm(int number) {
    (void)number;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(place, 1);
    }
    if (n_nested < NESTED_MOST && atomic_fetch_add(&n_handlers, 1) < HANDLERS) {
        n_nested++; /* a handler that interrupts this line leaves n_nested as it was */
        use(IN_HANDLER);
        n_nested--;
    }
}

static void start_timer(int first_us, int period_us) {
    const struct itimerval times = {.it_value.tv_usec = first_us, .it_interval.tv_usec = period_us};
    setitimer(ITIMER_REAL, &times, NULL);
}

static void *allocate_until_cancelled(void *argument) {
    int before;
    (void)argument;
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
    for (;;) {
        use(8);
    }
    return NULL;
}

int main(void) {
    const struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER};
    sigaction(SIGALRM, &action, NULL);
    use(8);
    start_timer(100, 100);
    while (n_handlers < HANDLERS) {
        use(8);
    }
    start_timer(0, 0);
    for (volatile int i = 0; i < JUMPS; i++) {
        if (sigsetjmp(place, 1) == 0) {
            may_jump = 1;
            start_timer(60 + i % 50, 0);
            for (;;) {
                use(8);
            }
        }
        use(AFTER_JUMP);
    }
    for (int i = 0; i < CANCELLED; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, allocate_until_cancelled, NULL);
        usleep((useconds_t)(100 + i % 200));
        pthread_cancel(thread);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < AFTER; i++) {
        use(AT_THE_END);
    }
    char text[80];
    const int bytes = snprintf(text, sizeof(text), "%d %d\n%d %d\n%d %d\n", IN_HANDLER, HANDLERS,
                               AFTER_JUMP, JUMPS, AT_THE_END, AFTER);
    return write(1, text, (size_t)bytes) == bytes ? 3 : 4;
}
