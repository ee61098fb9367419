/* attached_meanwhile.c: for SECONDS seconds, makes calls that a tracer (ptrace) must not disturb.
 * Meanwhile the test attaches to this process repeatedly.
 *
 *     attached_meanwhile waits SECONDS     epoll_wait while a child ends; SIGCHLD has no handler:
 *                                          the wait must not end with EINTR
 *     attached_meanwhile calls SECONDS     calls on sockets with a timeout, and io_uring_enter:
 *                                          they must end by their timeout, and not with EINTR
 *     attached_meanwhile writes SECONDS    writes of more bytes than the pipe has room for, to a
 *                                          slow reader: a write must write all bytes, unless it
 *                                          lasts longer than PROTECTED_MS
 *     attached_meanwhile clones SECONDS    children of clone with CLONE_VM allocate in the memory
 *                                          of this process: each must exit with MEANT_STATUS
 *
 * Prints the number of rounds (`calls`: of calls) and how many of them were disturbed. The exit
 * status is 1 if any was disturbed. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { STACK_BYTES = 128 << 10, MEANT_STATUS = 33, ALLOCATIONS = 10000 };

static int ends[2];

static void nap(long us) {
    struct timespec left = {.tv_nsec = us * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

static void *write_late(void *unused) {
    nap(3000);
    return write(ends[1], "x", 1) == 1 ? unused : NULL;
}

static int wait_while_a_child_ends(int epoll, unsigned *seed) {
    pthread_t writer;
    struct epoll_event event;
    char byte;
    if (pthread_create(&writer, NULL, write_late, NULL) != 0) {
        return 0;
    }
    const int us = rand_r(seed) % 3000;
    const pid_t child = fork();
    if (child == 0) {
        nap(us);
        _exit(0);
    }
    const int n = epoll_wait(epoll, &event, 1, 5000);
    pthread_join(writer, NULL);
    const int is_read = read(ends[0], &byte, 1) == 1;
    waitpid(child, NULL, 0);
    return n == 1 && is_read;
}

static int allocate_in_the_parent(void *unused) {
    (void)unused;
    for (int i = 0; i < ALLOCATIONS; i++) {
        free(malloc(64));
    }
    syscall(SYS_exit, MEANT_STATUS);
    return 0;
}

static int clone_in_this_memory(char *stack) {
    int status = 0;
    const pid_t child =
        clone(allocate_in_the_parent, stack + STACK_BYTES, CLONE_VM | SIGCHLD, NULL);
    return child > 0 && waitpid(child, &status, __WALL) == child && WIFEXITED(status) &&
           WEXITSTATUS(status) == MEANT_STATUS;
}

/* ---- calls ---- */

enum timed_call {
    READV,
    WRITEV,
    RECVMMSG,
    SENDMMSG,
    CONNECT,
    SENDFILE,
    IO_URING,

    TIMED_CALLS
};
static _Atomic long n_timed, n_interrupted;

static void limit_waits(int socket_fd) {
    const struct timeval timeout = {.tv_usec = 100000};
    setsockopt(socket_fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    setsockopt(socket_fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
}

/* A listening socket to which no further connection can be made. */
static struct sockaddr_un crowded_listener(void) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "attached_meanwhile.%d", getpid());
    const int listener = socket(AF_UNIX, SOCK_STREAM, 0), first = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&address, sizeof address) != 0 ||
        listen(listener, 0) != 0 ||
        connect(first, (struct sockaddr *)&address, sizeof address) != 0) {
        _exit(3);
    }
    return address;
}

