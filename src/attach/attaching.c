/* attaching.c: loads the agent (the shared library that records allocations) into a running
 * process, switches its hooks on and off, and unloads it, for `attach` and `control`. attaching.h
 * lists the steps.
 *
 * 1. Which thread. One thread has to load the agent. Threads that wait in a system call are tried
 * first, because the program loses no time by their stop; /proc shows which threads wait. Running
 * threads come next. Each is stopped, its stack is checked (safe_point.h), and it is resumed unless
 * it is at a safe point, where it may call the loader. If no thread is at a safe point, all threads
 * are tried again after a pause. The length of the pause is random, so that a periodic thread is
 * not stopped at the same place each time. The first thread that is found at a safe point is
 * resumed, too: the unwind rules of its stack are known from then on, and the next check takes a
 * third of the time.
 *
 * 2. The hooks are jumps at the start of functions. The jumps are written while all threads are
 * stopped, and no thread is in, or will return into, the bytes that are replaced. The bytes are
 * restored under the same conditions. Threads may be inside the agent when the bytes are restored:
 * none of them will return into these bytes.
 *
 * 3. After the hooks are removed, no thread can enter the agent, because the program's data
 * contains no address of the agent. Threads inside the agent leave it before the others are resumed
 * (stop_the_world.c, section 2). Then the agent is unloaded. */
#include "attaching.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent_files.h"
#include "attach_state.h"
#include "base/clock.h"
#include "base/error_message.h"
#include "base/runtimes.h"
#include "remote/glibc_heap.h"
#include "remote/remote_memory.h"
#include "seccomp_filter.h"
#include "symbol_versions.h"

enum {
    /* how long to search for a safe point */
    PATIENCE_NS = 5 * 1000 * 1000 * 1000L - 1,
    /* least number of tries to find a safe point, because a try takes longer on a loaded CPU */
    TRIES_LEAST = 300,
    LEAST_PAUSE_NS = 100 * 1000,
    MOST_PAUSE_NS = 900 * 1000,
    START_NAP_NS = 20 * 1000 * 1000,
    START_TRIES = 5,
    CLAIM_LOOK_MS = 5,
};
/* the search for a safe point ends after this time, even after fewer than TRIES_LEAST tries */
static const uint64_t longest_patience_ns = UINT64_C(30000000000);
/* How long to wait for another allogram that holds the claim. The other one may search for a safe
 * point for longest_patience_ns, wait a minute for dlopen to return (longer if dlopen waits for a
 * device), and try for 10 s to stop all threads. */
static const uint64_t claim_patience_ns = UINT64_C(100000000000);

/* ---- the claim ---- */

int ag_attach_claim(pid_t pid, const struct ag_attach_end *end, int *ret_fd,
                    char ret_message[512]) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/%d/auxv", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const uint64_t end_ns = ag_monotonic_ns() + claim_patience_ns;
    while (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) {
        if (ag_monotonic_ns() > end_ns) {
            (void)close(fd); /* nothing was written */
            return ag_error_message(
                ret_message, -EBUSY,
                "%d: another allogram is attaching to this process or detaching from it; try "
                "again later",
                pid);
        }
        if (ag_attach_end_is_due(end)) {
            (void)close(fd); /* nothing was written */
            return ag_error_message(ret_message, -EINTR,
                                    "%d: interrupted before the recording began", pid);
        }
        (void)poll(NULL, 0, CLAIM_LOOK_MS);
    }
    *ret_fd = fd;
    return 0;
}

void ag_attach_claim_end(int *fd) {
    if (*fd >= 0) {
        (void)flock(*fd, LOCK_UN); /* a child of this process may have inherited the descriptor */
        (void)close(*fd);          /* nothing was written */
    }
    *fd = -1;
}

/* ---- steps ---- */

int ag_attach_interrupted(const struct ag_attach *attach, char message[512]) {
    return ag_error_message(
        message, -EINTR,
        "%d (%s): interrupted by a signal before its threads could be stopped safely",
        attach->process.pid, attach->process.name);
}

void ag_attach_take_time(struct ag_attach *attach) {
    attach->end = (struct ag_attach_end){0};
}

void ag_attach_pause(struct ag_attach *attach) {
    attach->random = attach->random * 1664525 + 1013904223; /* any generator is good enough */
    const struct timespec pause = {.tv_nsec = LEAST_PAUSE_NS +
                                              attach->random % (MOST_PAUSE_NS - LEAST_PAUSE_NS)};
    (void)nanosleep(&pause, NULL);
}

/* ---- checks before attaching ---- */

/* Checks the process, several times if necessary: a program that is just starting maps its libc
 * soon. */
