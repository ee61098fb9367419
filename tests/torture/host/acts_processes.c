/* acts_processes.c: acts (steps of torture programs; an act may contain inner acts, see nodes.h)
 * that create processes, execute programs, and end processes in every way. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "nodes.h"
#include "processes.h"
#include "sites.h"

extern char **environ;

static void *exit_from_thread(void *argument) {
    block_free(block_make(3, 70));
    exit((int)(intptr_t)argument);
}

void process_end(int kind) {
    pthread_t thread;
    switch (kind) {
    case 0:
        return;
    case 1:
        exit(7);
    case 2:
        _exit(8);
    case 3:
        quick_exit(9);
    case 4:
        abort();
    case 5:
        kill(getpid(), SIGKILL);
        break;
    case 6:
        signal(SIGSEGV, SIG_DFL);
        *(volatile int *)8 = 1;
        break;
    case 7:
        syscall(SYS_exit_group, 10);
        break;
    case 8:
        if (pthread_create(&thread, NULL, exit_from_thread, (void *)11) == 0) {
            pthread_join(thread, NULL);
        }
        break;
    case 9:
        if (pthread_create(&thread, NULL, exit_from_thread, (void *)12) == 0) {
            pthread_exit(NULL);
        }
        break;
    default:
        break;
    }
}

uint64_t process_wait(pid_t child) {
    int status = 0;
    while (waitpid(child, &status, __WALL) < 0) {
        if (errno != EINTR) {
            return 0xbad;
        }
    }
    return (uint64_t)(uint16_t)status & 0xff7f; /* without the bit for a core dump */
}

void process_live(const void *node, uint64_t seed, unsigned result, int ending) {
    atomic_store(truth_result(result), node_run_children(node, seed));
    process_end(ending);
    _exit(6);
}

static uint64_t result_of(pid_t child, unsigned result) {
    const uint64_t how = process_wait(child);
    return mix(how, atomic_load(truth_result(result)));
}

/* fork(seed, how, ending, ...): a child runs the inner acts, and ends by process_end(ending). The
 * child is created by fork (how is 0), by _Fork (1), or by the system call clone (2) or clone3
 * (3). */
uint64_t act_fork(const struct node *node, uint64_t seed) {
    const unsigned result = truth_new_result();
    pid_t child = -1;
    void *inherited = block_make(4, 444);
    switch (node->numbers[1] % 4) {
    case 0:
        child = fork();
        break;
    case 1:
        child = _Fork();
        break;
    case 2:
        child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        break;
    case 3: {
        uint64_t arguments[8] = {[4] = SIGCHLD};
        child = (pid_t)syscall(SYS_clone3, arguments, sizeof arguments);
        break;
    }
    }
    if (child < 0) {
        block_free(inherited);
        return 0xdead;
    }
    if (child == 0) {
        block_free(inherited); /* the child's trace has no allocation of this block */
        process_live(node, seed, result, (int)node->numbers[2]);
    }
    block_free(inherited);
    return result_of(child, result);
}

/* vfork(seed, n, what): a child of vfork allocates n blocks in its parent's memory. Then it ends
 * or, if bit 0 of `what` is set, executes a program. If bit 1 of `what` is set, a new thread calls
 * vfork before it has allocated anything. */
struct vfork_call {
    const struct node *node;
    uint64_t seed, result;
};

static uint64_t vfork_here(const struct node *node, uint64_t seed);

static void *vfork_in_thread(void *argument) {
    struct vfork_call *call = argument;
    call->result = vfork_here(call->node, call->seed);
    return NULL;
}

uint64_t act_vfork(const struct node *node, uint64_t seed) {
    struct vfork_call call = {.node = node, .seed = seed};
    pthread_t thread;
    if (node->numbers[2] < 2) {
        return vfork_here(node, seed);
    }
    if (pthread_create(&thread, NULL, vfork_in_thread, &call) != 0) {
        complain("a thread could not be made");
        _Exit(94);
    }
    pthread_join(thread, NULL);
    return call.result;
}

