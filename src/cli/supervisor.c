/* supervisor.c: what `run` does while its program runs. `run` is the parent of the program, but
 * terminal, shell and program should behave as without `run`.
 *
 * Signals. The terminal sends a signal to the whole process group, so the program has received the
 * signal already, and `run` ignores it. (Such a signal has the si_code SI_KERNEL.) A signal from
 * another process is meant for the program, so `run` passes it on, with the value of sigqueue(3).
 * `run` also passes on the signal of a timer that was set before `run` was executed (alarm(2)). A
 * signal from the program or one of its descendants is not passed on: such a signal, for example of
 * kill(0, ...), has reached the program, too. SIGSEGV, SIGBUS and SIGFPE are not passed on, because
 * the kernel sends them for faults of `run` itself. When the program has stopped, `run` stops
 * itself, so that the shell sees what it would see without `run`. A program may ignore SIGTSTP
 * (^Z), or restore the terminal before it stops, so SIGTSTP alone does not stop `run`. With
 * --live, `run` gives the terminal back before it stops itself.
 *
 * The writer is the process that makes the traces from the live segment, the memory that is shared
 * with the program. After SIGTERM or SIGINT, the writer ends only when the program has ended. For
 * example, when the machine shuts down, the writer still has to record the end of the program. If
 * the writer is killed, `run` starts another writer, which finds the state of the recording in the
 * live segment. If the writer fails, it is not replaced: the program continues, and `allogram
 * check` later completes the trace from the live segment. */
#include "cli/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/compiler.h"
#include "cli/background.h"
#include "cli/urgency.h"
#include "remote/remote_process.h"

enum {
    MAX_RESTARTS = 100,
    /* how long to wait for the writer after the child has ended; the writer needs some
     * milliseconds, or longer if it has to read a large trace again to complete it */
    REPORT_PATIENCE_MS = 120 * 1000,
    /* How long to wait for the end of the writer after its report that the session is over; the
     * writer needs some milliseconds. If a process has joined the session after the report, the
     * writer goes on until that process ends. */
    WRITER_PATIENCE_MS = 1000,
    STOP_SETTLES_MS = 20,
};

static const int handled[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGUSR1,
                              SIGUSR2, SIGALRM, SIGCONT, SIGWINCH};
/* these signals and the real-time signals are only passed on */
static const int also_passed_on[] = {SIGILL,    SIGTRAP, SIGABRT, SIGPIPE, SIGSTKFLT,
                                     SIGURG,    SIGIO,   SIGPROF, SIGPWR,  SIGXCPU,
                                     SIGVTALRM, SIGSYS,  SIGXFSZ, SIGTSTP};

void ag_supervisor_step_back(const struct ag_supervisor *supervisor, bool is_quiet) {
    int keep[AG_SESSION_MAX_DESCRIPTORS + 2 + AG_LIVE_DESCRIPTORS];
    size_t count = ag_session_descriptors(supervisor->session, keep);
    keep[count++] = supervisor->report_fd;
    keep[count++] = supervisor->signal_fd;
    count += supervisor->live ? ag_live_descriptors(supervisor->live, keep + count) : 0;
    ag_background_close_all_but(keep, count);
    /* if the program's output is a pipe, its reader waits until this process, too, has closed the
     * pipe */
    ag_background_replace_by_null(STDIN_FILENO, is_quiet ? STDERR_FILENO : STDOUT_FILENO);
}

/* ---- the writer ---- */

static void ask_to_end(int unused) {
    (void)unused;
    ag_writer_ask_to_end();
}

static _Noreturn void run_writer(struct ag_session *session, int report_fd) {
    static const int ignored[] = {SIGHUP,  SIGQUIT, SIGPIPE, SIGXFSZ, SIGUSR1,
                                  SIGUSR2, SIGALRM, SIGTSTP, 0};
    const struct sigaction ask = {.sa_handler = ask_to_end};
    (void)sigaction(SIGINT, &ask, NULL); /* cannot fail for these signals */
    (void)sigaction(SIGTERM, &ask, NULL);
    ag_urgency_allow();
    ag_background_outlive_memory();
    ag_background_begin("allogram-writer", ignored);
    struct rlimit files = {0};
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max; /* the writer opens four files for each recorded process */
        /* if the limit is reached, some processes have no trace, which `run` reports */
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    ag_background_replace_by_null(STDIN_FILENO, STDERR_FILENO);
    int keep[AG_SESSION_MAX_DESCRIPTORS + 1];
    size_t count = ag_session_descriptors(session, keep);
    keep[count++] = report_fd;
    ag_background_close_all_but(keep, count);
    /* so that the writer's current folder does not prevent that a file system is unmounted; all
     * paths that the writer uses are absolute */
    (void)!chdir("/");
    _exit(ag_writer_run(session, report_fd) < 0);
}