static int attach_check(struct ag_attach *attach, char message[512]) {
    const struct timespec nap = {.tv_nsec = START_NAP_NS};
    int r = ag_attachable_check(&attach->process, &attach->images, &attach->attachable, message);
    for (int i = 0; i < (int)START_TRIES && r == -ENOTSUP && !ag_attach_end_is_due(&attach->end);
         i++) {
        (void)nanosleep(&nap, NULL);
        r = ag_observed_images_refresh(&attach->images) < 0
                ? ag_remote_process_ended_error(&attach->process, message)
                : ag_attachable_check(&attach->process, &attach->images, &attach->attachable,
                                      message);
    }
    return r;
}

/* Does what ag_attach_prepare does, but accepts a process that has an agent already. */
static int attach_prepare(pid_t pid, const struct ag_attach_end *end, struct ag_attach **ret_attach,
                          char ret_message[512]) {
    struct ag_attach *attach = calloc(1, sizeof *attach);
    if (attach == NULL) {
        return ag_error_message(ret_message, -ENOMEM, "cannot attach to process %d: out of memory",
                                pid);
    }
    attach->random = (uint32_t)ag_monotonic_ns();
    attach->end = *end;
    attach->threads.end = &attach->end;
    int r = ag_remote_process_open(pid, &attach->process, ret_message);
    if (r == 0) {
        attach->images.process = &attach->process;
        attach->threads.process = &attach->process;
        if (ag_observed_images_refresh(&attach->images) < 0) {
            r = ag_remote_process_ended_error(&attach->process, ret_message);
        }
    }
    r = r < 0 ? r : attach_check(attach, ret_message);
    if (r == 0 &&
        ag_safe_ground_survey(&attach->ground, &attach->images, attach->attachable.libc) < 0) {
        r = ag_error_message(
            ret_message, -ENOMEM,
            "%d (%s): the code of its allocators and loader has more than %d parts, the most that "
            "attach can check; start it under allogram run",
            pid, attach->process.name, AG_ZONES_MOST);
    }
    if (r < 0) {
        (void)ag_attach_free(attach);
        return r;
    }
    *ret_attach = attach;
    return 0;
}

int ag_attach_prepare(pid_t pid, const struct ag_attach_end *end, struct ag_attach **ret_attach,
                      char ret_message[512]) {
    struct ag_attach *attach = NULL;
    int r = attach_prepare(pid, end, &attach, ret_message);
    if (r < 0) {
        return r;
    }
    r = ag_attachable_check_not_recorded(&attach->process, &attach->images, ret_message);
    if (r < 0) {
        (void)ag_attach_free(attach);
        return r;
    }
    *ret_attach = attach;
    return 0;
}

bool ag_attach_has_late_threads(const struct ag_attach *attach) {
    return attach->threads.n_late > 0;
}

struct ag_attach *ag_attach_free(struct ag_attach *attach) {
    if (attach != NULL) {
        ag_stopped_threads_settle(&attach->threads, /* is_last= */ true);
        ag_safe_ground_done(&attach->ground);
        ag_observed_images_done(&attach->images);
        free(attach);
    }
    return NULL;
}

const char *ag_attach_program(const struct ag_attach *attach) {
    return attach->process.name;
}

/* ---- one thread at a safe point ---- */

/* What a thread is doing. Threads are tried in the order of these values. */
enum eagerness { WAITS_STEADILY, WAITS, RUNS, UNKNOWN_WHAT, EAGERNESSES };

/* Finds what a thread is doing. Reads only /proc, so the thread is not stopped. */
static enum eagerness eagerness_of(pid_t pid, pid_t tid) {
    char text[64];
    if (ag_remote_process_file(pid, tid, "syscall", text, sizeof text) <= 0) {
        return UNKNOWN_WHAT;
    }
    if (strncmp(text, "running", 7) == 0) {
        return RUNS;
    }
    const long call = strtol(text, NULL, 10);
    const bool is_steady = call == SYS_futex || call == SYS_read || call == SYS_poll ||
                           call == SYS_nanosleep || call == SYS_clock_nanosleep;
    /* the thread is blocked outside of a system call, or until its child of vfork has exited or
     * executed a program */
    const bool is_uninterruptible = call < 0 || call == SYS_vfork;
    return is_uninterruptible ? UNKNOWN_WHAT : is_steady ? WAITS_STEADILY : WAITS;
}

/* Tries each thread once. Returns 1 if ret_thread is stopped at a safe point (the caller resumes
 * it), 0 if no thread was at a safe point, or a negative errno. */
