/* test_writer_kills.c: a process that creates, fills or seals (completes) traces is killed before
 * each of its system calls in turn (ptrace stops it there). After each kill, every file that has
 * the name of a trace is a trace. After the traces are sealed, they must contain every event
 * exactly once.
 *
 * Some tests are repeated with seccomp filters: the first refuses unnamed files, the second also
 * renaming without replacement, the third also links, as some file systems do. The test kills
 * only between system calls: the kernel decides what a kill inside of a system call leaves. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>
#include <linux/filter.h>
#include <linux/seccomp.h>

#include "fake_recorder.h"
#include "format/decode.h"
#include "writer/live_session.h"
#include "writer/trace_file.h"
#include "writer/writer.h"

enum {
    FIRST_BLOCK = 0x10000,
    /* The events of a process fill five buffers in shared memory. The writer writes one chunk
     * (unit) of the trace in the middle, and one at the end. */
    N_BLOCKS = 12000,
    N_PROCESSES = 2,
};

/* ---- a recording of two processes that ended before a writer took their events ---- */

static char folder[64], first_trace[4096];
static struct ag_session *session;

static void end(void) {
    assert_int_equal(fake_session_end(folder, &session), 0);
}

static int play(void) {
    const int slot = fake_process_join(session);
    struct fake_stream stream;
    fake_stream_begin(&stream, session, slot);
    const uint32_t stack = fake_node(session, (uint32_t)slot, 0, AG_ROOT_COMPLETE);
    for (uint64_t n = 0; n < N_BLOCKS; n++) {
        fake_alloc(&stream, FIRST_BLOCK + n * 16, 24, stack);
        fake_free(&stream, FIRST_BLOCK + n * 16);
    }
    return 0;
}

static void wait_for(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static pid_t run_program(void) {
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        _exit(play());
    }
    wait_for(pid);
    return pid;
}

/* ---- features that a file system may lack ---- */

enum lack { NOTHING, UNNAMED_FILES, RENAMING, LINKS, N_LACKS };

static bool refuse(enum lack lack) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_renameat2, lack >= RENAMING ? 7 : 6, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, lack >= LINKS ? 6 : 5, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, lack >= LINKS ? 5 : 4, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, O_TMPFILE & ~O_DIRECTORY, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EINVAL),
    };
    const struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};
    return lack == NOTHING || (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                               prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* ---- killing ---- */

enum { CANNOT_TRACE = 77, CANNOT_REFUSE = 78 };
typedef int work(void);

static int make_first_trace(void) {
    char path[4096], message[512];
    return ag_session_first_trace(session, (uint32_t)getpid(), "fake", path, message);
}

static int collect(void) {
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return ag_writer_run(session, nowhere);
}

static int seal(void) {
    char message[512];
    const int r = ag_writer_seal(first_trace, message);
    return r < 0 ? r : 0;
}

/* Runs WORK in a process of its own and kills it when it enters its system call number N, counted
 * from 1. Returns false when the process ended before that. */
static bool kill_at(work *work, enum lack lack, unsigned n) {
    int status = 0;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0) {
            _exit(CANNOT_TRACE);
        }
        if (!refuse(lack)) {
            _exit(CANNOT_REFUSE);
        }
        (void)raise(SIGSTOP);
        _exit(work() < 0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status)) {
        print_message("# SKIP: on this machine no process may %s\n",
                      WEXITSTATUS(status) == CANNOT_TRACE ? "trace" : "filter system calls");
        skip();
    }
    (void)ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD);
    for (unsigned stops = 0; stops < 2 * n - 1; stops++) { /* stops at entry, exit, entry, ... */
        assert_int_equal(ptrace(PTRACE_SYSCALL, pid, NULL, NULL), 0);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        if (!WIFSTOPPED(status)) {
            assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
            return false;
        }
        assert_int_equal(WSTOPSIG(status), SIGTRAP | 0x80);
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    return true;
}

/* ---- reading the traces ---- */

struct contents {
    uint8_t allocs[N_BLOCKS], frees[N_BLOCKS];
    uint64_t n_traces, n_unfinished, n_live, n_lost;
};

static void count_event(const struct ag_event *event, void *context) {
    struct contents *contents = context;
    const uint64_t n = (event->address - FIRST_BLOCK) / 16;
    if (event->kind == AG_RECORD_ALLOC || event->kind == AG_RECORD_FREE) {
        assert_true(n < N_BLOCKS);
        contents->allocs[n] += event->kind == AG_RECORD_ALLOC;
        contents->frees[n] += event->kind == AG_RECORD_FREE;
    }
}

static void count_record(const struct ag_record *record, void *context) {
    struct contents *contents = context;
    contents->n_lost += record->kind == AG_RECORD_LOST ? record->u.lost.events : 0;
}

