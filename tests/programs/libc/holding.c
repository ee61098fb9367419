/* holding.c: allocates blocks, frees some, and prints as JSON what malloc then reports of its
 * memory (mallinfo2). With "thread" it allocates from the arena of another thread; with "blocked"
 * all signals are blocked. With "handler" and "altstack" it exits inside a signal handler during
 * which no signal is blocked; the handler of "altstack" has a stack of its own. After the call of
 * mallinfo2 it allocates nothing, so the trace must have the same numbers at its end. */
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 3000 };
/* a copy of struct mallinfo2, because the headers of glibc here may be older than the glibc at run
 * time */
struct malloc_sizes {
    size_t arena, n[3], mapped, unused, fast, used, free, top;
};
static char *blocks[BLOCKS];

static void *hold(void *unused) {
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(i % 100 == 0 ? 300000 : 700);
        if (!blocks[i]) {
            abort();
        }
        memset(blocks[i], 1, 16);
    }
    for (int i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
    }
    return unused;
}

static void leave(int signal) {
    (void)signal;
    exit(0);
}

static void leave_in_a_handler(int flags) {
    static char stack[65536];
    const stack_t other = {.ss_sp = stack, .ss_size = sizeof(stack)};
    const struct sigaction action = {.sa_handler = leave, .sa_flags = SA_NODEFER | flags};
    if (sigaltstack(&other, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0) {
        raise(SIGUSR1);
    }
    abort();
}

int main(int argc, char **argv) {
    static char buffer[BUFSIZ];
    const char *how = argc > 1 ? argv[1] : "main";
    struct malloc_sizes (*ask)(void) = NULL;
    *(void **)&ask = dlsym(RTLD_DEFAULT, "mallinfo2");
    setvbuf(stdout, buffer, _IOFBF, sizeof(buffer));
    if (strcmp(how, "thread") == 0) {
        pthread_t thread;
        pthread_create(&thread, NULL, hold, NULL);
        pthread_join(thread, NULL);
    } else {
        hold(NULL);
    }
    /* with all signals blocked, as in a handler */
    if (strcmp(how, "blocked") == 0) {
        sigset_t set;
        sigfillset(&set);
        sigprocmask(SIG_BLOCK, &set, NULL);
    }
    if (ask) {
        const struct malloc_sizes sizes = ask();
        printf("{\"committed\": %zu, \"free\": %zu}\n", sizes.arena + sizes.mapped, sizes.free);
    }
    if (strcmp(how, "handler") == 0 || strcmp(how, "altstack") == 0) {
        leave_in_a_handler(strcmp(how, "altstack") == 0 ? SA_ONSTACK : 0);
    }
    return 0;
}