static uint64_t vfork_here(const struct node *node, uint64_t seed) {
    struct dice dice = dice_of(node, seed);
    const int64_t n = node->numbers[1];
    void *volatile kept = NULL;
    const pid_t child = vfork();
    if (child == 0) {
        for (int64_t i = 0; i < n; i++) {
            void *block = block_make((unsigned)dice_below(&dice, 10), 50 + (size_t)i % 100);
            if (i == n / 2) {
                kept = block;
            } else {
                block_free(block);
            }
        }
        if (node->numbers[2] % 2) {
            atomic_fetch_add(&truth_file->n_others, 1);
            execl("/bin/true", "true", (char *)NULL);
        }
        _exit(21);
    }
    const uint64_t result = process_wait(child);
    block_free(kept);
    return result;
}

struct clone_work {
    int64_t n;
    struct dice dice;
    void *kept;
};

static int allocate_in_clone(void *argument) {
    struct clone_work *work = argument;
    for (int64_t i = 0; i < work->n; i++) {
        void *block = block_make((unsigned)dice_below(&work->dice, 10), 64 + (size_t)i % 50);
        block_free(work->kept);
        work->kept = block;
    }
    syscall(SYS_exit, 33);
    return 0;
}

/* clone(seed, n, flags): a child that shares its parent's memory (CLONE_VM) allocates n blocks, on
 * a stack of its own. The parent waits for the child. If flags % 2 is not 0, CLONE_VFORK is set,
 * too; if flags % 3 is not 0, the child also shares descriptors and the working directory. */
uint64_t act_clone(const struct node *node, uint64_t seed) {
    enum { STACK = 128 << 10 };
    struct clone_work work = {.n = node->numbers[1], .dice = dice_of(node, seed)};
    const int flags = node->numbers[2] % 2 ? CLONE_VM | CLONE_VFORK : CLONE_VM;
    char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const pid_t child =
        clone(allocate_in_clone, stack + STACK,
              flags | SIGCHLD | (node->numbers[2] % 3 ? CLONE_FILES | CLONE_FS : 0), &work);
    const uint64_t result = process_wait(child);
    block_free(work.kept);
    munmap(stack, STACK);
    return result;
}

/* The arguments with which this program executes itself in order to run one act, and the number of
 * the slot in the file of counts (truth.h) in which the new process stores the act's result. */
struct stage {
    char text[8192], number[16];
    char *arguments[4];
    unsigned result;
};

static int stage_make(struct stage *stage, const struct node *node) {
    const size_t len = (size_t)(node->end - node->text);
    if (len >= sizeof stage->text) {
        return -1;
    }
    memcpy(stage->text, node->text, len);
    stage->text[len] = 0;
    stage->result = truth_new_result();
    snprintf(stage->number, sizeof stage->number, "%u", stage->result);
    stage->arguments[0] = (char *)(uintptr_t)program_path;
    stage->arguments[1] = stage->text;
    stage->arguments[2] = stage->number;
    stage->arguments[3] = NULL;
    return 0;
}

/* spawn(seed, flags, one act): executes this program again by posix_spawn, to run the inner act. If
 * bit 0 of flags is set, with attributes; if bit 1 is set, with a file action. */
uint64_t act_spawn(const struct node *node, uint64_t seed) {
    struct stage stage;
    pid_t child = 0;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t actions;
    (void)seed;
    if (node->n_children == 0 || stage_make(&stage, node->children[0]) != 0) {
        return 0;
    }
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_init(&actions);
    if (node->numbers[1] & 1) {
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF);
    }
    if (node->numbers[1] & 2) {
        posix_spawn_file_actions_addopen(&actions, 9, "/dev/null", O_RDONLY, 0);
    }
    const int r =
        posix_spawn(&child, program_path, &actions, &attributes, stage.arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return r != 0 ? (uint64_t)r : result_of(child, stage.result);
}

static void *execute_in_thread(void *argument) {
    block_free(block_make(2, 45));
    execv(program_path, argument);
    _exit(93);
}

/* execute(seed, how, one act): a forked child executes this program again to run the inner act: by
 * execv (how is 0), by execv in a second thread (1), by fexecve (2), or by execv after vfork (3).
 */