static int try_round(struct ag_attach *attach, struct ag_traced_thread *ret_thread,
                     struct ag_attach_times *times, const char **ret_obstacle) {
    static pid_t tids[AG_THREADS_MOST];
    static uint8_t kinds[AG_THREADS_MOST];
    const pid_t pid = attach->process.pid;
    size_t n = ag_remote_process_threads(&attach->process, tids, AG_THREADS_MOST);
    n = n < AG_THREADS_MOST ? n : AG_THREADS_MOST;
    for (int kind = 0; kind < EAGERNESSES; kind++) {
        for (size_t i = 0; i < n && !ag_attach_end_is_due(&attach->end); i++) {
            if (kind == 0) {
                kinds[i] = (uint8_t)eagerness_of(pid, tids[i]);
            }
            if (kinds[i] != kind || ag_stopped_threads_spares(&attach->threads, tids[i])) {
                continue;
            }
            const int r = ag_stopped_threads_one(&attach->threads, tids[i], ret_thread);
            if (r == -EPERM || r == -ETIMEDOUT) {
                *ret_obstacle = r == -EPERM ? "not allowed to be traced" : "waiting in the kernel";
                if (r == -EPERM && ag_remote_process_is_alive(&attach->process)) {
                    return -EPERM;
                }
            }
            if (r < 0) {
                continue;
            }
            times->n_tries++;
            *ret_obstacle = ag_safe_point_obstacle(&attach->ground, ret_thread);
            if (*ret_obstacle == NULL && attach->is_learnt) {
                return 1;
            }
            attach->is_learnt |= *ret_obstacle == NULL;
            const uint64_t stopped_ns = ag_traced_thread_release(ret_thread);
            times->others_ns = stopped_ns > times->others_ns ? stopped_ns : times->others_ns;
        }
    }
    return n == 0 ? -ESRCH : 0;
}

/* Reports why no thread could be used. */
static int no_safe_point_error(const struct ag_attach *attach, const struct ag_attach_times *times,
                               const char *obstacle, const char *remedy, char message[512]) {
    const struct ag_remote_process *process = &attach->process;
    if (ag_remote_process_is_stopped(process)) {
        return ag_error_message(message, -EAGAIN,
                                "%d (%s): is stopped by a signal; resume it (kill -CONT %d) and %s",
                                process->pid, process->name, process->pid, remedy);
    }
    if (obstacle == NULL) {
        return ag_error_message(message, -EAGAIN, "%d (%s): no thread could be stopped; %s",
                                process->pid, process->name, remedy);
    }
    return ag_error_message(message, -EAGAIN,
                            "%d (%s): no thread could call the loader safely in %u tries; the "
                            "last thread was %s; %s",
                            process->pid, process->name, times->n_tries, obstacle, remedy);
}

static int not_allowed_error(const struct ag_attach *attach, char message[512]) {
    return ag_error_message(
        message, -EPERM,
        "%d (%s): the kernel does not allow tracing it: another process traces it, or "
        "kernel.yama.ptrace_scope or a container forbids it; see allogram doctor",
        attach->process.pid, attach->process.name);
}

static int stop_safely(struct ag_attach *attach, struct ag_traced_thread *ret_thread,
                       struct ag_attach_times *times, const char *remedy, char message[512]) {
    const uint64_t begin_ns = ag_monotonic_ns();
    const char *obstacle = NULL;
    int r = 0;
    while (r == 0) {
        if (ag_observed_images_refresh(&attach->images) < 0 ||
            !ag_remote_process_is_alive(&attach->process)) {
            return ag_remote_process_ended_error(&attach->process, message);
        }
        r = try_round(attach, ret_thread, times, &obstacle);
        ag_stopped_threads_settle(&attach->threads, /* is_last= */ false);
        if (r == 0 && ag_attach_end_is_due(&attach->end)) {
            return ag_remote_process_is_stopped(&attach->process)
                       ? no_safe_point_error(attach, times, obstacle, remedy, message)
                       : ag_attach_interrupted(attach, message);
        }
        const uint64_t passed_ns = ag_monotonic_ns() - begin_ns;
        if (r == 0 && passed_ns > PATIENCE_NS &&
            (times->n_tries > TRIES_LEAST || passed_ns > longest_patience_ns)) {
            return no_safe_point_error(attach, times, obstacle, remedy, message);
        }
        if (r == 0) {
            ag_attach_pause(attach);
        }
    }
    if (r == -EPERM) {
        return not_allowed_error(attach, message);
    }
    attach->threads.n_spared = 0;
    return r == 1 ? 0 : ag_remote_process_ended_error(&attach->process, message);
}

/* ---- seccomp filters ---- */

static int filter_error(const struct ag_attach *attach, int r, const char *refused,
                        char message[512]) {
    const struct ag_remote_process *process = &attach->process;
    if (refused != NULL) {
        return ag_error_message(
            message, r,
            "%d (%s): its seccomp filter does not always permit the system call "
            "%s, which the agent makes; use allogram observe %d instead",
            process->pid, process->name, refused, process->pid);
    }
    return ag_error_message(
        message, r,
        "%d (%s): a seccomp filter restricts the system calls of the process, and may kill the "
        "process for a system call of the agent; the filter cannot be read: %s; run as root "
        "outside of containers, or use allogram observe %d",
        process->pid, process->name, strerror(-r), process->pid);
}

