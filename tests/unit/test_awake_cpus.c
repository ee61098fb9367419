/* test_awake_cpus.c: threads that keep CPUs awake are there, yield to all other threads, and are
 * gone after the end, however often they are started; they are not wanted if all CPUs are busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "awake_cpus.h"

enum { PATIENCE_TRIES = 10000, NAP_US = 1000, CPUS_MOST = 4 };

static int n_before; /* a sanitizer has one of its own, from the first that we make */

/* Our threads but for this one and those before; how many of them give way. */
static int other_threads(int *ret_idle) {
    int count = -n_before;
    *ret_idle = 0;
    DIR *folder = opendir("/proc/self/task");
    assert_non_null(folder);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        const pid_t tid = atoi(entry->d_name);
        if (tid > 0 && tid != gettid()) {
            count++;
            *ret_idle += sched_getscheduler(tid) == SCHED_IDLE;
        }
    }
    (void)closedir(folder);
    return count;
}

/* Until some are there that give way, never more than MOST; or, with 0, until none is left. */
static void await_threads(int most) {
    int n = 0, n_idle = 0;
    for (int i = 0; i < PATIENCE_TRIES; i++) {
        n = other_threads(&n_idle);
        if (most == 0 ? n <= 0 : n_idle > 0) {
            break;
        }
        usleep(NAP_US);
    }
    assert_true(n <= most);
    assert_true(most == 0 || n_idle > 0);
}

static int threads_most(void) {
    cpu_set_t ours;
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    return CPU_COUNT(&ours) < CPUS_MOST ? CPU_COUNT(&ours) : CPUS_MOST;
}

static void they_are_there_until_the_end(void **state) {
    (void)state;
    assert_in_range(ag_awake_cpus_begin(getpid()), 1, threads_most());
    await_threads(threads_most());
    ag_awake_cpus_end();
    await_threads(0);
}

static void nobody_is_left_of_many_turns(void **state) {
    (void)state;
    for (int i = 0; i < 50; i++) {
        (void)ag_awake_cpus_begin(getpid());
        ag_awake_cpus_end();
    }
    await_threads(0);
}

static void a_process_that_is_gone_keeps_nobody_from_it(void **state) {
    (void)state;
    assert_in_range(ag_awake_cpus_begin(INT32_MAX), 1, threads_most());
    await_threads(threads_most());
    ag_awake_cpus_end();
    await_threads(0);
}

static void nothing_is_wanted_where_all_are_busy(void **state) {
    (void)state;
    cpu_set_t ours;
    assert_int_equal(sched_getaffinity(0, sizeof ours, &ours), 0);
    const int n_busy = 2 * CPU_COUNT(&ours); /* and we */
    pid_t *busy = calloc((size_t)n_busy, sizeof *busy);
    assert_non_null(busy);
    for (int i = 0; i < n_busy; i++) {
        busy[i] = fork();
        assert_true(busy[i] >= 0);
        for (volatile bool forever = true; busy[i] == 0 && forever;) {
        }
    }
    const bool are_wanted = ag_awake_cpus_are_wanted();
    for (int i = 0; i < n_busy; i++) {
        assert_int_equal(kill(busy[i], SIGKILL), 0);
        assert_int_equal(waitpid(busy[i], NULL, 0), busy[i]);
    }
    free(busy);
    assert_false(are_wanted);
}

/* Who is not joined is a leak to the thread sanitizer. */
static int wait_for_all(void **state) {
    (void)state;
    ag_awake_cpus_wait();
    return 0;
}

static void *end_at_once(void *argument) {
    return argument;
}

int main(void) {
    pthread_t first;
    int unused;
    assert_int_equal(pthread_create(&first, NULL, end_at_once, NULL), 0);
    assert_int_equal(pthread_join(first, NULL), 0);
    n_before = other_threads(&unused);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(they_are_there_until_the_end),
        cmocka_unit_test(nobody_is_left_of_many_turns),
        cmocka_unit_test(a_process_that_is_gone_keeps_nobody_from_it),
        cmocka_unit_test(nothing_is_wanted_where_all_are_busy),
    };
    return cmocka_run_group_tests(tests, NULL, wait_for_all);
}
