/* small_stack.c: calls allocation functions on a coroutine with a small stack. Below this stack is
 * a page that cannot be accessed, so a call that needs more stack ends the program.
 *
 * Arguments: a situation (the names in situations[]), and the size of the stack in bytes. With a
 * third argument, the program prints "ready" and waits for a line before it begins. At the end it
 * prints how many blocks of OWN_BYTES bytes this process has allocated. */
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "../say.h"

enum { GUARD_BYTES = 64 << 10, OWN_BYTES = 3001 };

static ucontext_t outside, inside;
static char *stack;
static size_t stack_bytes;

__attribute__((noinline)) static void allocate_pairs(int n) {
    for (int i = 0; i < n; i++) {
        void *block = malloc(OWN_BYTES);
        OPAQUE(block);
        free(block);
    }
}

static void pairs(void) {
    allocate_pairs(3000);
}

static void many_pairs(void) { /* more events than a chunk of the recording has room for */
    allocate_pairs(300000);
}

static void whole_family(void) {
    for (size_t i = 0; i < 3000; i++) {
        void *block = malloc(i % 2000 + 1), *aligned = NULL;
        block = realloc(block, i % 3000 + 10);
        OPAQUE(block);
        free(block);
        block = calloc(1, 100);
        OPAQUE(block);
        free(block);
        if (posix_memalign(&aligned, 64, 100) == 0) {
            free(aligned);
        }
    }
}

static void mappings(void) {
    for (int i = 0; i < 300; i++) {
        char *pages = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(pages + 4096, 4096);
        munmap(pages, 1 << 20);
    }
}

static void on_small_stack(void (*body)(void)) {
    getcontext(&inside);
    inside.uc_stack.ss_sp = stack;
    inside.uc_stack.ss_size = stack_bytes;
    inside.uc_link = &outside;
    makecontext(&inside, body, 0);
    if (swapcontext(&outside, &inside) != 0) {
        _exit(98);
    }
}

static void *start_thread(void *unused) {
    (void)unused;
    on_small_stack(pairs);
    return NULL;
}

static void in_new_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, start_thread, NULL) == 0) {
        pthread_join(thread, NULL);
    }
}

static void in_forked_child(void) {
    int status = 0;
    pairs();
    const pid_t child = fork();
    if (child == 0) {
        on_small_stack(pairs);
        _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        _exit(97);
    }
}

static void with_libraries(void) { /* each change of the loaded objects makes known pcs invalid */
    pairs();
    for (int i = 0; i < 5; i++) {
        void *library = dlopen("libm.so.6", RTLD_NOW);
        on_small_stack(pairs);
        if (library) {
            dlclose(library);
        }
        on_small_stack(pairs);
    }
}

static void again(void (*body)(void)) { /* on the usual stack, so that all symbols are bound */
    body();
    on_small_stack(body);
}

int main(int n_arguments, char **arguments) {
    static const struct {
        const char *name;
        void (*body)(void);  /* runs on the usual stack, then on the small one */
        void (*whole)(void); /* instead of body: changes to the small stack itself */
        int n_own;           /* blocks of OWN_BYTES bytes that this process allocates */
    } situations[] = {
        {"pairs", pairs, NULL, 6000},
        {"many", many_pairs, NULL, 600000},
        {"family", whole_family, NULL, 0},
        {"mappings", mappings, NULL, 0},
        {"thread", NULL, in_new_thread, 3000},
        {"fork", NULL, in_forked_child, 3000},
        {"libraries", NULL, with_libraries, 33000},
    };
    if (n_arguments < 3) {
        return 2;
    }
    stack_bytes = strtoul(arguments[2], NULL, 10);
    if (n_arguments > 3) {
        char line;
        say("ready\n");
        while (read(STDIN_FILENO, &line, 1) != 1) {
        }
    }
    char *room =
        mmap(NULL, 2 * GUARD_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (room == MAP_FAILED || mprotect(room, GUARD_BYTES, PROT_NONE) != 0) {
        return 2;
    }
    stack = room + GUARD_BYTES;
    for (size_t i = 0; i < sizeof situations / sizeof situations[0]; i++) {
        if (strcmp(situations[i].name, arguments[1]) == 0) {
            if (situations[i].whole) {
                situations[i].whole();
            } else {
                again(situations[i].body);
            }
            say("%d\n", situations[i].n_own);
            return 0;
        }
    }
    return 2;
}
