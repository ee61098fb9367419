/* rough.c: a program to which it is hard to attach. The program checks whether allogram has changed
 * its state.
 *
 *     usage: rough MODE
 *
 *     leader     the first thread has ended, other threads live
 *     vfork      threads wait for children of vfork that take 60 ms each
 *     timer      a handler runs every 100 us in any thread
 *     handler    threads live in a signal handler
 *     threads    threads begin and end all the time
 *     plugins    threads load and unload a library, and call a function of it
 *     calls      threads make system calls that do not wait
 *     coroutine  a thread runs on a stack that malloc has allocated
 *     small      threads have the smallest stacks that are allowed
 *     dispatch   a thread forbids system calls to itself (syscall user dispatch); a call raises
 *                SIGSYS
 *
 * The program prints "ready". For each line of its input, the program calls counted_round() ROUNDS
 * times. Each call allocates 1000 bytes. It answers with "200 OK", or with 200 and an error. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

enum { THREADS = 3, ROUNDS = 200, STACK = 64 << 10 };

static _Atomic(const char *) trouble;

static void complain(const char *what) {
    atomic_store(&trouble, what);
}

static __attribute__((noinline)) void counted_round(void) {
    char *block = malloc(1000);
    memset(block, 7, 1000);
    if (block[0] != 7 || block[999] != 7) {
        complain("a block was overwritten");
    }
    free(block);
}

static void work(int n) {
    volatile double sum = 1;
    for (int i = 0; i < n; i++) {
        sum = sum * 1.0000001;
    }
}

/* ---- for each mode the function that its threads run ---- */

static void *idle(void *unused) {
    for (;;) {
        char *block = malloc(100);
        work(1000);
        free(block);
    }
    return unused;
}

static void *wait_for_children(void *unused) {
    for (;;) {
        const pid_t child = vfork();
        if (child == 0) {
            struct timespec nap = {.tv_nsec = 60000000};
            syscall(SYS_nanosleep, &nap, NULL);
            _exit(3);
        }
        int status = 0;
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
        }
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 3) {
            complain("a child ended with a wrong status");
        }
        usleep(2000);
    }
    return unused;
}

static void be_quick_in_handler(int number) {
    const int before = errno;
    (void)number;
    work(20);
    errno = before;
}

static void *be_interrupted(void *unused) {
    for (;;) {
        errno = 4711;
        work(3000);
        if (errno != 4711) {
            complain("errno changed");
        }
    }
    return unused;
}

static void live_here(int number) {
    (void)number;
    for (;;) {
        work(1000);
        usleep(100);
    }
}

static void *live_in_handler(void *unused) {
    raise(SIGUSR1);
    return unused;
}

static void *come_and_go(void *argument) {
    char *block = malloc(50);
    free(block);
    return argument;
}

static void *make_threads(void *unused) {
    for (;;) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++) {
            if (pthread_create(&threads[i], NULL, come_and_go, threads + 4 - i) != 0) {
                complain("a thread could not be made");
                return unused;
            }
        }
        for (int i = 0; i < 4; i++) {
            void *result = NULL;
            if (pthread_join(threads[i], &result) != 0 || result != threads + 4 - i) {
                complain("a thread returned a wrong value");
            }
        }
    }
    return unused;
}

static void *load_and_unload(void *unused) {
    for (;;) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);
        void *other = dlopen("libresolv.so.2", RTLD_NOW | RTLD_LOCAL);
        double (*cosine)(double) =
            library ? (double (*)(double))(uintptr_t)dlsym(library, "cos") : NULL;
        if (!cosine || cosine(0) != 1) {
            complain("a library could not be called");
        }
        if (other) {
            dlclose(other);
        }
        dlclose(library);
    }
    return unused;
}

static void *make_calls(void *unused) {
    for (;;) {
        if (syscall(SYS_getppid) <= 0 || syscall(SYS_close, -1) != -1 || errno != EBADF) {
            complain("a system call returned a wrong value");
        }
    }
    return unused;
}

static ucontext_t outside, inside;

static void be_a_coroutine(void) {
    for (int i = 0;; i++) {
        char *block = malloc(64);
        work(500);
        free(block);
        if (i % 100 == 0) {
            usleep(100);
        }
        if (i % 7 == 0) {
            swapcontext(&inside, &outside);
        }
    }
}

static void *live_in_coroutine(void *unused) {
    char *stack = malloc(2 * STACK);
    memset(stack, 0x5a, 2 * STACK);
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack + STACK;
    inside.uc_stack.ss_size = STACK;
    inside.uc_link = &outside;
    makecontext(&inside, be_a_coroutine, 0);
    for (;;) {
        swapcontext(&outside, &inside);
        for (int i = 0; i < STACK; i += 97) {
            if (stack[i] != 0x5a) {
                complain("memory below a coroutine's stack was overwritten");
            }
        }
    }
    return unused;
}

static char forbids_calls; /* the selector of the thread: 0 allows system calls, 1 forbids them */

static void on_forbidden_call(int number) {
    (void)number;
    forbids_calls = 0;
    complain("SIGSYS");
}

static void *forbid_calls(void *unused) {
    enum { SET_SYSCALL_USER_DISPATCH = 59, DISPATCH_ON = 1 };
    free(malloc(100)); /* makes the arena of the thread, by system calls */
    signal(SIGSYS, on_forbidden_call);
    if (prctl(SET_SYSCALL_USER_DISPATCH, DISPATCH_ON, 0, 0, &forbids_calls) != 0) {
        complain("the kernel has no syscall user dispatch");
        return unused;
    }
    forbids_calls = 1;
    for (;;) {
        free(malloc(100));
        work(1000);
    }
}

static const struct {
    const char *name;
    void *(*life)(void *);
} modes[] = {
    {"leader", idle},          {"vfork", wait_for_children},
    {"timer", be_interrupted}, {"handler", live_in_handler},
    {"threads", make_threads}, {"plugins", load_and_unload},
    {"calls", make_calls},     {"coroutine", live_in_coroutine},
    {"small", idle},           {"dispatch", forbid_calls},
};

static void *serve(void *unused) {
    char line[64];
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        for (int i = 0; i < ROUNDS; i++) {
            counted_round();
        }
        const char *what = atomic_load(&trouble);
        printf("%d %s\n", ROUNDS, what ? what : "OK");
    }
    _exit(0);
    return unused;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    pthread_t thread;
    pthread_attr_t attributes;
    setvbuf(stdout, NULL, _IOLBF, 0);
    signal(SIGUSR1, live_here);
    pthread_attr_init(&attributes);
    if (strcmp(mode, "small") == 0) {
        pthread_attr_setstacksize(&attributes, 16384);
    }
    if (strcmp(mode, "timer") == 0) {
        const struct itimerval often = {{0, 100}, {0, 100}};
        struct sigaction action = {.sa_handler = be_quick_in_handler, .sa_flags = SA_RESTART};
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &often, NULL);
    }
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        const int n_threads =
            strcmp(mode, "coroutine") == 0 || strcmp(mode, "dispatch") == 0 ? 1 : THREADS;
        for (int k = 0; strcmp(modes[i].name, mode) == 0 && k < n_threads; k++) {
            if (pthread_create(&thread, &attributes, modes[i].life, NULL) != 0) {
                return 1;
            }
        }
    }
    if (strcmp(mode, "leader") == 0) {
        if (pthread_create(&thread, NULL, serve, NULL) != 0) {
            return 1;
        }
        pthread_exit(NULL);
    }
    serve(NULL);
    return 0;
}
