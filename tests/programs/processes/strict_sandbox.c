/* strict_sandbox.c: after its start it installs a seccomp filter that allows the system calls of
 * this program and those that the agent (allogram's library) is documented to make later
 * (SECURITY.md, "System calls after the start"), with the arguments documented there. Then it
 * allocates, and ends.
 *
 *     strict_sandbox KIND HOW [wait]
 *
 * KIND decides what happens when a system call is not allowed:
 *   none    no filter
 *   errno   the call fails with EPERM
 *   enosys  the call fails with ENOSYS
 *   trap    SIGSYS, whose handler makes the call fail with ENOSYS; prints these calls' numbers
 *   kill    the process is killed
 *   bare    as errno; calls that only the agent makes fail, too
 *   own     as trap; calls that only the agent makes are trapped and printed, too (used by hand,
 *           not in a test)
 *
 * wait: prints "ready", and reads a byte before the filter begins.
 *
 * HOW:
 *   single   one thread: 20000 blocks of 10 bytes, freed; 5000 of 24, from new stacks, freed; 100
 *            mappings; exit
 *   _exit    as single, but ends by _exit
 *   threads  4 threads one after the other, then 4 at the same time, each with 4000 blocks of 40
 *   forks    5 children, one after the other, each with 3000 blocks of 30; the last ends by _exit
 *   named    a thread that names itself "painter" and lives for 60 ms (without a filter only)
 *   kept     700000 blocks of 16 that are never freed
 *   late     6000000 blocks of 16, freed: over 64 MiB of events, while the test stops the writer
 *   jump     200 times, a handler leaves a loop of mmap and munmap by longjmp, and 10 blocks of 20
 *            follow
 *   raw      a child made by a raw system call, with 3000 blocks of 30; its parent has 10
 *   silent   10 blocks of 20; then a thread that allocates nothing calls _exit
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/futex.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "../say.h"

struct allowed {
    unsigned number;
    int argument; /* -1: with any arguments */
    unsigned mask, value;
};
#define ANY(name) \
    { SYS_##name, -1, 0, 0 }

/* System calls that the C library needs for this program in one thread. */
static const struct allowed of_program[] = {ANY(read),   ANY(write),     ANY(brk),       ANY(mmap),
                                            ANY(munmap), ANY(getrandom), ANY(exit_group)};
/* Further calls for threads and children. */
static const struct allowed of_threads[] = {ANY(clone),
                                            ANY(clone3),
                                            ANY(exit),
                                            ANY(wait4),
                                            ANY(mprotect),
                                            ANY(set_robust_list),
                                            ANY(rseq),
                                            ANY(rt_sigprocmask),
                                            ANY(futex),
                                            ANY(rt_sigaction),
                                            {SYS_madvise, 2, ~0U, MADV_DONTNEED}};
/* System calls that the agent makes after its start: the list in SECURITY.md. */
static const struct allowed of_agent[] = {
    {SYS_mmap, 3, ~0U, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE},
    ANY(munmap),
    {SYS_mremap, 1, ~0U, 0},
    ANY(rt_sigprocmask),
    {SYS_futex, 1, ~0U, FUTEX_WAIT | FUTEX_PRIVATE_FLAG},
    {SYS_futex, 1, ~0U, FUTEX_WAKE_OP | FUTEX_PRIVATE_FLAG},
    {SYS_futex, 1, ~0U, FUTEX_CMP_REQUEUE | FUTEX_PRIVATE_FLAG},
    {SYS_madvise, 2, ~0U, MADV_DONTNEED},
};

/* Further calls in SECURITY.md: calls that the agent makes only with HOW jump, and calls that it
 * makes only with HOW raw or silent. */
static const struct allowed of_agent_after_jump[] = {{SYS_sigaltstack, 0, ~0U, 0}};
static const struct allowed of_agent_raw[] = {ANY(getpid)};
/* A system call of the program itself, only with HOW raw or silent. */
static const struct allowed of_raw[] = {ANY(clock_nanosleep)};

/* ---- the filter ---- */

enum { FILTER_MOST = 256 };
static struct sock_filter filter[FILTER_MOST];
static unsigned short n_filter;

static void add(struct sock_filter instruction) {
    filter[n_filter++] = instruction;
}

static void allow(const struct allowed *rows, size_t n_rows) {
    for (size_t i = 0; i < n_rows; i++) {
        const bool any = rows[i].argument < 0;
        add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                         offsetof(struct seccomp_data, nr)));
        add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rows[i].number, 0,
                                         any ? 1 : 4));
        if (!any) {
            add((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                             offsetof(struct seccomp_data, args) +
                                                 8 * (unsigned)rows[i].argument));
            add((struct sock_filter)BPF_STMT(BPF_ALU | BPF_AND | BPF_K, rows[i].mask));
            add((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rows[i].value, 0, 1));
        }
        add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
}
#define ALLOW(rows) allow(rows, sizeof(rows) / sizeof(*(rows)))

