/* test_foreign_file.c: a file whose name another process chose is examined before it is opened;
 * only a regular file is opened, and a sparse one is not read as an object file. Below
 * /proc/PID/root, symbolic links are resolved inside the root of that process. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "remote/foreign_file.h"
#include "remote/remote_elf.h"
#include "remote/remote_maps.h"
#include "symbol/elf_file.h"
#include "symbol_fixture.h"

static void nap_ms(long ms) {
    const struct timespec nap = {.tv_nsec = ms * 1000000};
    (void)nanosleep(&nap, NULL);
}

/* Starts a child that opens the pipe for writing (open waits for a reader), and then ends. */
static pid_t begin_writer(const char *path) {
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(open(path, O_WRONLY) < 0);
    }
    assert_true(pid > 0);
    nap_ms(50); /* by now the child probably waits in open; if it does not, the test passes, but
                 * checks less */
    return pid;
}

static void end_writer(pid_t writer, bool *ret_was_woken) {
    nap_ms(50);
    *ret_was_woken = waitpid(writer, NULL, WNOHANG) == writer;
    if (!*ret_was_woken) {
        assert_int_equal(kill(writer, SIGKILL), 0);
        assert_int_equal(waitpid(writer, NULL, 0), writer);
    }
}

static void a_waiting_writer_of_a_pipe_is_not_woken(void **state) {
    struct ag_elf_file file;
    struct ag_remote_elf elf;
    struct stat facts;
    const struct ag_build_id none = {0};
    bool was_woken = true;
    (void)state;
    assert_int_equal(mkfifo("pipe", 0600), 0);
    assert_int_equal(symlink("pipe", "link_to_pipe"), 0);
    const pid_t writer = begin_writer("pipe");
    assert_int_equal(ag_foreign_file_open("pipe", AG_LINKS_FOLLOWED, NULL), -EINVAL);
    assert_int_equal(ag_foreign_file_open("link_to_pipe", AG_LINKS_FOLLOWED, NULL), -EINVAL);
    assert_int_equal(ag_foreign_file_look("pipe", &facts), 0);
    assert_true(S_ISFIFO(facts.st_mode));
    assert_int_equal(ag_elf_file_open("link_to_pipe", &none, NULL, &file), -EINVAL);
    assert_int_equal(ag_remote_elf_open("pipe", &elf), -EINVAL);
    end_writer(writer, &was_woken);
    assert_false(was_woken);
}

static void only_regular_files_are_opened(void **state) {
    struct stat facts;
    (void)state;
    fixture_write("regular", "bytes");
    assert_int_equal(symlink("regular", "link_to_regular"), 0);
    assert_int_equal(ag_foreign_file_open("/dev/null", AG_LINKS_FOLLOWED, NULL), -EINVAL);
    assert_int_equal(ag_foreign_file_open(".", AG_LINKS_FOLLOWED, NULL), -EINVAL);
    assert_int_equal(ag_foreign_file_open("nowhere", AG_LINKS_FOLLOWED, NULL), -ENOENT);
    assert_int_equal(ag_foreign_file_open("link_to_regular", AG_LINK_REFUSED, NULL), -EINVAL);
    const int fd = ag_foreign_file_open("link_to_regular", AG_LINKS_FOLLOWED, &facts);
    assert_true(fd >= 0);
    assert_int_equal(facts.st_size, 5);
    close(fd);
}

static void links_below_another_root_lead_to_its_files(void **state) {
    char path[256], text[16] = "";
    int ready[2];
    (void)state;
    if (geteuid() != 0) {
        print_message("# SKIP: chroot needs root\n");
        skip();
    }
    assert_int_equal(mkdir("root", 0700), 0);
    fixture_write("root/real", "theirs");
    assert_int_equal(symlink("/real", "root/link"), 0);
    assert_int_equal(symlink("../../../../../../../../real", "root/climbing"), 0);
    assert_int_equal(symlink("/proc/self/exe", "root/out"), 0);
    assert_int_equal(pipe(ready), 0);
    const pid_t child = fork();
    if (child == 0) {
        const bool is_in = chroot("root") == 0 && chdir("/") == 0;
        (void)!write(ready[1], is_in ? "y" : "n", 1);
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(ready[0], text, 1), 1);
    assert_int_equal(text[0], 'y');
    static const char *const names[] = {"link", "climbing", "real"};
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof path, "/proc/%d/root/%s", child, names[i]);
        const int fd = ag_foreign_file_open(path, AG_LINKS_FOLLOWED, NULL);
        assert_true(fd >= 0);
        memset(text, 0, sizeof text);
        assert_int_equal(read(fd, text, sizeof text), 6);
        assert_string_equal(text, "theirs");
        close(fd);
    }
    snprintf(path, sizeof path, "/proc/%d/root/out", child);
    const int fd = ag_foreign_file_open(path, AG_LINKS_FOLLOWED, NULL);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    close(ready[0]);
    close(ready[1]);
    assert_int_equal(fd, -ENOENT);
}

static void sparse_files_are_not_read(void **state) {
    struct ag_elf_file file;
    struct ag_remote_elf elf;
    const struct ag_build_id none = {0};
    (void)state;
    fixture_run("cp /proc/self/exe %s", "holes");
    struct stat facts;
    assert_int_equal(ag_foreign_file_look("holes", &facts), 0);
    assert_false(ag_foreign_file_is_sparse(&facts));
    assert_int_equal(truncate("holes", INT64_C(4) << 30), 0);
    assert_int_equal(ag_foreign_file_look("holes", &facts), 0);
    assert_true(ag_foreign_file_is_sparse(&facts));
    fixture_run("truncate -s 1G %s", "one_hole");
    const int fd = ag_foreign_file_open("one_hole", AG_LINKS_FOLLOWED, &facts);
    assert_true(fd >= 0);
    assert_true(ag_foreign_file_is_sparse(&facts));
    close(fd);
    assert_int_equal(ag_elf_file_open("holes", &none, NULL, &file), -EFBIG);
    assert_int_equal(ag_remote_elf_open("holes", &elf), -ENOEXEC);
}

/* Files with one inode number on two devices are different files. */
static void a_mapped_file_is_known_by_device_and_inode(void **state) {
    struct ag_remote_maps maps = {0};
    struct stat own;
    (void)state;
    assert_int_equal(ag_remote_maps_read(&maps, getpid()), 0);
    const struct ag_remote_mapping *mapping = ag_remote_maps_find(&maps, (uintptr_t)nap_ms);
    assert_non_null(mapping);
    assert_int_equal(stat("/proc/self/exe", &own), 0);
    assert_true(ag_foreign_file_is_mapped(&own, getpid(), mapping));
    struct stat other = own;
    other.st_dev = makedev(major(own.st_dev) + 1, minor(own.st_dev) + 1);
    assert_false(ag_foreign_file_is_mapped(&other, getpid(), mapping));
    other = own;
    other.st_ino++;
    assert_false(ag_foreign_file_is_mapped(&other, getpid(), mapping));
    ag_remote_maps_done(&maps);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiting_writer_of_a_pipe_is_not_woken),
        cmocka_unit_test(only_regular_files_are_opened),
        cmocka_unit_test(links_below_another_root_lead_to_its_files),
        cmocka_unit_test(sparse_files_are_not_read),
        cmocka_unit_test(a_mapped_file_is_known_by_device_and_inode),
    };
    return cmocka_run_group_tests(tests, fixture_enter, fixture_leave);
}