static void count_file(const char *path, void *context) {
    struct contents *contents = context;
    contents->n_live += strstr(path, "/.allogram-live.") != NULL;
    if (strstr(path, "/.allogram-")) {
        return;
    }
    const int has_index = fake_trace_read(path, count_event, count_record, contents);
    assert_true(has_index >= 0);
    contents->n_traces++;
    contents->n_unfinished += has_index == 0;
}

static struct contents *read_traces(void) {
    struct contents *contents = calloc(1, sizeof(*contents));
    fake_session_files(folder, count_file, contents);
    return contents;
}

static void expect_all_once(void) {
    struct contents *contents = read_traces();
    for (uint64_t n = 0; n < N_BLOCKS; n++) {
        assert_int_equal(contents->allocs[n], N_PROCESSES);
        assert_int_equal(contents->frees[n], N_PROCESSES);
    }
    assert_int_equal(contents->n_traces, N_PROCESSES);
    assert_int_equal(contents->n_unfinished + contents->n_live + contents->n_lost, 0);
    free(contents);
}

/* ---- tests ---- */

/* Kills WORK at later and later calls, until WORK has sealed all traces before it is
 * killed. */
static void kill_everywhere(work *work, enum lack lack) {
    bool was_killed = true, is_sealed = false;
    for (unsigned n = 1; was_killed && !is_sealed; n++) {
        char message[512];
        assert_int_equal(fake_session_begin(/* max_bytes= */ 0, folder, &session), 0);
        const pid_t pid = run_program();
        assert_int_equal(
            ag_session_first_trace(session, (uint32_t)pid, "fake", first_trace, message), 0);
        ag_session_child_ended(session, (uint32_t)pid, 0, 1000); /* otherwise a writer waits until
                                                                  * `run` reports the end */
        (void)run_program();
        was_killed = kill_at(work, lack, n);
        struct contents *left = read_traces();
        is_sealed = left->n_traces == N_PROCESSES && left->n_unfinished == 0;
        free(left);
        assert_true(seal() >= 0);
        expect_all_once();
        end();
        assert_true(n < 2000);
    }
    assert_true(is_sealed);
}

static void a_writer_that_is_killed_anywhere_loses_no_event(void **state) {
    (void)state;
    kill_everywhere(collect, NOTHING);
}

static void a_writer_without_unnamed_files_that_is_killed_anywhere(void **state) {
    (void)state;
    kill_everywhere(collect, UNNAMED_FILES);
}

static void a_seal_that_is_killed_anywhere_loses_no_event(void **state) {
    (void)state;
    kill_everywhere(seal, NOTHING);
}

static void first_trace_of(enum lack lack) {
    bool was_killed = true;
    for (unsigned n = 1; was_killed; n++) {
        assert_int_equal(fake_session_begin(/* max_bytes= */ 0, folder, &session), 0);
        was_killed = kill_at(make_first_trace, lack, n);
        struct contents *left = read_traces(); /* fails when a file is no trace */
        assert_true(left->n_traces == 1 || was_killed);
        free(left);
        end();
    }
}

static void the_first_trace_is_there_with_its_header_or_not_at_all(void **state) {
    (void)state;
    for (enum lack lack = NOTHING; lack < LINKS; lack++) {
        first_trace_of(lack);
    }
}

/* Each way to create a trace takes the first free name, with mode 0600, and overwrites nothing. */
static void no_way_to_create_a_trace_overwrites_a_file(void **state) {
    (void)state;
    for (enum lack lack = NOTHING; lack < N_LACKS; lack++) {
        char pattern[128], expected[128], path[4096];
        assert_int_equal(fake_session_begin(/* max_bytes= */ 0, folder, &session), 0);
        (void)snprintf(pattern, sizeof(pattern), "%s/t", folder);
        (void)snprintf(expected, sizeof(expected), "%s/t-2", folder);
        assert_int_equal(symlink("/tmp/nobody-made-this", pattern), 0);
        const pid_t pid = fork();
        if (pid == 0) {
            const struct ag_trace_names names = {.program = "fake"};
            const struct ag_trace_header header = {.session = 7};
            struct stat status;
            const int fd = refuse(lack) ? ag_trace_file_create(pattern, &names, &header, path) : -1;
            _exit(fd < 0 || strcmp(path, expected) != 0 || fstat(fd, &status) < 0 ||
                  (status.st_mode & 07777) != 0600 || status.st_nlink != 1);
        }
        wait_for(pid);
        assert_int_equal(unlink(pattern), 0);
        end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_trace_is_there_with_its_header_or_not_at_all),
        cmocka_unit_test(no_way_to_create_a_trace_overwrites_a_file),
        cmocka_unit_test(a_writer_that_is_killed_anywhere_loses_no_event),
        cmocka_unit_test(a_writer_without_unnamed_files_that_is_killed_anywhere),
        cmocka_unit_test(a_seal_that_is_killed_anywhere_loses_no_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
