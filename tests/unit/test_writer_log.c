/* test_writer_log.c: reads the kernel's messages about processes that it killed for lack of
 * memory, as /dev/kmsg has them, also with hostile names of programs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "writer/kernel_log.h"

static struct ag_kernel_log log_of(const char *const *records) {
    struct ag_kernel_log log = {.fd = -1};
    for (; *records; records++) {
        ag_kernel_log_take(&log, *records);
    }
    return log;
}

#define SIZES \
    " total-vm:43292kB, anon-rss:32512kB, file-rss:6596kB, shmem-rss:4kB, UID:0 pgtables:1kB"

static void a_kill_at_the_limit_of_a_cgroup(void **state) {
    (void)state;
    const char *const records[] = {
        "6,1,100,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
        "oom_memcg=/a,b,task_memcg=/a,b/c,task=x,pid=7,uid=0",
        "3,2,110,-;Memory cgroup out of memory: Killed process 7 (x)" SIZES, NULL};
    struct ag_kernel_log log = log_of(records);
    const struct ag_kernel_log_kill *kill = ag_kernel_log_find(&log, 7, 0);
    assert_non_null(kill);
    assert_int_equal(kill->reason, AG_KILL_REASON_CGROUP);
    assert_string_equal(kill->cgroup, "/a,b");
    assert_int_equal(kill->anonymous_bytes, 32512 * 1024);
    assert_int_equal(kill->file_bytes, 6596 * 1024);
    assert_int_equal(kill->shmem_bytes, 4 * 1024);
    assert_null(ag_kernel_log_find(&log, 8, 0));
    assert_null(ag_kernel_log_find(&log, 7, 111)); /* an earlier process with this number */
}

static void a_kill_on_a_machine_without_memory(void **state) {
    (void)state;
    const char *const records[] = {
        "6,1,100,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,"
        "global_oom,task_memcg=/a,task=x,pid=7,uid=0",
        "3,2,110,-;Out of memory: Killed process 7 (x)" SIZES,
        /* without the first line, which the kernel leaves out if there are many kills */
        "3,3,120,-;Out of memory: Killed process 8 (y)" SIZES,
        "3,4,130,-;Memory cgroup out of memory: Killed process 9 (z)" SIZES, NULL};
    struct ag_kernel_log log = log_of(records);
    assert_int_equal(ag_kernel_log_find(&log, 7, 0)->reason, AG_KILL_REASON_MACHINE);
    assert_int_equal(ag_kernel_log_find(&log, 8, 0)->reason, AG_KILL_REASON_MACHINE);
    assert_int_equal(ag_kernel_log_find(&log, 9, 0)->reason, AG_KILL_REASON_CGROUP);
    assert_string_equal(ag_kernel_log_find(&log, 9, 0)->cgroup, "");
}

/* A program chooses its own name, and a privileged process may write to the kernel's log. Neither
 * may pass for a message of the kernel. */
static void forged_messages_are_not_believed(void **state) {
    (void)state;
    const char *const records[] = {
        "6,1,100,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/a,task_memcg=/a,"
        "task=x,pid=9,uid=1,pid=7,uid=0",
        "3,2,110,-;Memory cgroup out of memory: Killed process 7 (x) anon-rss:1kB)" SIZES,
        "11,3,120,-;Out of memory: Killed process 8 (y)" SIZES, /* facility 1: a user's message */
        "6,4,130,-;driver: Killed process 8 (y)" SIZES,
        "6,5,140,-;oom-kill:",
        "3,6,150,-;Out of memory: Killed process ",
        "3,7,160,-",
        "",
        NULL};
    struct ag_kernel_log log = log_of(records);
    const struct ag_kernel_log_kill *kill = ag_kernel_log_find(&log, 7, 0);
    assert_non_null(kill);
    assert_string_equal(kill->cgroup, "/a");
    assert_int_equal(kill->anonymous_bytes, 32512 * 1024);
    assert_null(ag_kernel_log_find(&log, 8, 0));
    assert_null(ag_kernel_log_find(&log, 9, 0));
}

static void old_messages_are_ignored(void **state) {
    (void)state;
    struct ag_kernel_log log = {.fd = -1, .not_before_us = 111};
    ag_kernel_log_take(&log, "3,2,110,-;Out of memory: Killed process 7 (x)" SIZES);
    assert_null(ag_kernel_log_find(&log, 7, 0));
}

static void a_gap_ends_at_the_next_message(void **state) {
    (void)state;
    struct ag_kernel_log log = {.fd = -1, .has_gap = true};
    ag_kernel_log_take(&log, "14,7,900,-;written by a user");
    ag_kernel_log_take(&log, "6,8,1000,-;later");
    assert_false(log.has_gap);
    assert_int_equal(log.gap_us, 900);
}

static void only_the_latest_kills_are_kept(void **state) {
    (void)state;
    struct ag_kernel_log log = {.fd = -1};
    char record[256];
    for (unsigned pid = 1; pid <= AG_KERNEL_LOG_KILLS + 1; pid++) {
        (void)snprintf(record, sizeof(record), "3,2,110,-;Out of memory: Killed process %u (x)%s",
                       pid, SIZES);
        ag_kernel_log_take(&log, record);
    }
    assert_null(ag_kernel_log_find(&log, 1, 0));
    assert_non_null(ag_kernel_log_find(&log, 2, 0));
    assert_non_null(ag_kernel_log_find(&log, AG_KERNEL_LOG_KILLS + 1, 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_kill_at_the_limit_of_a_cgroup),
        cmocka_unit_test(a_kill_on_a_machine_without_memory),
        cmocka_unit_test(forged_messages_are_not_believed),
        cmocka_unit_test(old_messages_are_ignored),
        cmocka_unit_test(a_gap_ends_at_the_next_message),
        cmocka_unit_test(only_the_latest_kills_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