/* Checks that the seccomp filters of all threads permit what the agent does. A thread may have
 * filters of its own, and the kernel shows them only to the tracer of the stopped thread, so each
 * thread is stopped for a moment. A new thread has the filters of the thread that made it. */
static int check_filters(struct ag_attach *attach, struct ag_attach_times *times,
                         char message[512]) {
    static pid_t tids[AG_THREADS_MOST];
    size_t n = attach->attachable.has_filter
                   ? ag_remote_process_threads(&attach->process, tids, AG_THREADS_MOST)
                   : 0;
    n = n < AG_THREADS_MOST ? n : AG_THREADS_MOST;
    int r = 0;
    for (size_t i = 0; i < n && r == 0; i++) {
        struct ag_traced_thread thread = {0};
        const char *refused = NULL;
        while (ag_stopped_threads_spares(&attach->threads, tids[i]) &&
               !ag_attach_end_is_due(&attach->end)) {
            ag_attach_pause(attach);
        }
        if (ag_attach_end_is_due(&attach->end)) {
            return ag_attach_interrupted(attach, message);
        }
        r = ag_stopped_threads_one(&attach->threads, tids[i], &thread);
        if (r == -ESRCH) {
            r = 0; /* the thread has ended */
        } else if (r == -EPERM) {
            r = not_allowed_error(attach, message);
        } else if (r < 0) {
            r = ag_error_message(
                message, r,
                "%d (%s): a thread could not be stopped to read its seccomp filter; "
                "try again",
                attach->process.pid, attach->process.name);
        } else {
            r = ag_seccomp_filter_check(tids[i], &refused);
            const uint64_t stopped_ns = ag_traced_thread_release(&thread);
            times->others_ns = stopped_ns > times->others_ns ? stopped_ns : times->others_ns;
            r = r < 0 ? filter_error(attach, r, refused, message) : 0;
        }
    }
    attach->threads.n_spared = 0;
    ag_stopped_threads_settle(&attach->threads, /* is_last= */ false);
    return r;
}

/* ---- loading the agent ---- */

static uint64_t symbol_address(struct ag_remote_elf *elf, const char *name) {
    const struct ag_remote_symbol *symbol = ag_remote_elf_symbol(elf, name);
    return symbol != NULL ? symbol->address : 0;
}

/* Finds the agent's symbols in its file, before any thread is stopped. */
static int look_into_agent(struct ag_attach *attach, const char *agent, char message[512]) {
    struct ag_remote_elf elf = {0};
    const Elf64_Phdr *code = NULL;
    char version[AG_VERSION_NAME_BYTES];
    if (ag_remote_elf_open(agent, &elf) == 0) {
        if (ag_symbol_versions_lack(&elf, attach->attachable.libc->elf, version)) {
            ag_remote_elf_close(&elf);
            return ag_error_message(
                message, -ENOTSUP,
                "%d (%s): its C library is too old for the agent, which needs %s; use allogram "
                "observe %d instead",
                attach->process.pid, attach->process.name, version, attach->process.pid);
        }
        attach->begin_function = symbol_address(&elf, AG_ATTACHMENT_BEGIN);
        attach->end_function = symbol_address(&elf, AG_ATTACHMENT_END);
        attach->variable = symbol_address(&elf, AG_ATTACHMENT_VARIABLE);
        attach->switch_function = symbol_address(&elf, AG_ATTACHMENT_SWITCH);
        code = ag_remote_elf_loaded(&elf, attach->begin_function);
        if (code != NULL) {
            attach->agent = (struct ag_code_range){code->p_vaddr, code->p_vaddr + code->p_memsz};
        }
        ag_remote_elf_close(&elf);
    }
    return code != NULL && attach->begin_function != 0 && attach->end_function != 0 &&
                   attach->variable != 0
               ? 0
               : ag_error_message(message, -ENOEXEC,
                                  "%.300s: is not the agent of this version of allogram", agent);
}

static int read_attachment(struct ag_attach *attach) {
    struct ag_attachment *attachment = &attach->attachment;
    const int r = ag_remote_memory_read(attach->process.pid, attach->bias + attach->variable,
                                        attachment, sizeof *attachment);
    attachment->note[sizeof attachment->note - 1] = '\0';
    const bool is_sane = attachment->n_sites <= AG_ATTACHMENT_SITES &&
                         attachment->n_pages <= AG_ATTACHMENT_PAGES &&
                         attachment->n_quiet <= AG_ATTACHMENT_RANGES;
    return r == 0 && !is_sane ? -EINVAL : r;
}

