/* observe_live.c: the part of `observe` that serves the screen of --live. */
#include "cli/observe_live.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error_message.h"
#include "cli/message.h"
#include "observe/observation.h"
#include "writer/snapshot.h"
#include "writer/trace_file.h"

int ag_observe_live_open(struct ag_observe_live *observe, char ret_message[512]) {
    sigset_t stop;
    *observe = AG_OBSERVE_LIVE_NONE;
    const int r = ag_live_open(&observe->live, AG_LIVE_OBSERVE, ret_message);
    observe->live.is_quiet = true; /* the result follows */
    if (r < 0) {
        return r;
    }
    (void)sigemptyset(&stop);
    (void)sigaddset(&stop, SIGTSTP);
    (void)sigprocmask(SIG_BLOCK, &stop, NULL);
    observe->stop_fd = signalfd(-1, &stop, SFD_CLOEXEC | SFD_NONBLOCK);
    void *requests = mmap(NULL, sizeof(*observe->requests), PROT_READ | PROT_WRITE,
                          MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (observe->stop_fd < 0 || requests == MAP_FAILED) {
        const int error = errno;
        ag_observe_live_stop(observe);
        return ag_error_message(ret_message, -error, "--live: %s", strerror(error));
    }
    observe->requests = requests;
    return 0;
}

int ag_observe_live_start(struct ag_observe_live *observe, const char *name) {
    return ag_live_start(&observe->live, observe->requests, name);
}

/* ---- the requests of the screen ---- */

static _Noreturn void take_trace(const char *path, struct ag_observation *observation) {
    char pattern[8192], written[4096], message[512];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* cannot fail for a valid signal */
    (void)ag_trace_pattern_escape(path, pattern, sizeof(pattern)); /* the longest path fits */
    _exit(ag_observation_write_trace(observation, pattern, written, message) < 0);
}

static uint64_t cpu_ns(const struct rusage *usage) {
    const struct timeval *user = &usage->ru_utime, *system = &usage->ru_stime;
    return (uint64_t)(user->tv_sec + system->tv_sec) * UINT64_C(1000000000) +
           (uint64_t)(user->tv_usec + system->tv_usec) * UINT64_C(1000);
}

static void serve_request(struct ag_observe_live *observe, struct ag_observation *observation) {
    struct ag_snapshot_requests *requests = observe->requests;
    const bool has_names = ag_observation_find_names(observation);
    if (observe->taker != 0) {
        struct rusage usage = {0};
        if (wait4(observe->taker, NULL, WNOHANG, &usage) == 0) {
            return;
        }
        observe->taker = 0;
        ag_snapshot_request_end(requests, cpu_ns(&usage));
    }
    if (!ag_snapshot_is_requested(requests) || !has_names) {
        return;
    }
    char path[sizeof(requests->path)];
    ag_snapshot_request_begin(requests, ag_observation_facts(observation)->duration_ns, path);
    observe->taker = fork();
    if (observe->taker == 0) {
        take_trace(path, observation);
    }
    if (observe->taker < 0) { /* the screen requests a trace again a second later */
        observe->taker = 0;
        ag_snapshot_request_end(requests, /* cost_ns= */ 0);
    }
}

bool ag_observe_live_tick(struct ag_observe_live *observe, struct ag_observation *observation) {
    struct signalfd_siginfo stop;
    if (read(observe->stop_fd, &stop, sizeof(stop)) == (ssize_t)sizeof(stop)) {
        ag_live_leave(&observe->live);
        (void)raise(SIGSTOP);
        ag_live_return(&observe->live);
    }
    (void)ag_live_step(&observe->live);
    serve_request(observe, observation);
    return observe->live.screen > 0;
}

/* ---- the end ---- */

void ag_observe_live_stop(struct ag_observe_live *observe) {
    if (observe->taker > 0) {
        (void)kill(observe->taker, SIGKILL); /* cannot fail: the child was not reaped */
        (void)waitpid(observe->taker, NULL, 0);
    }
    ag_live_stop(&observe->live);
    ag_descriptor_close(observe->stop_fd);
    if (observe->requests != NULL) {
        (void)munmap(observe->requests, sizeof(*observe->requests)); /* cannot fail */
    }
    *observe = AG_OBSERVE_LIVE_NONE;
}

void ag_observe_live_abandon(void *observe) {
    ag_live_remove_files(&((struct ag_observe_live *)observe)->live);
}
