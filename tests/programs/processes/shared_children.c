/* shared_children.c: children that share their parent's memory. Their blocks lie in their parent's
 * heap and count as their parent's. Three threads that never allocated before, one after the other,
 * each make such a child: by vfork, by clone with CLONE_VM and CLONE_VFORK, and by clone with
 * CLONE_VM alone (then the parent waits for the child). A child allocates 3 x 33 bytes and
 * frees one block, maps and unmaps a page, and raises a signal whose handler allocates 1 x 7 bytes.
 * Then its parent, in the same thread, allocates and frees 50000 x 16 bytes, and keeps 1 x 5 bytes.
 * While the first of these threads runs, main allocates and frees 50000 x 24 bytes. In the end main
 * itself, which allocated before, makes one child of each kind, and one whose thread-local memory
 * is all zeros and which only calls _exit (Chromium makes such a child for its sandbox).
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's
 * runtime allocates; the judge (counting_preload.c) counts them.
 *
 * A ghost free is a free of a block whose allocation was not recorded.
 *
 * @allocated_blocks 4 * 50000 + 6 * 4 + 3 + runtime
 * @in_use_blocks    6 * 3 + 3 + runtime
 * @ghost_frees      0
 * @threads          4
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../say.h"

enum { ROUNDS = 50000, STACK_BYTES = 64 * 1024 };
enum kind { VFORK, CLONE_AND_WAIT, CLONE_BESIDE, KINDS };

static void on_signal(int signal) {
    (void)signal;
    void *block = malloc(7);
    OPAQUE(block);
}

static int be_child(void *unused) {
    (void)unused;
    void *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = malloc(33);
        OPAQUE(blocks[i]);
    }
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page, 4096);
    free(blocks[1]);
    raise(SIGUSR1);
    return 3;
}

static void make_child(enum kind kind) {
    static char stack[STACK_BYTES] __attribute__((aligned(64)));
    int status = -1;
    pid_t child;
    if (kind == VFORK) {
        child = vfork();
        if (child == 0) {
            _exit(be_child(NULL));
        }
    } else {
        child = clone(be_child, stack + STACK_BYTES,
                      CLONE_VM | SIGCHLD | (kind == CLONE_AND_WAIT ? CLONE_VFORK : 0), NULL);
    }
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3) {
        say("child %d: status %#x\n", (int)kind, (unsigned)status);
    }
}

static int end_at_once(void *unused) {
    (void)unused;
    _exit(3);
}

static void make_child_without_variables(void) {
    static char stack[STACK_BYTES] __attribute__((aligned(64))), zeros[STACK_BYTES];
    int status = -1;
    const pid_t child =
        clone(end_at_once, stack + STACK_BYTES, CLONE_VM | CLONE_VFORK | CLONE_SETTLS | SIGCHLD,
              NULL, NULL, zeros + STACK_BYTES / 2);
    if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 3) {
        say("child without variables: status %#x\n", (unsigned)status);
    }
}

static void make_and_free(size_t bytes) {
    for (int i = 0; i < ROUNDS; i++) {
        void *block = malloc(bytes);
        OPAQUE(block);
        free(block);
    }
}

static void *run(void *kind) {
    make_child((enum kind)(intptr_t)kind);
    make_and_free(16);
    void *kept = malloc(5);
    OPAQUE(kept);
    return NULL;
}

int main(void) {
    signal(SIGUSR1, on_signal);
    pthread_t thread;
    for (intptr_t kind = 0; kind < KINDS; kind++) {
        pthread_create(&thread, NULL, run, (void *)kind);
        if (kind == 0) {
            make_and_free(24);
        }
        pthread_join(thread, NULL);
    }
    for (enum kind kind = 0; kind < KINDS; kind++) {
        make_child(kind);
    }
    make_child_without_variables();
    say("all children ended\n");
    return 0;
}
