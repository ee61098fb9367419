/* passed_files.c: passes open files to the target, a process in another mount namespace, for
 * `attach`. The files are the agent (the library that the target's loader then opens as
 * /proc/thread-self/fd/N) and the live file, through which the agent shares memory with allogram.
 *
 *     target   socketpair: a socket pair; its network namespace does not matter
 *     tool     pidfd_getfd (Linux 5.6): takes a descriptor of one end
 *     tool     sendmsg: sends the files (SCM_RIGHTS)
 *     target   recvmsg at the other end: has the files
 *     target   closes both ends
 *
 * So no file is created or copied, and the mappings in the target belong to the same files as
 * without a container. The alternative is a file without a name (memfd_create) in the target, which
 * the tool fills through /proc/PID/fd. Such a live file could not be found again after a kill of
 * the tool, and the kernel may forbid code in such a file (vm.memfd_noexec).
 *
 * The target makes the system calls by its libc's function syscall, not by recvmsg and close. These
 * two are cancellation points: the target's thread would end in them if pthread_cancel was called
 * for it. */
#include "passed_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/compiler.h"
#include "base/descriptor.h"
#include "remote/foreign_file.h"
#include "remote/remote_memory.h"

enum { SYSTEM_CALL_ARGUMENTS = AG_REMOTE_CALL_ARGUMENTS - 1 };

/* A message with descriptors. The target receives it into memory of this layout. */
struct message {
    struct msghdr header;
    struct iovec piece;
    char byte; /* a message with descriptors needs at least one byte of data */
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(AG_PASSED_FILES_MOST * sizeof(int))];
};

/* Makes the target's thread call the kernel. Returns the result, or a negative errno. */
static int64_t system_call_make(struct ag_remote_call *call, uint64_t system_call, long number,
                                const uint64_t arguments[SYSTEM_CALL_ARGUMENTS]) {
    uint64_t all[AG_REMOTE_CALL_ARGUMENTS] = {(uint64_t)number}, result = 0;
    int32_t error = 0;
    memcpy(all + 1, arguments, SYSTEM_CALL_ARGUMENTS * sizeof arguments[0]);
    int r = ag_remote_call_undo(call, system_call, all, AG_REMOTE_CALL_ARGUMENTS, &result);
    if (r == 0 && (int64_t)result == -1) {
        r = ag_remote_memory_read(call->thread->pid, call->errno_place, &error, sizeof error);
        return r < 0 ? r : error > 0 ? -error : -EIO;
    }
    return r < 0 ? r : (int64_t)result;
}

void ag_passed_files_close(struct ag_remote_call *call, uint64_t system_call, int *fd) {
    if (*fd >= 0 && !call->is_abandoned) {
        const uint64_t arguments[SYSTEM_CALL_ARGUMENTS] = {(uint64_t)*fd};
        /* if it fails, the process has ended or has closed the descriptor itself */
        (void)system_call_make(call, system_call, SYS_close, arguments);
    }
    *fd = -1;
}

/* Takes a descriptor of the target's socket FD. A thread may have descriptors of its own
 * (CLONE_FILES), but pidfd_getfd takes those of the first thread; so the sockets are compared. */
static int take_socket(const struct ag_traced_thread *thread, int fd) {
    char path[64];
    struct stat theirs, ours;
    const int pidfd = (int)syscall(SYS_pidfd_open, thread->pid, 0);
    const int taken = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    const int error = errno;
    ag_descriptor_close(pidfd);
    if (taken < 0) {
        return -error;
    }
    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/fd/%d", thread->pid, thread->tid, fd);
    const bool is_same = ag_foreign_file_look(path, &theirs) == 0 && fstat(taken, &ours) == 0 &&
                         ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
    if (!is_same) {
        (void)close(taken); /* nothing was written */
        return -EXDEV;
    }
    return taken;
}

