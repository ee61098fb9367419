/* test_cgroup_memory.c: finds the cgroup that accounts the memory of a process, and reads its
 * limits, in hierarchies of version 2 with unusual names and shapes.
 *
 * The test needs root. In a mount namespace of its own it covers /proc/self/cgroup and
 * /proc/self/mountinfo by files with the text of a case; the hierarchy is an ordinary folder, whose
 * name has a blank. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "writer/cgroup_memory.h"

enum { LIMIT = 100000, USED = 60000 };

static char folder[64], top[80];
static bool has_covers;

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Covers /proc/self/NAME by a file. */
static int cover(const char *name) {
    char path[128], place[64];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    (void)snprintf(place, sizeof place, "/proc/%d/%s", getpid(), name);
    write_file(path, "");
    return mount(path, place, NULL, MS_BIND, NULL);
}

static int begin(void **state) {
    (void)state;
    (void)snprintf(folder, sizeof folder, "/tmp/test_cgroup_memory.%d", getpid());
    (void)snprintf(top, sizeof top, "%s/a hierarchy", folder);
    if (mkdir(folder, 0700) < 0 || mkdir(top, 0700) < 0) {
        return -1;
    }
    has_covers = geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
                 mount(NULL, "/", NULL, MS_PRIVATE | MS_REC, NULL) == 0 && cover("cgroup") == 0 &&
                 cover("mountinfo") == 0;
    return 0;
}

static int end(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command);
}

/* Makes a cgroup. The memory controller accounts only cgroups with files. */
static void make_cgroup(const char *name, bool has_files) {
    static const char *const texts[][2] = {
        {"memory.max", "100000\n"},
        {"memory.high", "max\n"},
        {"memory.current", "60000\n"},
        {"memory.pressure", "some avg10=12.50 avg60=3.00 avg300=0.50 total=900\n"},
        {"memory.events", "low 0\nhigh 0\nmax 5\noom 2\noom_kill 1\n"},
        {"cgroup.procs", "1\n"}};
    char path[512];
    (void)snprintf(path, sizeof path, "%s%s", top, name);
    assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0] && has_files; i++) {
        (void)snprintf(path, sizeof path, "%s%s/%s", top, name, texts[i][0]);
        write_file(path, texts[i][1]);
    }
}

/* The process is in the cgroup NAME; the hierarchy is mounted from the cgroup ROOT on. Returns the
 * cgroup that is found. */
static struct ag_cgroup find(const char *name, const char *root) {
    char path[128], text[512];
    struct ag_cgroup cgroup;
    if (!has_covers) {
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/cgroup", folder);
    (void)snprintf(text, sizeof text, "0::%s\n", name);
    write_file(path, text);
    (void)snprintf(path, sizeof path, "%s/mountinfo", folder);
    (void)snprintf(text, sizeof text,
                   "25 1 0:24 / /proc rw - proc proc rw\n"
                   "26 1 0:25 %s %s/a\\040hierarchy rw,nosuid shared:1 - cgroup2 cgroup2 rw\n",
                   root, folder);
    write_file(path, text);
    assert_true(ag_cgroup_find((uint32_t)getpid(), &cgroup));
    assert_true(ag_cgroup_has(&cgroup, (uint32_t)getpid()));
    return cgroup;
}

static void check_accounted_by(const struct ag_cgroup *cgroup, const char *name) {
    struct ag_cgroup_look look;
    char found[AG_CGROUP_PATH_BYTES];
    assert_false(cgroup->is_machine);
    ag_cgroup_level_name(cgroup, 0, found);
    assert_string_equal(found, name);
    ag_cgroup_look(cgroup, &look);
    assert_int_equal(look.limit_bytes[0], LIMIT);
    assert_int_equal(look.used_bytes[0], USED);
    assert_int_equal(look.nearest, 0);
    assert_int_equal(look.counts.kills, 1);
    assert_int_equal(look.counts.limit_hits[0], 2);
    assert_true(ag_cgroup_pressure_percent(cgroup) == 12.5);
}

static void names_may_contain_any_characters(void **state) {
    (void)state;
    static const char *const names[] = {"/plain",     "/a b) (c", "/a:b",
                                        "/..service", "/a - b",   "/\\040"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        make_cgroup(names[i], /* has_files= */ true);
        const struct ag_cgroup cgroup = find(names[i], "/");
        check_accounted_by(&cgroup, names[i]);
    }
}

static void a_cgroup_without_the_controller_is_accounted_by_its_ancestor(void **state) {
    (void)state;
    uint32_t pids[AG_CGROUP_PIDS];
    char parent[AG_CGROUP_PATH_BYTES];
    make_cgroup("/service", /* has_files= */ true);
    make_cgroup("/service/inner", /* has_files= */ false);
    make_cgroup("/service/inner/leaf", /* has_files= */ false);
    const struct ag_cgroup cgroup = find("/service/inner/leaf", "/");
    check_accounted_by(&cgroup, "/service");
    ag_cgroup_level_name(&cgroup, 1, parent);
    assert_string_equal(parent, "/");
    /* the list of the ancestor's own processes lacks those of the cgroups below it */
    assert_int_equal(ag_cgroup_list(&cgroup, pids), AG_CGROUP_PIDS + 1);
}

static void a_cgroup_that_nothing_accounts_is_that_of_the_machine(void **state) {
    (void)state;
    make_cgroup("/free", /* has_files= */ false);
    make_cgroup("/free/leaf", /* has_files= */ false);
    assert_true(find("/free/leaf", "/").is_machine);
    assert_true(find("/", "/").is_machine);
    assert_true(find("/../outside", "/").is_machine);
    assert_true(find("/elsewhere", "/service").is_machine);
}

static void write_size(const char *cgroup, const char *name, const char *text) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s%s/%s", top, cgroup, name);
    write_file(path, text);
}

static void a_cgroup_is_full_at_its_limit_or_at_memory_high(void **state) {
    (void)state;
    struct ag_cgroup_look look;
    make_cgroup("/slice", /* has_files= */ true);
    make_cgroup("/slice/unit", /* has_files= */ true);
    const struct ag_cgroup cgroup = find("/slice/unit", "/");
    write_size("/slice/unit", "memory.high", "80000\n");
    write_size("/slice/unit", "memory.stat", "anon 40000\nfile 20000\nshmem 5000\n");
    ag_cgroup_look(&cgroup, &look);
    assert_int_equal(look.limit_bytes[0], LIMIT);
    assert_int_equal(look.full_bytes[0], 80000);
    assert_int_equal(look.full_bytes[1], LIMIT);
    assert_int_equal(look.nearest, 0);
    assert_int_equal(ag_cgroup_kept_bytes(&look), USED - 15000);
    write_size("/slice/unit", "memory.max", "max\n");
    ag_cgroup_look(&cgroup, &look);
    assert_true(look.limit_bytes[0] == UINT64_MAX);
    assert_int_equal(look.full_bytes[0], 80000);
    assert_int_equal(look.nearest, 0);
    write_size("/slice/unit", "memory.high", "max\n");
    ag_cgroup_look(&cgroup, &look);
    assert_true(look.full_bytes[0] == UINT64_MAX);
    assert_int_equal(look.nearest, 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_may_contain_any_characters),
        cmocka_unit_test(a_cgroup_without_the_controller_is_accounted_by_its_ancestor),
        cmocka_unit_test(a_cgroup_that_nothing_accounts_is_that_of_the_machine),
        cmocka_unit_test(a_cgroup_is_full_at_its_limit_or_at_memory_high),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
