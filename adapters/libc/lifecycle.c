/* lifecycle.c: the events of a process that the recorder must not miss: fork, the ways to end, and
 * objects that are unloaded. */
#include <stdlib.h>
#include <unistd.h>

#include "base/raw_syscall.h"
#include "next.h"
#include "record/recorder.h"
#include "record/thread_state.h"

AG_EXPORT pid_t fork(void);
AG_EXPORT pid_t _Fork(void);
AG_EXPORT void _exit(int status);
AG_EXPORT void _Exit(int status);
AG_EXPORT void quick_exit(int status);
AG_EXPORT int dlclose(void *handle);

/* fork is hooked so that a child that never allocates has a trace too, and so that a child forked
 * in a signal handler begins before the handler returns. A child made in another way is noticed at
 * its first event. */
pid_t fork(void) {
    ag_libc_start();
    const uint32_t parent_tid = ag_thread_tid_in_memory();
    const pid_t pid = ag_next.fork();
    if (pid == 0) {
        ag_recorder_forked(parent_tid);
    }
    return pid;
}

/* glibc 2.34 and later: fork without the handlers of pthread_atfork. */
pid_t _Fork(void) {
    ag_libc_start();
    const uint32_t parent_tid = ag_thread_tid_in_memory();
    const pid_t pid = ag_next._Fork ? ag_next._Fork() : ag_next.fork();
    if (pid == 0) {
        ag_recorder_forked(parent_tid);
    }
    return pid;
}

/* A process that ends without one of these, or without exit's destructors, was killed by a signal.
 * These functions run no destructors, so the final reports are made here, and only by the process
 * itself, not by a child of vfork that shares its memory. Telling those apart takes a system call
 * which a sandbox may forbid, so it is made only when there is something to report. */
static void lifecycle_end(void) {
    ag_libc_start();
    if (ag_libc_has_last_words() && (uint32_t)ag_syscall1(SYS_getpid, 0) == ag_recorder.pid) {
        ag_libc_end();
    }
    ag_recorder_exits_now();
}

void _exit(int status) {
    lifecycle_end();
    ag_next._exit(status);
    __builtin_unreachable();
}

void _Exit(int status) {
    lifecycle_end();
    ag_next._Exit(status);
    __builtin_unreachable();
}

void quick_exit(int status) {
    lifecycle_end();
    ag_next.quick_exit(status);
    __builtin_unreachable();
}

/* The loader reports what it loads and unloads (ag_recorder_watch_images). Where it does not,
 * unloading is noticed here. dlopen needs no hook and must not have one: it looks at its caller for
 * RUNPATH. */
int dlclose(void *handle) {
    ag_libc_start();
    const int r = ag_next.dlclose(handle);
    ag_recorder_images_changed();
    return r;
}