int ag_supervisor_start_writer(struct ag_supervisor *supervisor) {
    int report[2];
    if (pipe2(report, O_CLOEXEC) < 0) {
        return -errno;
    }
    const pid_t pid = fork();
    if (pid == 0) {
        run_writer(supervisor->session, report[1]);
    }
    const int error = errno;
    (void)close(report[1]); /* this process wrote nothing, so close loses nothing */
    if (pid < 0) {
        (void)close(report[0]);
        return -error;
    }
    supervisor->writer = pid;
    supervisor->report_fd = report[0];
    supervisor->report_bytes = 0;
    return 0;
}

static void writer_ended(struct ag_supervisor *supervisor, int status) {
    supervisor->writer = 0;
    const bool was_killed = WIFSIGNALED(status);
    if (supervisor->report_bytes == sizeof(supervisor->report) || !was_killed ||
        supervisor->n_restarts++ >= MAX_RESTARTS) {
        /* the writer has finished, or it failed; another writer would fail for the same reason */
        return;
    }
    (void)close(supervisor->report_fd); /* only read from */
    supervisor->report_fd = -1;
    (void)ag_supervisor_start_writer(
        supervisor); /* on failure there is no writer, and the events stay in the live segment */
}

bool ag_supervisor_read_report(struct ag_supervisor *supervisor) {
    uint8_t *bytes = (uint8_t *)&supervisor->report;
    const ssize_t n = read(supervisor->report_fd, bytes + supervisor->report_bytes,
                           sizeof(supervisor->report) - supervisor->report_bytes);
    supervisor->report_bytes += n > 0 ? (size_t)n : 0;
    return (n > 0 || (n < 0 && errno == EINTR)) &&
           supervisor->report_bytes < sizeof(supervisor->report);
}

/* ---- the child ---- */

static void sleep_ms(long ms) {
    const struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL); /* a signal may end the wait early */
}

void ag_supervisor_stop(const struct ag_supervisor *supervisor, int number) {
    sigset_t set, before;
    if (supervisor->live) {
        ag_live_leave(supervisor->live);
    }
    (void)sigemptyset(&set);
    (void)sigaddset(&set, number);
    /* raised while it is blocked: if the terminal sent the same signal, the two count as one */
    (void)raise(number);
    (void)sigprocmask(SIG_UNBLOCK, &set, &before); /* cannot fail */
    (void)sigprocmask(SIG_SETMASK, &before, NULL); /* cannot fail */
    if (supervisor->live) {
        ag_live_return(supervisor->live);
    }
}

/* Whether the child was continued. */
static bool child_continued(const struct ag_supervisor *supervisor) {
    sleep_ms(STOP_SETTLES_MS); /* a SIGCONT to the process group may still be on its way */
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)supervisor->child, &info, WCONTINUED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid != 0;
}

/* Called after a signal stopped the program: stops `run` by the same signal. In a process group
 * that no shell controls (an orphaned one), only SIGSTOP stops a process. Then SIGTSTP does not
 * stop `run`, and the program continues, as it would without `run`. */
static void child_stopped(const struct ag_supervisor *supervisor, int number) {
    if (child_continued(supervisor)) {
        return;
    }
    ag_supervisor_stop(supervisor, number);
    /* The SIGCONT that continued `run` was meant for the program. The program must get it once. */
    const struct timespec at_once = {0};
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCONT);
    (void)sigtimedwait(&set, NULL, &at_once); /* fails if there is none */
    if (!child_continued(supervisor)) {
        (void)kill(supervisor->child, SIGCONT);
    }
}

/* Returns the status in the encoding of wait(2). */
static int status_of(const siginfo_t *info) {
    enum { CORE_DUMPED = 0x80 };
    return info->si_code == CLD_EXITED
               ? info->si_status << 8
               : info->si_status | (info->si_code == CLD_DUMPED ? CORE_DUMPED : 0);
}

