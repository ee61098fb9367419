/* test_process_title.c: reads names and users of processes with unusual names and command lines. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "writer/process_title.h"

/* Makes the kernel show an empty command line for this process, by unmapping the page of its
 * arguments. prctl(PR_SET_MM) can do this too, but needs CAP_SYS_RESOURCE. The caller must not
 * return to main, whose frame may be in the same page. Returns 0 on success. */
static __attribute__((noinline)) int empty_command(void) {
    char text[2048] = "";
    FILE *file = fopen("/proc/self/stat", "re");
    const char *at = file && fgets(text, sizeof text, file) ? strrchr(text, ')') : NULL;
    for (int field = 2; at && field < 48; field++) { /* field 48 is the start of the arguments */
        at = strchr(at + 1, ' ');
    }
    const uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    const uintptr_t page = at ? strtoull(at, NULL, 10) & ~(page_bytes - 1) : 0;
    /* the frames of this function and of its caller must not be in the page */
    const uintptr_t frame = (uintptr_t)__builtin_frame_address(0) + page_bytes;
    return frame >= page ? -1 : munmap((void *)page, page_bytes);
}

/* Starts a process that calls itself NAME. is_empty: its command line is empty. */
static __attribute__((noinline)) pid_t start_here(const char *name, int is_empty) {
    int ready[2];
    char byte = 1;
    assert_int_equal(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        byte = (char)(prctl(PR_SET_NAME, name) != 0 || (is_empty && empty_command() != 0));
        (void)!write(ready[1], &byte, 1);
        for (;;) {
            (void)pause();
        }
    }
    (void)close(ready[1]);
    const ssize_t n = read(ready[0], &byte, 1);
    (void)close(ready[0]);
    if (n != 1 || byte != 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
        skip(); /* the command line could not be emptied */
    }
    return pid;
}

static pid_t start(const char *name, int is_empty) {
    char distance[1 << 16]; /* from the arguments to the frames of the child */
    memset(distance, 0, sizeof distance);
    __asm__ volatile("" : : "r"(distance) : "memory"); /* keeps the array */
    const pid_t pid = start_here(name, is_empty);
    __asm__ volatile("" : : "r"(distance) : "memory"); /* no tail call */
    return pid;
}

static void end(pid_t pid) {
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void names_may_contain_any_characters(void **state) {
    (void)state;
    static const char *const names[] = {"a b", ") R 1 (", "a\nUid:\t7\t7", "123456789012345", "\\"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct ag_process_title title = {.is_known = false};
        const pid_t pid = start(names[i], /* is_empty= */ 0);
        ag_process_title_read((uint32_t)pid, &title);
        assert_true(title.is_known);
        assert_string_equal(title.name, names[i]);
        assert_int_equal(title.user_id, geteuid());
        assert_true(title.command_bytes > 1);
        end(pid);
    }
}

static void a_running_process_may_have_an_empty_command_line(void **state) {
    (void)state;
    struct ag_process_title title = {.is_known = false};
    const pid_t pid = start("empty", /* is_empty= */ 1);
    ag_process_title_read((uint32_t)pid, &title);
    assert_true(title.is_known);
    assert_string_equal(title.name, "empty");
    assert_int_equal(title.user_id, geteuid());
    assert_int_equal(title.command_bytes, 1);
    assert_string_equal(title.command, "");
    end(pid);
}

static void a_process_that_has_ended_keeps_its_title(void **state) {
    (void)state;
    struct ag_process_title title = {.is_known = false};
    siginfo_t info;
    const pid_t pid = start("ended", /* is_empty= */ 0);
    ag_process_title_read((uint32_t)pid, &title);
    const struct ag_process_title before = title;
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    ag_process_title_read((uint32_t)pid, &title); /* the process is a zombie now */
    assert_memory_equal(&title, &before, sizeof title);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    ag_process_title_read((uint32_t)pid, &title);
    assert_memory_equal(&title, &before, sizeof title);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_may_contain_any_characters),
        cmocka_unit_test(a_running_process_may_have_an_empty_command_line),
        cmocka_unit_test(a_process_that_has_ended_keeps_its_title),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