static uint64_t own_pid_namespace(void) {
    struct stat status;
    return stat("/proc/self/ns/pid", &status) == 0 ? status.st_ino : 0;
}

/* Writes the settings that the agent reads when it begins. */
static int write_agent_settings(struct ag_attach *attach, const struct ag_agent_files *files) {
    struct ag_attachment *attachment = &attach->attachment;
    struct ag_remote_process own;
    char unused[512];
    const int r = read_attachment(attach);
    if (r < 0) {
        return r;
    }
    const char *path = files->are_passed ? "" : files->live;
    if (attachment->version != AG_ATTACHMENT_VERSION ||
        strlen(path) >= sizeof attachment->session_path) {
        return -EINVAL;
    }
    (void)snprintf(attachment->session_path, sizeof attachment->session_path, "%s", path);
    attachment->session_fd = files->theirs[AG_FILE_LIVE];
    attachment->lock_fd = files->theirs[AG_FILE_LIVE_LOCK];
    (void)snprintf(attachment->adapters, sizeof attachment->adapters, "%s", attach->adapters);
    attachment->handle = attach->handle;
    attachment->own_low = attach->ground.libc_allocator.low;
    attachment->own_bytes = attach->ground.libc_allocator.high - attach->ground.libc_allocator.low;
    if (ag_remote_process_open(getpid(), &own, unused) == 0) {
        attachment->tool_pid = own.pid;
        attachment->tool_start_ticks = own.start_ticks;
        attachment->tool_namespace = own_pid_namespace();
    }
    return ag_attach_write_memory(attach->process.pid, attach->bias + attach->variable, attachment,
                                  sizeof *attachment);
}

int ag_attach_begin_call(struct ag_attach *attach, struct ag_traced_thread *thread, bool helps) {
    attach->call.help = helps ? ag_attach_help_call : NULL;
    attach->call.end_help = helps ? ag_attach_interrupt_help : NULL;
    attach->call.context = attach;
    return ag_remote_call_begin(&attach->call, thread, &attach->attachable.functions,
                                attach->attachable.trap,
                                !ag_safe_point_has_room(&attach->ground, thread), &attach->end);
}

/* Reports that dlopen failed, with the text of dlerror. The call of dlerror also removes the error,
 * which the program would otherwise read at its next call. */
static int loader_refused_error(struct ag_attach *attach, const char *agent, char message[512]) {
    const uint64_t dlerror = attach->attachable.dlerror;
    uint64_t text = 0;
    char why[256] = "";
    if (dlerror != 0 && ag_remote_call_make(&attach->call, dlerror, NULL, 0, &text) == 0 &&
        text != 0) {
        /* "" on failure */
        (void)ag_remote_memory_read_text(attach->process.pid, text, why, sizeof why);
    }
    return ag_error_message(
        message, -ENOEXEC,
        "%d (%s): its loader refused %s%.200s; check that user %u can read the file "
        "and that there is room for thread-local variables",
        attach->process.pid, attach->process.name,
        why[0] == '\0' ? "" : "the agent: ", why[0] == '\0' ? agent : why, attach->process.user);
}

/* Makes the thread load the agent and start it. Called between ag_attach_begin_call and
 * ag_remote_call_end. */
static int agent_load(struct ag_attach *attach, struct ag_agent_files *files, char message[512]) {
    struct ag_remote_call *call = &attach->call;
    uint64_t text = 0, handle = 0, result = 0, bias = 0;
    char passed[AG_LOADER_PATH_BYTES];
    int r = files->are_passed ? ag_agent_files_pass(files, attach, passed, message) : 0;
    if (r < 0) {
        return r;
    }
    r = ag_remote_call_text(call, files->are_passed ? passed : files->agent, &text);
    const uint64_t dlopen_arguments[] = {text, attach->attachable.dlopen_flags};
    r = r < 0 ? r
              : ag_remote_call_make(call, attach->attachable.dlopen, dlopen_arguments, 2, &handle);
    if (r == 0 && handle == 0) {
        return loader_refused_error(attach, files->agent, message);
    }
    if (r == 0) {
        attach->handle = handle;
        /* the handle is the address of a struct link_map, which begins with l_addr */
        r = ag_remote_memory_read(attach->process.pid, handle, &bias, sizeof bias);
        attach->bias = bias;
    }
    r = r < 0 ? r : write_agent_settings(attach, files);
    if (r == 0) {
        r = ag_remote_call_make(call, bias + attach->begin_function, NULL, 0, &result);
        if (r != -EINTR) { /* the agent was called, and has closed the live file */
            files->theirs[AG_FILE_LIVE] = files->theirs[AG_FILE_LIVE_LOCK] = -1;
        }
    }
    r = r < 0 ? r : read_attachment(attach);
    if (r == 0 && (int32_t)result < 0) {
        return ag_error_message(message, (int32_t)result, "%d (%s): cannot be recorded: %.200s: %s",
                                attach->process.pid, attach->process.name, attach->attachment.note,
                                strerror(-(int32_t)result));
    }
    return r < 0 ? ag_error_message(message, r, "%d (%s): cannot load the agent and start it: %s",
                                    attach->process.pid, attach->process.name,
                                    r == -EINTR ? "attach was ended before that was complete"
                                    : r == -ETIMEDOUT
                                        ? "a function called in the process did not return in time"
                                        : strerror(-r))
                 : 0;
}