/* Checks whether the child has stopped or ended. Does not reap a child that has ended: as long as
 * the child is a zombie, the writer can read its data from the kernel. ag_supervisor_watch reaps
 * the child. */
static void look_at_child(struct ag_supervisor *supervisor) {
    siginfo_t info = {0};
    struct rusage usage = {0};
    if (waitid(P_PID, (id_t)supervisor->child, &info, WSTOPPED | WNOHANG) == 0 &&
        info.si_pid != 0) {
        child_stopped(supervisor, info.si_status);
    }
    /* the system call is used because waitid of glibc does not return the resource usage */
    info.si_pid = 0;
    if (syscall(SYS_waitid, P_PID, supervisor->child, &info, WEXITED | WNOHANG | WNOWAIT, &usage) ==
            0 &&
        info.si_pid != 0) {
        supervisor->wait_status = status_of(&info);
        supervisor->child_ended = true;
        ag_session_child_ended(supervisor->session, (uint32_t)supervisor->child,
                               supervisor->wait_status, (uint64_t)usage.ru_maxrss);
    }
}

void ag_supervisor_look_at_writer(struct ag_supervisor *supervisor) {
    int status = 0;
    if (supervisor->writer != 0 &&
        waitpid(supervisor->writer, &status, WNOHANG) == supervisor->writer) {
        writer_ended(supervisor, status);
    }
}

static void reap_child(struct ag_supervisor *supervisor) {
    if (!supervisor->child_ended) {
        look_at_child(supervisor);
    }
    ag_supervisor_look_at_writer(supervisor);
}

/* Whether PID is the child or a descendant of the child. */
static bool is_descendant(const struct ag_supervisor *supervisor, pid_t pid) {
    enum { MAX_GENERATIONS = 64 };
    for (int i = 0; i < MAX_GENERATIONS && pid > 1; i++) {
        if (pid == supervisor->child) {
            return true;
        }
        pid = ag_remote_process_parent(pid);
    }
    return false;
}

static bool requests_dump(const struct ag_supervisor *supervisor, int number) {
    for (size_t i = 0; i < supervisor->n_dumps; i++) {
        if (supervisor->dumps[i].kind == AG_DUMP_SIGNAL &&
            supervisor->dumps[i].every == (uint64_t)number) {
            return ag_session_requests(supervisor->session) != NULL;
        }
    }
    return false;
}

uint64_t ag_supervisor_now_ms(void) {
    return ag_monotonic_ns() / 1000000;
}

/* Whether the signal must not be passed on: it was sent to the program, too, or this process caused
 * the signal itself (SIGPIPE, SIGXFSZ). */
static bool is_not_for_program(const struct ag_supervisor *supervisor,
                               const struct signalfd_siginfo *info) {
    const bool is_of_timer =
        info->ssi_signo == SIGALRM || info->ssi_signo == SIGVTALRM || info->ssi_signo == SIGPROF;
    return info->ssi_code == SI_KERNEL ? !is_of_timer
                                       : (pid_t)info->ssi_pid == getpid() /* SIGPIPE, SIGXFSZ */ ||
                                             is_descendant(supervisor, (pid_t)info->ssi_pid);
}

static void pass_on(const struct ag_supervisor *supervisor, const struct signalfd_siginfo *info) {
    const union sigval value = {.sival_ptr = (void *)(uintptr_t)info->ssi_ptr};
    /* errors are ignored, because the child may have ended meanwhile */
    if (info->ssi_code != SI_QUEUE ||
        /* if no more signals can be queued, only the value is lost */
        (sigqueue(supervisor->child, (int)info->ssi_signo, value) < 0 && errno == EAGAIN)) {
        (void)kill(supervisor->child, (int)info->ssi_signo);
    }
}

static void handle_signal(struct ag_supervisor *supervisor, const struct signalfd_siginfo *info) {
    const int number = (int)info->ssi_signo;
    if (number == SIGCHLD) {
        reap_child(supervisor);
    } else if (requests_dump(supervisor, number)) {
        atomic_fetch_add_explicit(&ag_session_requests(supervisor->session)->n_signals, 1,
                                  memory_order_relaxed);
    } else if (supervisor->times && number == supervisor->times->signal) {
        ag_recording_times_toggle(supervisor->times, supervisor->session, ag_supervisor_now_ms());
    } else if (supervisor->child_ended) {
        supervisor->gave_up |= number == SIGINT || number == SIGTERM ||
                               (number == SIGHUP && !ag_background_ignores_hangup());
    } else if (!is_not_for_program(supervisor, info)) {
        pass_on(supervisor, info);
    }
}

