/* fault_injector.c: runs a command and makes system calls of allogram fail, at random. System calls
 * of the recorded program do not fail. For run_faults.py.
 *
 *     fault_injector SEED PERMILLE WHERE FIRST REPORT -- COMMAND...
 *
 * WHERE is "agent" (system calls by instructions in a library of allogram, in any process) or
 * "writer" (system calls of processes that execute allogram, except those of the dynamic loader).
 * Only the kinds of system calls in the table `faults` can fail; of these, madvise only with
 * MADV_POPULATE_WRITE, and write only to a file and not to the standard streams. The first FIRST
 * calls that could fail succeed. Each later one fails with a probability of PERMILLE in a thousand,
 * with the error in the table, as if the disk was full, memory exhausted or a limit reached. The
 * injector writes two numbers to the file REPORT: how many system calls could have failed, and how
 * many failed.
 *
 * A seccomp filter passes these system calls to the injector (SECCOMP_RET_USER_NOTIF), which lets a
 * call continue or answers with an error. So the program and allogram need no changes, and all
 * other system calls run at full speed. The injector adopts orphans, and ends when all processes
 * have ended. After a minute it kills the remaining processes and ends with status 99. Otherwise
 * its status is that of the command (128 + N after signal N), or 77 if the kernel has no such
 * filters. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { POPULATE_WRITE = 23, NO_FILTERS = 77, LEFT_BEHIND = 99, SECONDS_MOST = 60 };

static const struct {
    long call;
    int error;
} faults[] = {
    {SYS_mmap, ENOMEM},      {SYS_mremap, ENOMEM},       {SYS_madvise, ENOMEM},
    {SYS_ftruncate, ENOSPC}, {SYS_fallocate, ENOSPC},    {SYS_write, ENOSPC},
    {SYS_pwrite64, ENOSPC},  {SYS_memfd_create, EMFILE}, {SYS_clone, EAGAIN},
    {SYS_clone3, EAGAIN},
};
enum { N_FAULTS = sizeof(faults) / sizeof(faults[0]) };

static struct {
    uint64_t state;
    unsigned permille;
    bool in_agent;
    uint64_t first, n_calls, n_failed;
} injection;

static uint32_t next_random(void) {
    injection.state =
        injection.state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(injection.state >> 33);
}

/* Stores the path of the mapped file that contains the instruction, or "". */
static void file_of(pid_t pid, uint64_t instruction, char ret_path[4096]) {
    char path[64], line[4608];
    ret_path[0] = '\0';
    (void)snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    while (maps && fgets(line, sizeof line, maps)) {
        uint64_t low, high;
        if (sscanf(line, "%" SCNx64 "-%" SCNx64, &low, &high) == 2 && low <= instruction &&
            instruction < high) {
            const char *name = strchr(line, '/');
            (void)snprintf(ret_path, 4096, "%s", name ? name : "");
            break;
        }
    }
    if (maps) {
        (void)fclose(maps);
    }
}

static bool executes_allogram(pid_t pid) {
    char path[64], exe[4096] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/exe", pid);
    const ssize_t n = readlink(path, exe, sizeof exe - 1);
    const char *name = n > 0 ? strrchr(exe, '/') : NULL;
    return name && strcmp(name, "/allogram") == 0;
}

/* Whether the descriptor has a path (is no pipe or socket). A write to a pipe never fails with
 * ENOSPC. */
static bool is_file(pid_t pid, uint64_t fd) {
    char path[64], name[2] = "";
    (void)snprintf(path, sizeof path, "/proc/%d/fd/%" PRIu64, pid, fd);
    return readlink(path, name, 1) == 1 && name[0] == '/';
}

/* Decides at random whether the call fails. Returns its error, or 0 if the call continues. */
static int error_of(const struct seccomp_notif *call) {
    char file[4096];
    const __u64 *arguments = call->data.args;
    if ((call->data.nr == SYS_madvise && arguments[2] != POPULATE_WRITE) ||
        (call->data.nr == SYS_write &&
         (arguments[0] <= STDERR_FILENO || !is_file((pid_t)call->pid, arguments[0])))) {
        return 0;
    }
    if (!injection.in_agent && !executes_allogram((pid_t)call->pid)) {
        return 0;
    }
    file_of((pid_t)call->pid, call->data.instruction_pointer, file);
    if (injection.in_agent ? !strstr(file, "/liballogram") : strstr(file, "/ld-linux") != NULL) {
        return 0;
    }
    if (injection.n_calls++ < injection.first || next_random() % 1000 >= injection.permille) {
        return 0;
    }
    injection.n_failed++;
    for (size_t i = 0; i < N_FAULTS; i++) {
        if (faults[i].call == call->data.nr) {
            return faults[i].error;
        }
    }
    return 0;
}

/* ---- the filter ---- */

