/* acts_signals.c: acts (steps of torture programs; an act may contain inner acts, see nodes.h) with
 * signal handlers that allocate, fork, longjmp and run on alternate stacks; timers.
 *
 * A handler that may have interrupted the C library's malloc must not call malloc. So handlers
 * that allocate are called by raise, from code that does not allocate. Handlers of a timer only
 * make system calls, unless the program has its own malloc, which handlers may call
 * (handler_safe_malloc). */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "nodes.h"
#include "own_malloc.h"
#include "processes.h"
#include "sites.h"

static __thread sigjmp_buf jump_place;
static __thread const struct node *handler_node;
static __thread uint64_t handler_result, handler_seed;

static void on_raise(int number) {
    const int kind = (int)handler_node->numbers[1];
    block_free(block_make(9, 200 + (size_t)number));
    const struct node *node = handler_node; /* an inner act may change handler_node */
    const uint64_t inner = node_run_children(node, handler_seed);
    handler_result = inner;
    if (kind == 1) {
        siglongjmp(jump_place, 1);
    } else if (kind == 2) {
        const pid_t child = fork();
        if (child == 0) {
            block_free(block_make(3, 87));
            _exit(15);
        }
        handler_result = mix(handler_result, process_wait(child));
    }
}

/* handler(seed, kind, stack, ...): three times, a signal handler runs the inner acts. The handler
 * of kind 1 then calls longjmp, the handler of kind 2 forks. If `stack` is not 0, the handler runs
 * on an alternate stack, which is a new mapping each time. */