int ag_supervisor_take_signals(struct ag_supervisor *supervisor, enum ag_taken_signals which) {
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGCHLD);
    for (size_t i = 0; i < AG_ARRAY_SIZE(handled); i++) {
        (void)sigaddset(&set, handled[i]);
    }
    if (supervisor->live) {
        (void)sigaddset(&set, SIGTSTP);
    }
    for (size_t i = 0; which == AG_SIGNALS_FOR_CHILD && i < AG_ARRAY_SIZE(also_passed_on); i++) {
        (void)sigaddset(&set, also_passed_on[i]);
    }
    for (int i = SIGRTMIN; which == AG_SIGNALS_FOR_CHILD && i <= SIGRTMAX; i++) {
        (void)sigaddset(&set, i);
    }
    const struct sigaction ignore = {.sa_handler = SIG_IGN}, usual = {.sa_handler = SIG_DFL};
    /* The next two calls cannot fail. The second is needed because this process may have inherited
     * that SIGCHLD is ignored. */
    (void)sigaction(SIGPIPE, &ignore, NULL);
    (void)sigaction(SIGCHLD, &usual, NULL);
    if (sigprocmask(SIG_BLOCK, &set, NULL) < 0) {
        return -errno;
    }
    supervisor->signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return supervisor->signal_fd < 0 ? -errno : 0;
}

bool ag_supervisor_watch(struct ag_supervisor *supervisor) {
    uint64_t ended_ms = 0, over_ms = 0; /* when the child ended, and when the session was over; 0:
                                         * not yet */
    reap_child(supervisor);             /* finds children that ended before signal_fd was opened */
    while (!supervisor->gave_up) {
        const bool has_report = supervisor->report_bytes == sizeof(supervisor->report);
        const bool may_come = supervisor->report_fd >= 0 || supervisor->writer != 0;
        const bool writer_ends = supervisor->report.is_over && supervisor->writer != 0;
        if (supervisor->child_ended && (has_report ? !writer_ends : !may_come)) {
            break;
        }
        int timeout_ms = supervisor->times
                             ? ag_recording_times_step(supervisor->times, supervisor->session,
                                                       ag_supervisor_now_ms())
                             : -1;
        if (supervisor->child_ended) {
            const uint64_t now_ms = ag_supervisor_now_ms();
            ended_ms = ended_ms ? ended_ms : now_ms;
            over_ms = over_ms || !has_report ? over_ms : now_ms;
            const uint64_t give_up_ms =
                over_ms ? over_ms + WRITER_PATIENCE_MS : ended_ms + REPORT_PATIENCE_MS;
            if (now_ms >= give_up_ms) {
                break;
            }
            timeout_ms = (int)(give_up_ms - now_ms);
        }
        const int live_ms = supervisor->live ? ag_live_step(supervisor->live) : -1;
        timeout_ms =
            live_ms >= 0 && (timeout_ms < 0 || live_ms < timeout_ms) ? live_ms : timeout_ms;
        struct pollfd fds[] = {
            {.fd = supervisor->signal_fd, .events = POLLIN},
            {.fd = supervisor->report_fd, .events = POLLIN},
            {.fd = supervisor->live ? supervisor->live->control_fd : -1, .events = POLLIN}};
        if (poll(fds, AG_ARRAY_SIZE(fds), timeout_ms) < 0 && errno != EINTR) {
            break;
        }
        if (fds[1].revents && !ag_supervisor_read_report(supervisor)) {
            (void)close(supervisor->report_fd); /* only read from */
            supervisor->report_fd = -1;
        }
        struct signalfd_siginfo info;
        while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
            handle_signal(supervisor, &info);
        }
    }
    if (supervisor->child_ended) {
        (void)waitpid(supervisor->child, NULL,
                      /* reaps the child, so that a shell's `time` includes its CPU time */
                      WNOHANG);
    }
    return supervisor->report_bytes == sizeof(supervisor->report);
}
