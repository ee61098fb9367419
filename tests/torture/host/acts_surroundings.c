/* acts_surroundings.c: acts (steps of torture programs; an act may contain inner acts, see
 * nodes.h) that change the environment of a process: namespaces, another user, filters of system
 * calls, limits. Each act changes only a child process that it creates. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <link.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "nodes.h"
#include "processes.h"
#include "sites.h"

static uint64_t wait_result(pid_t child, unsigned result) {
    const uint64_t how = process_wait(child);
    return mix(how, atomic_load(truth_result(result)));
}

/* namespaces(seed, kinds, ...): a child runs the inner acts in new namespaces. `kinds` is a sum of
 * 1 (pid), 2 (mounts), 4 (user), 8 (network), 16 (the process is not dumpable) and 32 (with 2:
 * another file system is mounted at /dev/shm). */
uint64_t act_namespaces(const struct node *node, uint64_t seed) {
    const int64_t kinds = node->numbers[1];
    const unsigned result = truth_new_result();
    const int flags = (kinds & 1 ? CLONE_NEWPID : 0) | (kinds & 2 ? CLONE_NEWNS : 0) |
                      (kinds & 4 ? CLONE_NEWUSER : 0) | (kinds & 8 ? CLONE_NEWNET : 0);
    const pid_t child = fork();
    if (child != 0) {
        return wait_result(child, result);
    }
    const int r = unshare(flags);
    if (r == 0 && (kinds & 2)) {
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL);
        if (kinds & 32) {
            mount("tmpfs", "/dev/shm", "tmpfs", 0, NULL);
        }
    }
    block_free(block_make(7, 141));
    if (kinds & 16) {
        prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    }
    const pid_t first = fork(); /* process 1 of its pid namespace if that is new */
    if (first == 0) {
        block_free(block_make(7, 142));
        process_live(node, seed, result, 2);
    }
    const uint64_t how = process_wait(first);
    atomic_store(truth_result(result),
                 mix(atomic_load(truth_result(result)), mix(how, (uint64_t)r)));
    _exit(18);
}

/* user(seed, kind, ...): a child becomes an ordinary user and runs the inner acts, which may
 * execute programs. Kind 1 also sets no_new_privs. */
uint64_t act_user(const struct node *node, uint64_t seed) {
    const unsigned result = truth_new_result();
    const pid_t child = fork();
    if (child != 0) {
        return wait_result(child, result);
    }
    block_free(block_make(6, 151));
    if (node->numbers[1] & 1) {
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    const int r =
        setgroups(0, NULL) | setresgid(65534, 65534, 65534) | setresuid(65534, 65534, 65534);
    block_free(block_make(6, 152));
    atomic_store(truth_result(result), mix((uint64_t)r, node_run_children(node, seed)));
    _exit(19);
}

/* The code ranges of this program and of the C library (with its loader, libgcc_s and the vdso). If
 * the filter traps a system call of this code, nothing is wrong: the C library may open files of
 * /proc or count processors, depending on its state. */
enum { OBJECTS = 16 };
static struct objects {
    struct {
        uintptr_t low, high;
    } ranges[OBJECTS];
    unsigned n;
} objects;

static int know_object(struct dl_phdr_info *info, size_t size, void *found) {
    static const char *const names[] = {"libc.so", "ld-linux", "libgcc_s", "linux-vdso"};
    struct objects *known = found;
    int is_known = info->dlpi_name[0] == 0;
    (void)size;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        is_known |= strstr(info->dlpi_name, names[i]) != NULL;
    }
    for (int i = 0; is_known && i < info->dlpi_phnum && known->n < OBJECTS; i++) {
        const uintptr_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X)) {
            known->ranges[known->n].low = low;
            known->ranges[known->n++].high = low + info->dlpi_phdr[i].p_memsz;
        }
    }
    return 0;
}

