/* lifecycle.c: hooks fork, _Fork, _exit, _Exit, quick_exit and dlclose in the preloaded agent
 * (allogram's library in the program). So the recorder notices new processes, the end of the
 * process, and unloaded objects. */
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

/* fork and _Fork are hooked so that a child that never allocates has a trace too, and so that the
 * trace of a child forked in a signal handler begins before the handler returns. A child made by
 * another function is noticed when it first allocates or frees. */
static pid_t fork_by(pid_t (*function)(void)) {
    const uint32_t parent_tid = ag_thread_tid_in_memory();
    const pid_t pid = function();
    if (pid == 0) {
        ag_recorder_forked(parent_tid);
    }
    return pid;
}

pid_t fork(void) {
    ag_libc_start();
    return fork_by(ag_next.fork);
}

/* glibc 2.34 and later: fork without the handlers of pthread_atfork. */
pid_t _Fork(void) {
    ag_libc_start();
    return fork_by(ag_next._Fork ? ag_next._Fork : ag_next.fork);
}

/* Records that the process ends by _exit, _Exit or quick_exit. A process that ends without this
 * record, and without the record that a destructor writes at exit, was killed by a signal.
 *
 * These functions run no destructors, so what the agent does at the end of a process (ag_libc_end)
 * is done here. A child of vfork, which shares the memory of the process, must not do it. Only
 * getpid distinguishes such a child from its parent. A sandbox may forbid getpid, so it is called
 * only if the agent has something to record at the end (ag_libc_has_last_words). */
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

/* Usually the loader reports the objects that it loads and unloads (ag_recorder_watch_images). If
 * it does not, this hook notices that an object was unloaded. dlopen must not have a hook: it
 * searches the RUNPATH of the object that calls it, and with a hook that object would be the
 * agent. */
int dlclose(void *handle) {
    ag_libc_start();
    const int r = ag_next.dlclose(handle);
    ag_recorder_images_changed();
    return r;
}