void ag_attach_unload(struct ag_attach *attach) {
    uint64_t unused = 0;
    const uint64_t arguments[] = {attach->handle};
    if (attach->handle != 0 && !attach->call.is_abandoned) {
        (void)ag_remote_call_undo(&attach->call, attach->attachable.dlclose, arguments, 1, &unused);
        attach->handle = 0;
    }
}

const struct ag_runtime *ag_attach_runtime(struct ag_attach *attach, size_t index) {
    size_t n_found = 0;
    for (const struct ag_runtime *row = ag_runtimes; row->name != NULL; row++) {
        bool is_there = false;
        for (size_t i = 0; row->symbol && i < attach->images.n_sorted && !is_there; i++) {
            struct ag_observed_image *image = attach->images.sorted[i];
            const struct ag_remote_symbol *symbol =
                image->is_open ? ag_remote_elf_symbol(image->elf, row->symbol) : NULL;
            is_there = symbol != NULL && symbol->is_function && symbol->address != 0;
        }
        if (is_there && n_found++ == index) {
            return row;
        }
    }
    return NULL;
}

int ag_attach_put_in(struct ag_attach *attach, const char *agent, const char *adapters,
                     const char *session_path, struct ag_attach_times *ret_times,
                     char ret_message[512]) {
    struct ag_traced_thread thread = {0};
    *ret_times = (struct ag_attach_times){0};
    struct ag_agent_files files;
    int r = ag_agent_files_open(&files, attach, agent, session_path, ret_message);
    attach->adapters = adapters;
    r = r < 0 ? r : look_into_agent(attach, agent, ret_message);
    r = r < 0 ? r : check_filters(attach, ret_times, ret_message);
    r = r < 0 ? r
              : stop_safely(attach, &thread, ret_times, "try again, or start it under allogram run",
                            ret_message);
    if (r < 0) {
        ag_agent_files_close(&files);
        return r;
    }
    r = ag_attach_begin_call(attach, &thread, /* helps= */ true);
    if (r == -EINTR) {
        (void)ag_attach_interrupted(attach, ret_message);
    } else if (r < 0) {
        (void)ag_error_message(ret_message, r, "%d (%s): cannot call a function in the process: %s",
                               attach->process.pid, attach->process.name,
                               r == -EFAULT
                                   ? "it executed another program or unmapped the function "
                                     "meanwhile; attach again"
                                   : strerror(-r));
    } else {
        r = agent_load(attach, &files, ret_message);
        if (r < 0) {
            ag_attach_unload(attach);
        }
        ag_agent_files_close_theirs(&files, attach);
        ag_remote_call_end(&attach->call);
    }
    ret_times->one_ns = ag_traced_thread_release(&thread);
    ag_attach_end_help(attach, ret_times);
    ag_agent_files_close(&files);
    if (r == 0) {
        attach->agent.low += attach->bias;
        attach->agent.high += attach->bias;
    }
    return r;
}

/* ---- hooks on ---- */

int ag_attach_heap_before(struct ag_attach *attach, struct ag_glibc_heap *ret_heap) {
    const struct ag_remote_maps *maps = &attach->images.maps;
    int r = ag_observed_images_refresh(&attach->images);
    for (size_t i = 0; r == 0 && i < maps->n; i++) {
        if (strcmp(maps->items[i].path, "[heap]") == 0) {
            return ag_glibc_heap_read(attach->process.pid, maps->items[i].low, maps->items[i].high,
                                      ret_heap);
        }
    }
    return r < 0 ? r : -ENOENT;
}

int ag_attach_switch_on(struct ag_attach *attach, struct ag_attach_times *times,
                        char ret_message[512]) {
    struct ag_code_range ranges[AG_ATTACHMENT_SITES];
    const size_t n_ranges = ag_attach_site_ranges(attach, ranges);
    if (attach->attachment.wants_all_stopped != 0) {
        return ag_attach_runtimes_on(attach, times, ret_message);
    }
    int r = ag_attach_stop_all_outside(attach, ranges, n_ranges, times, ret_message);
    if (r < 0) {
        return r;
    }
    r = ag_attach_write_sites(attach, /* is_on= */ true, ret_message);
    if (r < 0) {
        char unused[512]; /* removes only the jumps that were written */
        (void)ag_attach_write_sites(attach, /* is_on= */ false, unused);
    }
    attach->is_on = attach->was_on = r == 0;
    ag_attach_release_all(attach, times);
    return r;
}