uint64_t act_execute(const struct node *node, uint64_t seed) {
    struct stage stage;
    (void)seed;
    if (node->n_children == 0 || stage_make(&stage, node->children[0]) != 0) {
        return 0;
    }
    const int how = (int)node->numbers[1];
    const pid_t child = how == 3 ? vfork() : fork();
    if (child == 0) {
        if (how == 3) {
            execv(program_path, stage.arguments);
            _exit(93);
        }
        block_free(block_make(2, 46));
        if (how == 1) {
            pthread_t thread;
            pthread_create(&thread, NULL, execute_in_thread, stage.arguments);
            for (;;) {
                block_free(block_make(9, 47));
                usleep(10);
            }
        } else if (how == 2) {
            const int fd = open(program_path, O_RDONLY | O_CLOEXEC);
            fexecve(fd, stage.arguments, environ);
        } else {
            execv(program_path, stage.arguments);
        }
        _exit(93);
    }
    return result_of(child, stage.result);
}

static uint64_t open_descriptors(void) {
    uint64_t found = 0;
    for (int fd = 0; fd < 1024; fd++) {
        if (fcntl(fd, F_GETFD) >= 0) {
            found = mix(found, (uint64_t)fd);
        }
    }
    return found;
}

/* descriptors(seed, ...): a child closes all descriptors and runs the inner acts. The result
 * depends on which descriptors are open before the child closes them, and after the acts. */
uint64_t act_descriptors(const struct node *node, uint64_t seed) {
    const unsigned result = truth_new_result();
    const pid_t child = fork();
    if (child == 0) {
        uint64_t found = open_descriptors();
        for (int fd = 0; fd < 1024; fd++) {
            close(fd);
        }
        block_free(block_make(1, 99));
        found = mix(found, node_run_children(node, seed));
        atomic_store(truth_result(result), mix(found, open_descriptors()));
        _exit(14);
    }
    return result_of(child, result);
}

/* orphan(seed, ms, ...): a grandchild sleeps ms % 30 milliseconds and then runs the inner acts. Its
 * parent ends at once. The grandchild may live longer than the first process of the program. */
uint64_t act_orphan(const struct node *node, uint64_t seed) {
    const pid_t child = fork();
    if (child == 0) {
        const pid_t grandchild = fork();
        if (grandchild == 0) {
            setsid();
            usleep((useconds_t)(node->numbers[1] % 30) * 1000);
            (void)node_run_children(node, seed);
            block_free(block_make(8, 133));
            _exit(0);
        }
        _exit(22);
    }
    return process_wait(child);
}

/* shell(seed, how, one act): a shell, started by system (how is 0) or popen (1), executes this
 * program again to run the inner act. */
uint64_t act_shell(const struct node *node, uint64_t seed) {
    struct stage stage;
    char line[9000];
    (void)seed;
    if (node->n_children == 0 || stage_make(&stage, node->children[0]) != 0) {
        return 0;
    }
    snprintf(line, sizeof line, "exec %s '%s' %s", program_path, stage.text, stage.number);
    int status;
    if (node->numbers[1] % 2) {
        FILE *pipe = popen(line, "r");
        status = pipe != NULL ? pclose(pipe) : -1;
    } else {
        status = system(line);
    }
    return mix((uint64_t)status & 0xff7f, atomic_load(truth_result(stage.result)));
}

static void allocate_around_fork(void) {
    block_free(block_make(8, 134));
}

static pthread_once_t around_fork = PTHREAD_ONCE_INIT;

static void watch_forks(void) {
    pthread_atfork(allocate_around_fork, allocate_around_fork, allocate_around_fork);
}

/* atforks(seed, ...): a child runs the inner acts, with handlers of pthread_atfork that allocate
 * whenever an inner act calls fork. */
uint64_t act_atforks(const struct node *node, uint64_t seed) {
    const unsigned result = truth_new_result();
    const pid_t child = fork();
    if (child == 0) {
        pthread_once(&around_fork, watch_forks);
        process_live(node, seed, result, 1);
    }
    return result_of(child, result);
}

static void allocate_at_exit(void) {
    block_free(block_make(8, 123));
}

/* atexits(seed, how, ...): a child runs the inner acts and then calls quick_exit (how is 0) or exit
 * (1). The exit handlers allocate. */
uint64_t act_atexits(const struct node *node, uint64_t seed) {
    const unsigned result = truth_new_result();
    const pid_t child = fork();
    if (child == 0) {
        atexit(allocate_at_exit);
        at_quick_exit(allocate_at_exit);
        process_live(node, seed, result, (int)node->numbers[1] % 2 ? 1 : 3);
    }
    return result_of(child, result);
}
