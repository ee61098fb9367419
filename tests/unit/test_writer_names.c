/* test_writer_names.c: the file names of traces; no existing file is overwritten or reached through
 * a link. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "writer/trace_file.h"

static const struct ag_trace_names names = {.program = "/usr/bin/jq", .pid = 4711, .start_s = 99};

static void placeholders_in_names_are_replaced(void **state) {
    (void)state;
    char path[4096];
    assert_int_equal(ag_trace_name_expand("/a/%e.%p.%t.%%.x", &names, path), 0);
    assert_string_equal(path, "/a/jq.4711.99.%.x");
}

static void a_hostile_program_name_stays_in_the_folder(void **state) {
    (void)state;
    const struct ag_trace_names hostile = {.program = "/bin/a b\n\033[2J", .pid = 1};
    char path[4096];
    assert_int_equal(ag_trace_name_expand("/a/%e", &hostile, path), 0);
    assert_string_equal(path, "/a/a_b__[2J");
}

static void a_name_that_is_too_long_is_refused(void **state) {
    (void)state;
    char pattern[5000], path[4096];
    memset(pattern, 'x', sizeof(pattern));
    pattern[sizeof(pattern) - 1] = '\0';
    assert_int_equal(ag_trace_name_expand(pattern, &names, path), -ENAMETOOLONG);
}

/* The name of a file may have 255 bytes. So the name of a trace contains at most 200 bytes of the
 * program's name. */
static void a_long_program_name_leaves_room_for_the_rest(void **state) {
    (void)state;
    char program[256] = {0}, path[4096];
    const struct ag_trace_names longish = {.program = program, .pid = 4194304};
    memset(program, 'x', 255);
    assert_int_equal(ag_trace_name_expand("/a/allogram.%e.%p.allogram", &longish, path), 0);
    assert_int_equal(strlen(path), strlen("/a/allogram..4194304.allogram") + 200);
    assert_non_null(strstr(path, "xx.4194304.allogram"));
    /* a character that would be cut in two is left out whole */
    memcpy(program + 199, "\xc3\xa4", 2);
    assert_int_equal(ag_trace_name_expand("/a/%e", &longish, path), 0);
    assert_int_equal(strlen(path), strlen("/a/") + 199);
}

static void numbers_stand_before_the_extension(void **state) {
    (void)state;
    char path[4096];
    assert_int_equal(ag_trace_name_number("/a.b/c.d.allogram", 1, path), 0);
    assert_string_equal(path, "/a.b/c.d.allogram");
    assert_int_equal(ag_trace_name_number("/a.b/c.d.allogram", 3, path), 0);
    assert_string_equal(path, "/a.b/c.d-3.allogram");
    assert_int_equal(ag_trace_name_number("/a.b/plain", 2, path), 0);
    assert_string_equal(path, "/a.b/plain-2");
    assert_int_equal(ag_trace_name_number("/a.b/.hidden", 2, path), 0);
    assert_string_equal(path, "/a.b/.hidden-2");
}

static void patterns_become_absolute_or_are_refused(void **state) {
    (void)state;
    char pattern[1024], message[512];
    assert_int_equal(ag_trace_pattern_complete("/a/%e", pattern, message), 0);
    assert_string_equal(pattern, "/a/%e");
    assert_int_equal(ag_trace_pattern_complete("x.%p", pattern, message), 0);
    assert_int_equal(pattern[0], '/');
    assert_string_equal(strrchr(pattern, '/'), "/x.%p");
    assert_int_equal(ag_trace_pattern_complete("x.%q", pattern, message), -EINVAL);
    assert_non_null(strstr(message, "%q"));
    assert_int_equal(ag_trace_pattern_complete("x%%.%", pattern, message), -EINVAL);
    assert_string_equal(message, "output x%%.%: ends with a single %; use %%");
    assert_int_equal(ag_trace_pattern_complete("folder/", pattern, message), -EINVAL);
    assert_non_null(strstr(message, "is a folder"));
    assert_int_equal(ag_trace_pattern_complete("", pattern, message), -EINVAL);
    assert_non_null(strstr(message, "empty"));
}