static void *make_timed_calls(void *argument) {
    static char bytes[1 << 20];
    const enum timed_call call = (enum timed_call)(intptr_t)argument;
    int sockets[2];
    struct iovec piece = {bytes, 1000};
    struct mmsghdr messages[2] = {{.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}},
                                  {.msg_hdr = {.msg_iov = &piece, .msg_iovlen = 1}}};
    struct sockaddr_un address;
    struct io_uring_params parameters = {0};
    const int ring = call == IO_URING ? (int)syscall(SYS_io_uring_setup, 1, &parameters) : -1;
    const int zeros = open("/dev/zero", O_RDONLY);
    if (call == CONNECT) {
        address = crowded_listener();
    }
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0 || (call == IO_URING && ring < 0)) {
        return NULL;
    }
    while (send(sockets[0], bytes, sizeof bytes, MSG_DONTWAIT) > 0) { /* nothing more can be sent */
    }
    limit_waits(sockets[0]);
    for (;;) {
        long n = 0;
        switch (call) {
        case READV:
            n = readv(sockets[0], &piece, 1);
            break;
        case WRITEV:
            n = writev(sockets[0], &piece, 1);
            break;
        case RECVMMSG:
            n = recvmmsg(sockets[0], messages, 2, 0, NULL);
            break;
        case SENDMMSG:
            n = sendmmsg(sockets[0], messages, 2, 0);
            break;
        case CONNECT: {
            const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
            limit_waits(socket_fd);
            n = connect(socket_fd, (struct sockaddr *)&address, sizeof address);
            close(socket_fd);
            break;
        }
        case SENDFILE:
            n = sendfile(sockets[0], zeros, NULL, 1000);
            break;
        case IO_URING: { /* the completion does not come */
            struct __kernel_timespec timeout = {.tv_nsec = 100000000};
            struct io_uring_getevents_arg more = {.ts = (uintptr_t)&timeout};
            n = syscall(SYS_io_uring_enter, ring, 0, 1,
                        IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &more, sizeof more);
            break;
        }
        case TIMED_CALLS:
            break;
        }
        if (n < 0 && errno == EINTR) {
            printf("call %d was interrupted\n", (int)call);
            n_interrupted++;
        }
        n_timed++;
    }
}

static int time_out(int seconds) {
    pthread_t threads[TIMED_CALLS];
    for (intptr_t call = 0; call < TIMED_CALLS; call++) {
        if (pthread_create(&threads[call], NULL, make_timed_calls, (void *)call) != 0) {
            return 2;
        }
    }
    sleep((unsigned)seconds);
    printf("%ld calls, %ld interrupted\n", (long)n_timed, (long)n_interrupted);
    fflush(stdout);
    _exit(n_interrupted != 0);
}

/* ---- writes ---- */

static void *drain(void *argument) {
    char bytes[4096];
    const int fd = *(int *)argument;
    while (read(fd, bytes, sizeof bytes) > 0) {
        nap(200);
    }
    return NULL;
}

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec / 1e6;
}

static int write_much(void) {
    enum { ALL_BYTES = 256 << 10 }; /* a pipe has room for 64 KiB */
    enum { PROTECTED_MS = 90 };     /* attach waits 100 ms for the end of a write */
    static char bytes[ALL_BYTES];
    const double begin_ms = now_ms();
    const long n = write(ends[1], bytes, ALL_BYTES);
    const double lasted_ms = now_ms() - begin_ms;
    nap(40000);
    return n == ALL_BYTES || (n > 0 && lasted_ms > PROTECTED_MS);
}

int main(int argc, char **argv) {
    if (argc != 3 || pipe(ends) != 0) {
        return 2;
    }
    if (strcmp(argv[1], "calls") == 0) {
        return time_out(atoi(argv[2]));
    }
    char *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const int epoll = epoll_create1(0);
    struct epoll_event event = {.events = EPOLLIN};
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &event);
    const int clones = strcmp(argv[1], "clones") == 0, writes = strcmp(argv[1], "writes") == 0;
    pthread_t reader;
    if (writes && pthread_create(&reader, NULL, drain, &ends[0]) != 0) {
        return 2;
    }
    const time_t until = time(NULL) + atoi(argv[2]);
    long n = 0, n_disturbed = 0;
    for (unsigned seed = 1; time(NULL) < until; n++) {
        n_disturbed += !(clones   ? clone_in_this_memory(stack)
                         : writes ? write_much()
                                  : wait_while_a_child_ends(epoll, &seed));
        nap(clones ? 100 : 0);
    }
    printf("%ld rounds, %ld disturbed\n", n, n_disturbed);
    return n_disturbed != 0;
}
