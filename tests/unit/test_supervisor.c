/* test_supervisor.c: how long `allogram run` waits for its writer, the process that makes the
 * traces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/supervisor.h"

/* Stubs of the functions of cli/live.c, which needs most of the program. No supervisor in this test
 * has a screen. */
size_t ag_live_descriptors(const struct ag_live *live, int ret_fds[AG_LIVE_DESCRIPTORS]) {
    (void)live;
    (void)ret_fds;
    abort();
}

int ag_live_step(struct ag_live *live) {
    (void)live;
    abort();
}

void ag_live_leave(struct ag_live *live) {
    (void)live;
    abort();
}

void ag_live_return(struct ag_live *live) {
    (void)live;
    abort();
}

enum { MOST_MS = 20 * 1000 };

/* Starts a process that reports that the session is over, and then goes on for ever, as a writer
 * does if another process has joined the session after the report. */
static pid_t start_writer(int *ret_report_fd) {
    static const struct ag_writer_report report = {.is_over = 1};
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)!write(ends[1], &report, sizeof report);
        (void)alarm(2 * MOST_MS / 1000); /* so that a failed test leaves no process */
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ends[1]);
    *ret_report_fd = ends[0];
    return pid;
}

static void a_writer_that_goes_on_after_its_report_is_not_waited_for(void **state) {
    struct ag_supervisor supervisor = {.child_ended = true};
    (void)state;
    supervisor.writer = start_writer(&supervisor.report_fd);
    assert_int_equal(ag_supervisor_take_signals(&supervisor, AG_SIGNALS_OF_COMMAND), 0);
    const uint64_t begin_ms = ag_supervisor_now_ms();
    assert_true(ag_supervisor_watch(&supervisor)); /* the report is complete */
    assert_true(ag_supervisor_now_ms() - begin_ms < MOST_MS);
    (void)kill(supervisor.writer, SIGKILL);
    (void)waitpid(supervisor.writer, NULL, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_writer_that_goes_on_after_its_report_is_not_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