uint64_t act_handler(const struct node *node, uint64_t seed) {
    enum { ALTERNATE = 256 << 10 };
    struct sigaction action = {.sa_handler = on_raise, .sa_flags = SA_NODEFER};
    stack_t alternate = {.ss_size = ALTERNATE}, old;
    uint64_t result = 0;
    const struct node *outer = handler_node;
    if (node->numbers[2] != 0) {
        action.sa_flags |= SA_ONSTACK;
    }
    sigaction(SIGUSR2, &action, NULL);
    for (volatile int i = 0; i < 3; i++) {
        if (node->numbers[2] != 0) {
            alternate.ss_sp =
                mmap(NULL, ALTERNATE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            if (sigaltstack(&alternate, &old) != 0) { /* this code runs on an alternate stack */
                munmap(alternate.ss_sp, ALTERNATE);
                alternate.ss_sp = NULL;
            }
        }
        sigjmp_buf outer_place;
        memcpy(outer_place, jump_place, sizeof outer_place);
        handler_node = node, handler_seed = seed, handler_result = 0;
        if (sigsetjmp(jump_place, 1) == 0) {
            raise(SIGUSR2);
        }
        memcpy(jump_place, outer_place, sizeof outer_place);
        result = mix(result, handler_result);
        if (node->numbers[2] != 0 && alternate.ss_sp != NULL) {
            old.ss_flags &= SS_DISABLE;
            sigaltstack(&old, NULL);
            munmap(alternate.ss_sp, ALTERNATE);
        }
    }
    handler_node = outer;
    return result; /* the handler of SIGUSR2 remains, because other threads use it, too */
}

static __thread sigjmp_buf crash_place;
static __thread void *crash_stack;
static __thread int crash_kind;
enum { CRASH_BYTES = 64 << 10 };

static void on_crash(int number) {
    (void)number;
    block_free(block_make(4, 231));
    if (crash_kind == 0) {
        munmap(crash_stack, CRASH_BYTES);
    } else if (crash_kind == 1) {
        mprotect(crash_stack, CRASH_BYTES, PROT_NONE);
    } else {
        mmap(crash_stack, CRASH_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    }
    block_free(block_make(4, 232));
    siglongjmp(crash_place, 1);
}

static void crash(void) {
    block_free(block_make(4, 233));
    raise(SIGRTMIN + 4);
}

/* crashes(seed, kind): three times, a coroutine raises a signal. The handler, on an alternate stack
 * next to the coroutine's, takes the coroutine's stack away, allocates, and calls longjmp. Kinds: 0
 * (the stack is unmapped), 1 (protected) and 2 (replaced by another mapping). */
uint64_t act_crashes(const struct node *node, uint64_t seed) {
    const struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
    stack_t alternate = {.ss_size = CRASH_BYTES}, old;
    uint64_t result = 0;
    (void)seed;
    sigaction(SIGRTMIN + 4, &action, NULL); /* the handler remains; other threads use it, too */
    for (volatile int i = 0; i < 3; i++) {
        ucontext_t back, coroutine;
        alternate.ss_sp =
            mmap(NULL, 2 * CRASH_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        crash_stack = (char *)alternate.ss_sp + CRASH_BYTES;
        crash_kind = (int)node->numbers[1];
        /* sigaltstack fails if this code runs on an alternate stack */
        const int r = sigaltstack(&alternate, &old);
        if (r == 0 && sigsetjmp(crash_place, 1) == 0) {
            getcontext(&coroutine);
            coroutine.uc_stack.ss_sp = crash_stack;
            coroutine.uc_stack.ss_size = CRASH_BYTES;
            coroutine.uc_link = &back;
            makecontext(&coroutine, crash, 0);
            swapcontext(&back, &coroutine);
            complain("a coroutine that crashes returned");
        }
        if (r == 0) {
            old.ss_flags &= SS_DISABLE;
            sigaltstack(&old, NULL);
        }
        munmap(alternate.ss_sp, 2 * CRASH_BYTES);
        result = mix(result, (uint64_t)r);
    }
    return result;
}

static volatile sig_atomic_t n_alarms;
static int alarm_kind;
static pid_t alarm_process;
static uint64_t alarm_children;

static void on_alarm(int number) {
    const int saved = errno;
    (void)number;
    if (getpid() != alarm_process || n_alarms >= 20 || (alarm_kind == 1 && truth_is_choosing)) {
        return;
    }
    n_alarms++;
    if (alarm_kind == 1) { /* the child returns from the handler into the interrupted code */
        const pid_t child = _Fork();
        if (child > 0) {
            alarm_children = mix(alarm_children, process_wait(child));
        } else if (child == 0) {
            struct itimerval none = {0};
            setitimer(ITIMER_REAL, &none, NULL);
        }
    } else if (alarm_kind == 2) {
        void *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(memory, 8192);
    } else if (alarm_kind == 3 && handler_safe_malloc) {
        block_free(block_make(9, 222));
    }
    errno = saved;
}

/* timer(seed, kind): a child with one thread allocates while a timer interrupts it 20 times. The
 * handler of the timer does nothing (kind 0), forks a child that returns from the handler (kind 1),
 * maps and unmaps memory (kind 2), or allocates if the program's malloc permits this (kind 3). */
uint64_t act_timer(const struct node *node, uint64_t seed) {
    const unsigned result = truth_new_result();
    const pid_t child = fork();
    if (child == 0) {
        struct dice dice = dice_of(node, seed);
        struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
        const struct itimerval period = {.it_interval.tv_usec = 300, .it_value.tv_usec = 200};
        alarm_kind = (int)node->numbers[1];
        alarm_process = getpid();
        n_alarms = 0;
        alarm_children = 0;
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &period, NULL);
        void *first =
            malloc(64); /* the first event of the process, which a handler may interrupt */
        OPAQUE(first);
        free(first);
        while (getpid() == alarm_process && n_alarms < 20) {
            block_free(block_make((unsigned)dice_below(&dice, 12), 32 + dice_below(&dice, 400)));
        }
        if (getpid() != alarm_process) {
            for (int i = 0; i < 20; i++) {
                block_free(block_make((unsigned)i % 12, 100));
            }
            _exit(16);
        }
        setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
        atomic_store(truth_result(result), alarm_children);
        _exit(17);
    }
    const uint64_t how = process_wait(child);
    return mix(how, atomic_load(truth_result(result)));
}