static int install_filter(void) {
    struct sock_filter code[2 + N_FAULTS + 2];
    size_t n = 0;
    code[n++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < N_FAULTS; i++) {
        code[n++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)faults[i].call, (uint8_t)(N_FAULTS - i), 0);
    }
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    code[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    const struct sock_fprog program = {(unsigned short)n, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0) {
        return -1;
    }
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                        &program);
}

/* The control data of a message that passes one descriptor. */
union ancillary {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int))];
};

/* Passes a descriptor by sendmsg(2), which the filter does not stop, unlike write(2). */
static bool send_descriptor(int socket, int fd) {
    union ancillary ancillary = {.header = {.cmsg_len = CMSG_LEN(sizeof fd),
                                            .cmsg_level = SOL_SOCKET,
                                            .cmsg_type = SCM_RIGHTS}};
    struct iovec byte = {.iov_base = &(char){0}, .iov_len = 1};
    const struct msghdr message = {.msg_iov = &byte,
                                   .msg_iovlen = 1,
                                   .msg_control = &ancillary,
                                   .msg_controllen = sizeof ancillary};
    memcpy(CMSG_DATA(&ancillary.header), &fd, sizeof fd);
    return sendmsg(socket, &message, 0) == 1;
}

static int receive_descriptor(int socket) {
    union ancillary ancillary = {0};
    struct iovec byte = {.iov_base = &(char){0}, .iov_len = 1};
    struct msghdr message = {.msg_iov = &byte,
                             .msg_iovlen = 1,
                             .msg_control = &ancillary,
                             .msg_controllen = sizeof ancillary};
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 &&
        message.msg_controllen >= CMSG_LEN(sizeof fd)) {
        memcpy(&fd, CMSG_DATA(&ancillary.header), sizeof fd);
    }
    return fd;
}

static void answer(int listener) {
    struct seccomp_notif call = {0};
    if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &call) < 0) {
        return; /* the calling process was killed in the meantime */
    }
    const int error = error_of(&call);
    struct seccomp_notif_resp response = {
        .id = call.id, .error = -error, .flags = error == 0 ? SECCOMP_USER_NOTIF_FLAG_CONTINUE : 0};
    /* the ioctl fails if the process was killed */
    (void)ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

static void kill_children(void) {
    char path[64], line[4096] = "";
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", getpid());
    FILE *children = fopen(path, "re");
    if (children && fgets(line, sizeof line, children)) {
        for (char *at = strtok(line, " "); at; at = strtok(NULL, " ")) {
            (void)fprintf(stderr, "fault_injector: process %s is still there\n", at);
            (void)kill((pid_t)atoi(at), SIGKILL);
        }
    }
    if (children) {
        (void)fclose(children);
    }
}

int main(int argc, char **argv) {
    int sockets[2];
    if (argc < 8 || strcmp(argv[6], "--") != 0 ||
        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) < 0) {
        (void)fprintf(
            stderr,
            "usage: fault_injector SEED PERMILLE agent|writer FIRST REPORT -- COMMAND...\n");
        return 2;
    }
    injection.state = strtoull(argv[1], NULL, 10) * UINT64_C(0x9e3779b97f4a7c15) + 1;
    injection.permille = (unsigned)atoi(argv[2]);
    injection.in_agent = strcmp(argv[3], "agent") == 0;
    injection.first = strtoull(argv[4], NULL, 10);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    const pid_t command = fork();
    if (command == 0) {
        const int listener = install_filter();
        if (listener < 0 || !send_descriptor(sockets[1], listener)) {
            _exit(NO_FILTERS);
        }
        (void)close(listener);
        (void)execvp(argv[7], argv + 7);
        _exit(127);
    }
    (void)close(sockets[1]);
    const int listener = receive_descriptor(sockets[0]);
    int status = NO_FILTERS << 8;
    bool has_children = true, is_killed = false;
    const time_t begin = time(NULL);
    while (has_children) {
        struct pollfd waiting = {.fd = listener, .events = POLLIN};
        if (listener >= 0 && poll(&waiting, 1, 20) > 0 && (waiting.revents & POLLIN)) {
            answer(listener);
        }
        int ended;
        for (pid_t pid; (pid = waitpid(-1, &ended, WNOHANG)) != 0;) {
            if (pid < 0) {
                has_children = false;
                break;
            }
            status = pid == command ? ended : status;
        }
        if (has_children && time(NULL) - begin > SECONDS_MOST) {
            kill_children();
            is_killed = true;
        }
    }
    FILE *report = fopen(argv[5], "we");
    if (report) {
        (void)fprintf(report, "%" PRIu64 " %" PRIu64 "\n", injection.n_calls, injection.n_failed);
        (void)fclose(report);
    }
    return is_killed             ? LEFT_BEHIND
           : WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                 : WEXITSTATUS(status);
}