/* ---- hooks off, unloading ---- */

bool ag_attach_code_is_kept(const struct ag_attach *attach) {
    const struct ag_attachment *attachment = &attach->attachment;
    struct ag_remote_piece pieces[AG_ATTACHMENT_SITES];
    uint8_t now[AG_ATTACHMENT_SITES][AG_ATTACHMENT_CODE_BYTES];
    for (uint32_t i = 0; i < attachment->n_sites; i++) {
        pieces[i] = (struct ag_remote_piece){attachment->sites[i].place, now[i], sizeof now[i]};
    }
    if (ag_remote_memory_read_pieces(attach->process.pid, pieces, attachment->n_sites) < 0) {
        return true;
    }
    for (uint32_t i = 0; i < attachment->n_sites; i++) {
        enum { INT3 = 0xcc }; /* a debugger's breakpoint, behind which the jump is executed */
        const uint8_t *wanted = attachment->sites[i].after;
        if ((now[i][0] != wanted[0] && now[i][0] != INT3) ||
            memcmp(now[i] + 1, wanted + 1, AG_ATTACHMENT_CODE_BYTES - 1) != 0) {
            return false;
        }
    }
    return true;
}

bool ag_attach_is_gone(const struct ag_attach *attach) {
    const uint64_t at = attach->bias + attach->variable;
    struct {
        int32_t tool_pid;
        uint64_t tool_start_ticks;
    } now;
    const struct ag_remote_piece pieces[] = {
        {at + offsetof(struct ag_attachment, tool_pid), &now.tool_pid, sizeof now.tool_pid},
        {at + offsetof(struct ag_attachment, tool_start_ticks), &now.tool_start_ticks,
         sizeof now.tool_start_ticks}};
    const int r = ag_remote_memory_read_pieces(attach->process.pid, pieces, 2);
    return r == -EFAULT || r == -ESRCH ||
           (r == 0 && (now.tool_pid != attach->attachment.tool_pid ||
                       now.tool_start_ticks != attach->attachment.tool_start_ticks));
}

void ag_attach_disown(struct ag_attach *attach) {
    struct ag_attachment *attachment = &attach->attachment;
    if (attachment->tool_pid != 0 && !ag_attach_is_gone(attach)) {
        attachment->tool_pid = 0; /* no process has this pid */
        /* if it fails, the process is gone */
        (void)ag_attach_write_memory(attach->process.pid,
                                     attach->bias + attach->variable +
                                         offsetof(struct ag_attachment, tool_pid),
                                     &attachment->tool_pid, sizeof attachment->tool_pid);
    }
}

/* Whether the agent is still loaded in the process. An exec removes the agent. */
static bool is_there(const struct ag_attach *attach) {
    const struct ag_observed_image *image =
        ag_observed_images_find(&attach->images, attach->agent.low);
    const char *slash = image != NULL ? strrchr(image->path, '/') : NULL;
    return slash != NULL && strncmp(slash, "/liballogram-", 13) == 0;
}

static const char agent_stays[] =
    "attach again to remove the agent, which stays in the process and records nothing";

static int take_out(struct ag_attach *attach, struct ag_attach_times *ret_times,
                    char ret_message[512]) {
    struct ag_traced_thread thread = {0};
    uint64_t unused = 0;
    bool has_caller = false;
    *ret_times = (struct ag_attach_times){0};
    if (!ag_remote_process_is_alive(&attach->process) ||
        ag_observed_images_refresh(&attach->images) < 0) {
        return ag_remote_process_ended_error(&attach->process, ret_message);
    }
    if (!is_there(attach)) {
        return ag_error_message(
            ret_message, -ESTALE,
            "%d (%s): executed another program, which is not recorded; attach again to record it",
            attach->process.pid, attach->process.name);
    }
    if (attach->attachment.wants_all_stopped != 0) {
        return ag_attach_runtimes_off(attach, ret_times, ret_message);
    }
    int r = 0;
    if (attach->was_on) {
        r = ag_attach_leave(attach, ret_times, ret_message);
        if (r < 0) {
            return r;
        }
        has_caller = ag_attach_take_caller(attach, &thread);
        if (!has_caller) {
            ag_attach_release_all(attach, ret_times);
        }
    }
    r = has_caller ? 0 : stop_safely(attach, &thread, ret_times, agent_stays, ret_message);
    if (r < 0) {
        return r;
    }
    r = ag_attach_begin_call(attach, &thread, /* helps= */ true);
    r = r < 0 ? r
              : ag_remote_call_undo(&attach->call, attach->bias + attach->end_function, NULL, 0,
                                    &unused);
    if (r == 0) {
        ag_attach_unload(attach);
    }
    if (attach->call.thread != NULL) { /* ag_attach_begin_call succeeded */
        ag_remote_call_end(&attach->call);
        r = (r == -EINTR || r == 0) && attach->call.is_abandoned ? -ETIMEDOUT : r;
    }
    ret_times->one_ns = ag_traced_thread_release(&thread);
    ag_attach_end_help(attach, ret_times);
    if (r == -EINTR) {
        return ag_attach_interrupted(attach, ret_message);
    }
    return r < 0 ? ag_error_message(ret_message, r, "%d (%s): cannot unload the agent: %s",
                                    attach->process.pid, attach->process.name, strerror(-r))
                 : 0;
}