/* Sends the files. This side of the pair is closed afterward. */
static int send_files(int socket, const int *fds, size_t n) {
    struct message message = {.byte = 0};
    message.piece = (struct iovec){&message.byte, 1};
    message.header = (struct msghdr){.msg_iov = &message.piece,
                                     .msg_iovlen = 1,
                                     .msg_control = message.control,
                                     .msg_controllen = CMSG_SPACE(n * sizeof(int))};
    struct cmsghdr *control = CMSG_FIRSTHDR(&message.header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(control), fds, n * sizeof(int));
    return sendmsg(socket, &message.header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* Makes the target's thread receive the message. Returns the number of its descriptors, or a
 * negative errno. */
static int receive_files(struct ag_remote_call *call, uint64_t system_call, int socket,
                         int ret_fds[AG_PASSED_FILES_MOST]) {
    struct message message = {.byte = 0};
    uint64_t place = 0;
    int r = ag_remote_call_reserve(call, sizeof message, &place);
    if (r < 0) {
        return r;
    }
    /* the pointers are addresses in the target */
    message.piece = (struct iovec){(void *)(uintptr_t)(place + offsetof(struct message, byte)), 1};
    message.header = (struct msghdr){
        .msg_iov = (void *)(uintptr_t)(place + offsetof(struct message, piece)),
        .msg_iovlen = 1,
        .msg_control = (void *)(uintptr_t)(place + offsetof(struct message, control)),
        .msg_controllen = sizeof message.control};
    r = ag_attach_write_memory(call->thread->pid, place, &message, sizeof message);
    if (r < 0) {
        return r;
    }
    const uint64_t arguments[SYSTEM_CALL_ARGUMENTS] = {(uint64_t)socket, place,
                                                       MSG_CMSG_CLOEXEC | MSG_DONTWAIT};
    const int64_t n_bytes = system_call_make(call, system_call, SYS_recvmsg, arguments);
    if (n_bytes < 0) {
        return (int)n_bytes;
    }
    r = ag_remote_memory_read(call->thread->pid, place, &message, sizeof message);
    if (r < 0) {
        return r;
    }
    struct cmsghdr control;
    memcpy(&control, message.control, sizeof control);
    if (message.header.msg_controllen < CMSG_LEN(sizeof(int)) || control.cmsg_type != SCM_RIGHTS ||
        control.cmsg_len < CMSG_LEN(sizeof(int)) ||
        control.cmsg_len > CMSG_LEN(AG_PASSED_FILES_MOST * sizeof(int))) {
        return 0;
    }
    const size_t n = (control.cmsg_len - CMSG_LEN(0)) / sizeof(int);
    memcpy(ret_fds, message.control + CMSG_LEN(0), n * sizeof(int));
    return (int)n;
}

int ag_passed_files_pass(struct ag_remote_call *call, uint64_t system_call, const int *fds,
                         size_t n, int *ret_fds, const char **ret_operation) {
    int ends[2] = {-1, -1}, taken = -1, got[AG_PASSED_FILES_MOST], n_got = 0;
    uint64_t place = 0;
    *ret_operation = "socketpair";
    int r = ag_remote_call_reserve(call, sizeof ends, &place);
    if (r == 0) {
        const uint64_t arguments[SYSTEM_CALL_ARGUMENTS] = {AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC,
                                                           0, place};
        r = (int)system_call_make(call, system_call, SYS_socketpair, arguments);
    }
    if (r == 0) {
        r = ag_remote_memory_read(call->thread->pid, place, ends, sizeof ends);
    }
    if (r == 0) {
        *ret_operation = "pidfd_getfd (Linux 5.6 and newer have it)";
        r = taken = take_socket(call->thread, ends[1]);
    }
    if (r >= 0) {
        *ret_operation = "sendmsg";
        r = send_files(taken, fds, n);
    }
    if (r == 0) {
        *ret_operation = "recvmsg";
        r = n_got = receive_files(call, system_call, ends[0], got);
    }
    ag_descriptor_close(taken);
    ag_passed_files_close(call, system_call, &ends[0]);
    ag_passed_files_close(call, system_call, &ends[1]);
    if (r >= 0 && (size_t)r == n) {
        memcpy(ret_fds, got, n * sizeof got[0]);
        return 0;
    }
    for (int i = 0; i < n_got; i++) {
        ag_passed_files_close(call, system_call, &got[i]);
    }
    /* the kernel passes only as many descriptors as the limit of the target permits */
    return r < 0 ? r : -EMFILE;
}