enum { TRAPPED_MOST = 64 };
static volatile sig_atomic_t n_trapped;
static volatile int trapped[TRAPPED_MOST]; /* numbers of the trapped system calls, each once */
static volatile bool is_leaving;           /* the process calls _exit; no say_trapped follows */

static void on_trap(int number, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    (void)number;
    bool is_new = true;
    for (int i = 0; i < n_trapped; i++) {
        is_new = is_new && trapped[i] != info->si_syscall;
    }
    if (is_new && n_trapped < TRAPPED_MOST) {
        trapped[n_trapped] = info->si_syscall;
        n_trapped++;
    }
    if (is_new && is_leaving) {
        say("forbidden: system call %d\n", info->si_syscall);
    }
    at->uc_mcontext.gregs[REG_RAX] = -ENOSYS;
}

static void say_trapped(void) {
    for (int i = 0; i < n_trapped; i++) {
        say("forbidden: system call %d\n", trapped[i]);
    }
}

static void begin_sandbox(const char *kind, const char *how) {
    const bool is_raw = strcmp(how, "raw") == 0 || strcmp(how, "silent") == 0;
    const bool is_single = strcmp(how, "threads") != 0 && strcmp(how, "forks") != 0 && !is_raw;
    unsigned action = SECCOMP_RET_TRAP;
    if (strcmp(kind, "none") == 0) {
        return;
    }
    if (strcmp(kind, "errno") == 0 || strcmp(kind, "bare") == 0) {
        action = SECCOMP_RET_ERRNO | EPERM;
    } else if (strcmp(kind, "enosys") == 0) {
        action = SECCOMP_RET_ERRNO | ENOSYS;
    } else if (strcmp(kind, "kill") == 0) {
        action = SECCOMP_RET_KILL_PROCESS;
    }
    ALLOW(of_program);
    if (!is_single) {
        ALLOW(of_threads);
    }
    if (action == SECCOMP_RET_TRAP || strcmp(how, "jump") == 0) { /* a signal handler returns by
                                                                   * rt_sigreturn */
        static const struct allowed of_handler[] = {ANY(rt_sigreturn)};
        ALLOW(of_handler);
    }
    if (is_raw) {
        ALLOW(of_raw);
    }
    if (strcmp(kind, "bare") != 0 && strcmp(kind, "own") != 0) {
        ALLOW(of_agent);
        if (strcmp(how, "jump") == 0) {
            ALLOW(of_agent_after_jump);
        } else if (is_raw) {
            ALLOW(of_agent_raw);
        }
    }
    add((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
    const struct sigaction trap = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO | SA_NODEFER};
    const struct sock_fprog program = {n_filter, filter};
    if (sigaction(SIGSYS, &trap, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        say("seccomp: %d\n", errno);
        _exit(1);
    }
}

/* ---- what runs under the filter ---- */

static void churn(int n_blocks, size_t bytes) {
    for (int i = 0; i < n_blocks; i++) {
        void *block = malloc(bytes);
        OPAQUE(block);
        free(block);
    }
}

/* Each bit of the path selects one of two call sites, so every path is another stack. */
__attribute__((noinline)) static void *from_path(unsigned path, int depth, size_t bytes) {
    void *block;
    if (depth == 0) {
        block = malloc(bytes);
    } else if (path & 1) {
        block = from_path(path >> 1, depth - 1, bytes);
    } else {
        block = from_path(path >> 1, depth - 1, bytes);
        OPAQUE(block);
    }
    OPAQUE(block);
    return block;
}

static void single(void) {
    churn(20000, 10);
    for (unsigned i = 0; i < 5000; i++) {
        free(from_path(i, 13, 24));
    }
    for (int i = 0; i < 100; i++) {
        void *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(memory, 8192);
    }
}

static void *thread_main(void *unused) {
    (void)unused;
    churn(4000, 40);
    return NULL;
}

static void threads(void) {
    pthread_t all[4];
    for (int i = 0; i < 4; i++) {
        pthread_create(&all[0], NULL, thread_main, NULL);
        pthread_join(all[0], NULL);
    }
    for (int i = 0; i < 4; i++) {
        pthread_create(&all[i], NULL, thread_main, NULL);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(all[i], NULL);
    }
}

static void forks(void) {
    enum { CHILDREN = 5 };
    for (int i = 0; i < CHILDREN; i++) {
        int status = -1;
        const pid_t child = fork();
        if (child == 0) {
            churn(3000, 30);
            say_trapped();
            if (i == CHILDREN - 1) {
                _exit(i);
            }
            exit(i);
        }
        if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
            WEXITSTATUS(status) != i) {
            say("child %d: %d\n", i, status);
        }
    }
}

static void *painter_main(void *unused) {
    const struct timespec while_it_lives = {.tv_nsec = 60 * 1000 * 1000};
    churn(10, 40);
    prctl(PR_SET_NAME, "painter");
    nanosleep(&while_it_lives, NULL);
    churn(10, 40);
    return unused;
}

static void named(void) {
    pthread_t painter;
    pthread_create(&painter, NULL, painter_main, NULL);
    pthread_join(painter, NULL);
}

static void kept(void) {
    for (int i = 0; i < 700000; i++) {
        void *block = malloc(16);
        OPAQUE(block);
    }
}

static void late(void) {
    churn(6000000, 16);
}

static sigjmp_buf place;

static volatile sig_atomic_t may_jump;

static void on_alarm(int number) {
    (void)number;
    if (may_jump) {
        may_jump = 0;
        siglongjmp(place, 1);
    }
}

/* Called before the filter begins. */
static void start_alarms(void) {
    const struct sigaction alarm = {.sa_handler = on_alarm, .sa_flags = SA_NODEFER | SA_RESTART};
    const struct itimerval period = {.it_value.tv_usec = 300, .it_interval.tv_usec = 300};
    sigaction(SIGALRM, &alarm, NULL);
    setitimer(ITIMER_REAL, &period, NULL);
}

/* Runs deeper on the stack than the code that allocates after the jump. The C library holds no lock
 * in mmap, so a handler may leave it. */
__attribute__((noinline)) static void map_forever(void) {
    volatile char room[16384];
    room[0] = 0;
    may_jump = 1;
    for (;;) {
        void *memory = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        munmap(memory, 8192);
        room[1] = room[0];
    }
}

static void jump(void) {
    for (volatile int i = 0; i < 200; i++) {
        if (sigsetjmp(place, /* savemask= */ 0) == 0) {
            map_forever();
        }
        churn(10, 20);
    }
}

static void raw(void) {
    int status = -1;
    const pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) {
        churn(1000, 30);
        usleep(200 * 1000); /* the writer looks at the child while it lives */
        churn(2000, 30);
        say_trapped();
        exit(0);
    }
    churn(10, 20);
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
        say("child: %d\n", status);
    }
}