void ag_attach_turn_off(const struct ag_attach *attach) {
    const struct ag_attachment *attachment = &attach->attachment;
    if (attach->handle != 0 && attachment->state != 0 && !ag_attach_is_gone(attach)) {
        /* if it fails, the process is gone */
        (void)ag_attach_write_memory(attach->process.pid, attachment->state, &attachment->off_value,
                                     sizeof attachment->off_value);
    }
}

int ag_attach_take_out(struct ag_attach *attach, struct ag_attach_times *ret_times,
                       char ret_message[512]) {
    attach->end.is_leaving = true;
    const int r = take_out(attach, ret_times, ret_message);
    ag_stopped_threads_settle(&attach->threads, /* is_last= */ false);
    ag_stopped_threads_reap(&attach->threads);
    if (r < 0 && r != -ESRCH && r != -ESTALE) {
        ag_attach_turn_off(attach);
    }
    return r;
}

/* ---- the agent of another tool ---- */

/* Whether the allogram that attached the agent still runs. Also true if that allogram is or was in
 * another PID namespace (another container), where this process cannot look for it. */
static bool is_accompanied(const struct ag_attachment *attachment) {
    struct ag_remote_process tool;
    char unused[512];
    if (attachment->tool_pid != 0 && attachment->tool_namespace != own_pid_namespace()) {
        return true;
    }
    return ag_remote_process_open(attachment->tool_pid, &tool, unused) == 0 &&
           tool.start_ticks == attachment->tool_start_ticks;
}

/* Takes over an agent that another allogram loaded. Returns 0; 1 if the agent has to stay, because
 * that allogram still runs or the agent is of another version; or a negative errno. */
static int agent_adopt(struct ag_attach *attach, const struct ag_observed_image *image,
                       char message[512]) {
    const struct ag_attachment *attachment = &attach->attachment;
    uint8_t now[AG_ATTACHMENT_CODE_BYTES];
    int r = look_into_agent(attach, image->place, message);
    if (r < 0) {
        return r;
    }
    attach->bias = image->bias;
    attach->agent.low += attach->bias;
    attach->agent.high += attach->bias;
    r = read_attachment(attach);
    if (r < 0 || attachment->version != AG_ATTACHMENT_VERSION || attachment->handle == 0 ||
        is_accompanied(attachment)) {
        return 1;
    }
    attach->handle = attachment->handle;
    attach->was_on = true;
    attach->is_on = attachment->n_sites > 0 &&
                    ag_remote_memory_read(attach->process.pid, attachment->sites[0].place, now,
                                          sizeof now) == 0 &&
                    memcmp(now, attachment->sites[0].after, sizeof now) == 0;
    return 0;
}

/* Whether the process has an agent. A cheap check, because nearly every process has none. */
static bool has_agent(pid_t pid) {
    struct ag_remote_maps maps = {0};
    bool has = false;
    if (ag_remote_maps_read(&maps, pid) == 0) {
        for (size_t i = 0; i < maps.n && !has; i++) {
            has = strstr(maps.items[i].path, "/liballogram-attached") != NULL;
        }
    }
    ag_remote_maps_done(&maps);
    return has;
}

int ag_attach_clean_up(pid_t pid, const struct ag_attach_end *end, char ret_message[512]) {
    struct ag_attach *attach = NULL;
    struct ag_attach_times times = {0};
    int r = has_agent(pid) ? attach_prepare(pid, end, &attach, ret_message) : 0;
    if (r < 0 || attach == NULL) {
        return r;
    }
    const struct ag_observed_image *image = ag_attachable_agent(&attach->images);
    if (image == NULL || image->place == NULL) {
        r = 0;
    } else {
        r = agent_adopt(attach, image, ret_message);
        if (r == 1) {
            r = ag_attachable_check_not_recorded(&attach->process, &attach->images, ret_message);
        } else if (r == 0 && (r = check_filters(attach, &times, ret_message)) == 0) {
            r = ag_attach_take_out(attach, &times, ret_message);
            r = r < 0 ? r : 1;
        }
    }
    (void)ag_attach_free(attach);
    return r;
}