static void a_percent_sign_in_a_folder_name_is_kept(void **state) {
    (void)state;
    char folder[] = "/tmp/test_names_%p_XXXXXX", old[4096], pattern[1024], message[512], path[4096];
    assert_non_null(getcwd(old, sizeof(old)));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(ag_trace_pattern_complete("t.%p", pattern, message), 0);
    assert_int_equal(ag_trace_name_expand(pattern, &names, path), 0);
    assert_int_equal(chdir(old), 0);
    char expected[4096];
    (void)snprintf(expected, sizeof(expected), "%s/t.4711", folder);
    assert_string_equal(path, expected);
    char of_pattern[4096];
    ag_trace_pattern_folder(pattern, of_pattern);
    assert_string_equal(of_pattern, folder);
    assert_int_equal(rmdir(folder), 0);
}

static void a_folder_that_is_too_long_is_refused(void **state) {
    (void)state;
    enum { LEVELS = 5 };
    char folder[] = "/tmp/test_names_XXXXXX", level[251], old[4096], pattern[1024], message[512];
    memset(level, 'x', sizeof(level) - 1);
    level[sizeof(level) - 1] = '\0';
    assert_non_null(getcwd(old, sizeof(old)));
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chdir(folder), 0);
    for (int i = 0; i < LEVELS; i++) {
        assert_int_equal(mkdir(level, 0700) | chdir(level), 0);
    }
    assert_int_equal(ag_trace_pattern_complete("t", pattern, message), -EINVAL);
    assert_non_null(strstr(message, "name too long"));
    for (int i = 0; i < LEVELS; i++) {
        assert_int_equal(chdir("..") | rmdir(level), 0);
    }
    assert_int_equal(chdir(old) | rmdir(folder), 0);
}

static void files_and_links_that_exist_are_left_alone(void **state) {
    (void)state;
    char folder[] = "/tmp/test_names_XXXXXX", pattern[64], path[4096], link_path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(pattern, sizeof(pattern), "%s/t.x", folder);
    (void)snprintf(link_path, sizeof(link_path), "%s/t-2.x", folder);
    assert_int_equal(symlink("/tmp/nobody-made-this", link_path), 0);
    const struct ag_trace_header header = {.session = 1, .pid = 4711};
    const struct ag_trace_header other = {.session = 2, .pid = 4711};
    const int first = ag_trace_file_create(pattern, &names, &header, path);
    assert_true(first >= 0);
    assert_string_equal(path, pattern);
    const int second = ag_trace_file_create(pattern, &names, &other, path);
    assert_true(second >= 0);
    assert_non_null(strstr(path, "/t-3.x"));
    struct stat status;
    assert_int_equal(fstat(second, &status), 0);
    assert_int_equal(status.st_mode & 07777, 0600);
    assert_int_equal(access("/tmp/nobody-made-this", F_OK), -1);
    close(first);
    close(second);
    assert_int_equal(unlink(path) | unlink(pattern) | unlink(link_path) | rmdir(folder), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placeholders_in_names_are_replaced),
        cmocka_unit_test(a_hostile_program_name_stays_in_the_folder),
        cmocka_unit_test(a_name_that_is_too_long_is_refused),
        cmocka_unit_test(a_long_program_name_leaves_room_for_the_rest),
        cmocka_unit_test(numbers_stand_before_the_extension),
        cmocka_unit_test(patterns_become_absolute_or_are_refused),
        cmocka_unit_test(a_percent_sign_in_a_folder_name_is_kept),
        cmocka_unit_test(a_folder_that_is_too_long_is_refused),
        cmocka_unit_test(files_and_links_that_exist_are_left_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