static void on_violation(int number, siginfo_t *info, void *context) {
    const uintptr_t from = (uintptr_t)info->si_call_addr;
    const int saved = errno;
    unsigned i = 0;
    (void)number;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = -EPERM;
    while (i < objects.n && (from < objects.ranges[i].low || from >= objects.ranges[i].high)) {
        i++;
    }
    if (i == objects.n) {
        char text[80];
        snprintf(text, sizeof text, "the filter trapped system call %d of another library",
                 info->si_syscall);
        complain(text);
    }
    errno = saved;
}

/* seccomp(seed, kind, first, ...): a child runs the inner acts with a filter. The system calls that
 * the filter does not allow fail with EPERM (kind 0) or ENOSYS (kind 1), or raise SIGSYS (kind 2).
 * The handler of SIGSYS complains unless this program or the C library made the system call. If
 * `first` is 1, the child allocates before it sets the filter. */
uint64_t act_seccomp(const struct node *node, uint64_t seed) {
    static const int forbidden[] = {
        SYS_memfd_create, SYS_fallocate,       SYS_ftruncate,  SYS_process_vm_readv,
        SYS_ptrace,       SYS_membarrier,      SYS_prctl,      SYS_openat,
        SYS_open,         SYS_readlink,        SYS_readlinkat, SYS_statx,
        SYS_newfstatat,   SYS_socket,          SYS_sysinfo,    SYS_getcpu,
        SYS_uname,        SYS_rt_sigtimedwait, SYS_kill,       SYS_tgkill,
        SYS_mincore,      SYS_times,           SYS_getrusage,  SYS_clock_gettime,
        SYS_getppid};
    enum { N = sizeof forbidden / sizeof *forbidden };
    const unsigned result = truth_new_result();
    struct objects known = {.n = 0};
    /* not in the child, where the loader's lock may be held */
    dl_iterate_phdr(know_object, &known);
    const pid_t child = fork();
    if (child != 0) {
        return wait_result(child, result);
    }
    objects = known;
    const uint32_t action = node->numbers[1] == 2   ? SECCOMP_RET_TRAP
                            : node->numbers[1] == 1 ? SECCOMP_RET_ERRNO | ENOSYS
                                                    : SECCOMP_RET_ERRNO | EPERM;
    struct sock_filter code[2 * N + 2];
    unsigned short n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < N; i++) {
        code[n++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)forbidden[i], 0, 1);
        code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {n, code};
    struct sigaction on_sys = {.sa_sigaction = on_violation, .sa_flags = SA_SIGINFO};
    sigaction(SIGSYS, &on_sys, NULL);
    if (node->numbers[2] & 1) { /* otherwise the filter is set before the first allocation */
        block_free(block_make(5, 161));
    }
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    const int r = prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0);
    const uint64_t done = node_run_children(node, seed);
    atomic_store(truth_result(result), mix((uint64_t)r, done));
    _exit(20);
}

/* limits(seed, kind, first, ...): a child runs the inner acts with a limit: on the size of files
 * (kind 0), descriptors (1), the stack (2), locked memory (3), or core dumps (4). If `first` is 1,
 * the child allocates before it sets the limit. */
uint64_t act_limits(const struct node *node, uint64_t seed) {
    static const int resources[] = {RLIMIT_FSIZE, RLIMIT_NOFILE, RLIMIT_STACK, RLIMIT_MEMLOCK,
                                    RLIMIT_CORE};
    static const rlim_t most[] = {0, 3, 1 << 20, 0, 0};
    const unsigned result = truth_new_result();
    const int kind = (int)(node->numbers[1] % 5);
    const pid_t child = fork();
    if (child != 0) {
        return wait_result(child, result);
    }
    if (node->numbers[2] & 1) {
        block_free(block_make(5, 171));
    }
    const struct rlimit limit = {most[kind], most[kind]};
    const int r = setrlimit(resources[kind], &limit);
    atomic_store(truth_result(result), mix((uint64_t)r, node_run_children(node, seed)));
    _exit(23);
}
