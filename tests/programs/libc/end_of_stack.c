/* end_of_stack.c: an allocator that is part of the program, called near the end of a stack.
 * Children that share the parent's memory (clone with CLONE_VM) allocate in their first function.
 * Meanwhile a thread maps and unmaps the page after their stack, so a word there that could be read
 * at one moment may be unmapped at the next.
 *
 *     usage: end_of_stack ROUNDS
 *
 * In each round, one child allocates and frees 5 blocks. Status 1: a child has died. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 64 << 10, PAGE = 4096, STATUS = 33 };

static _Alignas(16) char arena[1 << 28];
static _Atomic size_t used;
static _Atomic long n_freed;

__attribute__((noinline)) void *malloc(size_t bytes) {
    char *header = arena + atomic_fetch_add(&used, (bytes + 31) & ~(size_t)15);
    memcpy(header, &bytes, sizeof(bytes));
    return header + 16;
}

__attribute__((noinline)) void free(void *block) {
    n_freed += block != NULL;
}

static char *end;
static atomic_bool is_over;

static void *map_and_unmap(void *unused) {
    while (!is_over) {
        (void)mmap(end, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        (void)munmap(end, PAGE);
    }
    return unused;
}

static int allocate(void *unused) {
    (void)unused;
    for (int i = 0; i < 5; i++) {
        void *volatile block = malloc(64);
        free(block);
    }
    syscall(SYS_exit, STATUS);
    return 0;
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 1;
    pthread_t thread;
    char *stack =
        mmap(NULL, STACK + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    end = stack + STACK;
    free(malloc(100));
    (void)pthread_create(&thread, NULL, map_and_unmap, NULL);
    int result = 0;
    for (int i = 0; i < rounds && result == 0; i++) {
        int status = 0;
        const pid_t child = clone(allocate, end, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
        result = waitpid(child, &status, __WALL) != child || !WIFEXITED(status) ||
                 WEXITSTATUS(status) != STATUS;
    }
    is_over = true;
    (void)pthread_join(thread, NULL);
    return result;
}
