/* memory_sharers.c: finds the processes that share the memory of a process, for `attach`, which
 * changes code there.
 *
 * The kernel has no list of such processes. But the kernel lists the children of each thread
 * (/proc/PID/task/TID/children), and kcmp shows whether two processes have the same memory. Only
 * clone and vfork make a process that shares memory, as a child of the process whose memory it
 * shares. So a sharer is found among the children and parents of other sharers. */
#include "remote/memory_sharers.h"

#include <linux/kcmp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "remote/remote_process.h"

enum { THREADS_MOST = 4096, CHILDREN_BYTES = 64 << 10 };

struct sharers { /* the process itself first */
    pid_t pids[1 + AG_MEMORY_SHARERS_MOST];
    size_t n;
};

static bool share_memory(pid_t first, pid_t second) {
    return syscall(SYS_kcmp, first, second, KCMP_VM, 0, 0) == 0;
}

/* Adds PID if it shares the memory of the first process and is not in the list. PID 0: no
 * process. */
static void add_if_sharer(struct sharers *sharers, pid_t pid) {
    for (size_t i = 0; i < sharers->n; i++) {
        if (sharers->pids[i] == pid) {
            return;
        }
    }
    if (pid > 0 && sharers->n <= AG_MEMORY_SHARERS_MOST && share_memory(sharers->pids[0], pid)) {
        sharers->pids[sharers->n++] = pid;
    }
}

static void add_children_of(struct sharers *sharers, pid_t pid, pid_t tid) {
    static char text[CHILDREN_BYTES];
    (void)ag_remote_process_file(pid, tid, "children", text, sizeof text); /* "" on failure */
    char *at = text, *end;
    for (long child; (child = strtol(at, &end, 10)) > 0; at = end) {
        add_if_sharer(sharers, (pid_t)child);
    }
}

size_t ag_memory_sharers(pid_t pid, pid_t ret_pids[AG_MEMORY_SHARERS_MOST]) {
    static pid_t tids[THREADS_MOST];
    struct sharers sharers = {.pids = {pid}, .n = 1};
    for (size_t i = 0; i < sharers.n; i++) {
        const struct ag_remote_process process = {.pid = sharers.pids[i]};
        const size_t n = ag_remote_process_threads(&process, tids, THREADS_MOST);
        for (size_t j = 0; j < n && j < THREADS_MOST; j++) {
            add_children_of(&sharers, process.pid, tids[j]);
        }
        add_if_sharer(&sharers, ag_remote_process_parent(process.pid));
    }
    memcpy(ret_pids, &sharers.pids[1], (sharers.n - 1) * sizeof *ret_pids);
    return sharers.n - 1;
}

bool ag_thread_has_memory_sharer(pid_t pid, pid_t tid) {
    struct sharers sharers = {.pids = {pid}, .n = 1};
    add_children_of(&sharers, pid, tid);
    add_if_sharer(&sharers, tid == pid ? ag_remote_process_parent(pid) : 0);
    return sharers.n > 1;
}