static void *silent_main(void *unused) {
    say_trapped();
    say("done\n");
    is_leaving = true;
    _exit(0);
    return unused;
}

static void silent(void) {
    pthread_t thread;
    churn(10, 20);
    pthread_create(&thread, NULL, silent_main, NULL);
    pthread_join(thread, NULL);
}

int main(int n_arguments, char **arguments) {
    const char *kind = n_arguments > 1 ? arguments[1] : "none";
    const char *how = n_arguments > 2 ? arguments[2] : "single";
    if (strcmp(how, "jump") == 0) {
        start_alarms();
    }
    if (n_arguments > 3) {
        char byte;
        say("ready\n");
        (void)!read(STDIN_FILENO, &byte, 1);
    }
    begin_sandbox(kind, how);
    if (strcmp(how, "threads") == 0) {
        threads();
    } else if (strcmp(how, "forks") == 0) {
        forks();
    } else if (strcmp(how, "named") == 0) {
        named();
    } else if (strcmp(how, "kept") == 0) {
        kept();
    } else if (strcmp(how, "late") == 0) {
        late();
    } else if (strcmp(how, "jump") == 0) {
        jump();
    } else if (strcmp(how, "raw") == 0) {
        raw();
    } else if (strcmp(how, "silent") == 0) {
        silent();
    } else {
        single();
    }
    say_trapped();
    say("done\n");
    if (strcmp(how, "_exit") == 0) {
        _exit(0);
    }
    return 0;
}
