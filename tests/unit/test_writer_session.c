/* test_writer_session.c: whole sessions (recordings), with a simulated recorder (fake_recorder.h)
 * in some processes and, in another process, a writer, which moves their events from shared memory
 * (the live file) to traces. Some of these processes are killed. At the end every event must be in
 * a trace exactly once.
 *
 * All tests share the simulated programs and the functions that count the events of the traces. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_recorder.h"
#include "format/decode.h"
#include "writer/live_session.h"
#include "writer/trace_index.h"
#include "writer/writer.h"
#include "writer/writer_state.h"

/* ---- closed descriptors ---- */

static int n_wrong_closes;

/* Replaces libc's close: counts the calls with a descriptor that is not open. */
int close(int fd) {
    const int r = (int)syscall(SYS_close, fd);
    n_wrong_closes += r < 0 && errno == EBADF;
    return r;
}

/* Creating the live file fails twice: in shared memory, because it cannot be enlarged, and in the
 * folder of the output. The descriptor of the first file must not be closed twice: another thread
 * may have opened a file with this number. */
static void a_session_that_cannot_be_created_closes_its_file_once(void **state) {
    (void)state;
    const struct ag_session_options options = {
        .size = sizeof(options), .output_pattern = "/proc/no_such_folder/%p.allogram"};
    struct ag_session *made = NULL;
    char message[512] = "";
    struct rlimit before, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max};
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    n_wrong_closes = 0;
    assert_int_equal(ag_session_create(&options, &made, message), -ENOENT);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_null(made);
    assert_int_equal(n_wrong_closes, 0);
}

/* ---- a full file system ---- */

static bool is_full;

/* Replaces libc's fallocate, by the name that the writer's library imports. */
int fallocate64(int fd, int mode, off_t offset, off_t bytes) {
    if (is_full) {
        errno = ENOSPC;
        return -1;
    }
    return (int)syscall(SYS_fallocate, fd, mode, offset, bytes);
}

/* Returns the address space of this process. */
static uint64_t mapped_bytes(void) {
    unsigned long long n_pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &n_pages), 1);
    (void)fclose(file); /* was only read */
    return (uint64_t)n_pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The live file is created and mapped in shared memory, and then in the folder of the output, but
 * no memory can be allocated for it. */
static void a_live_file_without_space_is_unmapped(void **state) {
    (void)state;
    const struct ag_session_options options = {.size = sizeof(options),
                                               .output_pattern = "/tmp/%p.allogram"};
    struct ag_session *made = NULL;
    char message[512] = "";
    is_full = true;
    const uint64_t before = mapped_bytes();
    const int r = ag_session_create(&options, &made, message);
    const uint64_t after = mapped_bytes();
    is_full = false;
    assert_int_equal(r, -ENOSPC);
    assert_null(made);
    /* the smallest live file has 224 MiB */
    assert_true(after < before + (UINT64_C(100) << 20));
}

/* ---- live files of killed commands ---- */

/* Creates a session in a process that is then killed. HAD_WRITER: the session names the killed
 * process as its writer; otherwise it never had a writer. */
static void leave_live_file(const struct ag_session_options *options, bool had_writer) {
    const pid_t pid = fork();
    if (pid == 0) {
        struct ag_session *made = NULL;
        char message[512];
        if (ag_session_create(options, &made, message) == 0 && had_writer) {
            atomic_store(&made->header->writer_pid, (uint32_t)getpid());
        }
        (void)kill(getpid(), SIGKILL);
    }
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void count_live(const char *path, void *context) {
    *(int *)context += strstr(path, "/.allogram-live.") != NULL;
}

static int n_live_files(const char *in) {
    int n = 0;
    fake_session_files(in, count_live, &n);
    return n;
}

static void a_live_file_that_nobody_uses_is_removed_by_the_next_session(void **state) {
    char place[] = "/dev/shm/test_live_XXXXXX", pattern[128], message[512];
    struct ag_session *first = NULL, *second = NULL;
    (void)state;
    assert_non_null(mkdtemp(place));
    (void)snprintf(pattern, sizeof(pattern), "%s/%%p.allogram", place);
    const struct ag_session_options attach = {.size = sizeof(attach),
                                              .output_pattern = pattern,
                                              .live_directory = place,
                                              .keeper = AG_KEEPER_ATTACH};
    struct ag_session_options run = attach;
    run.keeper = AG_KEEPER_RUN;
    assert_int_equal(ag_session_create(&attach, &first, message), 0); /* stays in use */
    leave_live_file(&attach, /* had_writer= */ false);
    assert_int_equal(n_live_files(place), 2);
    leave_live_file(&attach, /* had_writer= */ true); /* removes the file of the previous line */
    assert_int_equal(n_live_files(place), 2);
    leave_live_file(&run, /* had_writer= */ false);
    assert_int_equal(ag_session_create(&attach, &second, message), 0);
    /* the two sessions in use, and the two files that may hold events */
    assert_int_equal(n_live_files(place), 4);
    (void)ag_session_close(first);
    assert_int_equal(fake_session_end(place, &second), 0);
}

/* ---- a session in its own folder ---- */

static char folder[64];
static struct ag_session *session;
static pid_t writer;
static int report_fd = -1;

static int begin_with(uint64_t max_bytes) {
    return fake_session_begin(max_bytes, folder, &session);
}

static int begin(void **state) {
    (void)state;
    return begin_with(0);
}

static int end(void **state) {
    (void)state;
    return fake_session_end(folder, &session);
}

static void sleep_us(long us) {
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000};
    (void)nanosleep(&time, NULL); /* waking early does no harm */
}

static void start_writer(void) {
    int report[2];
    if (report_fd >= 0) {
        close(report_fd);
    }
    assert_int_equal(pipe2(report, O_CLOEXEC), 0);
    writer = fork();
    assert_true(writer >= 0);
    if (writer == 0) {
        (void)signal(SIGPIPE, SIG_IGN);
        (void)signal(SIGXFSZ, SIG_IGN);
        _exit(ag_writer_run(session, report[1]) < 0);
    }
    close(report[1]);
    report_fd = report[0];
}

static struct ag_writer_report read_report(void) {
    struct ag_writer_report report;
    size_t at = 0;
    for (ssize_t n = 1; n > 0 && at<sizeof(report); at += n> 0 ? (size_t)n : 0) {
        n = read(report_fd, (uint8_t *)&report + at, sizeof(report) - at);
    }
    assert_int_equal(at, sizeof(report));
    close(report_fd);
    report_fd = -1;
    return report;
}

static void wait_for(pid_t pid) {
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void kill_and_wait(pid_t pid) {
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* ---- programs ---- */

enum {
    FIRST_BLOCK = 0x10000,
    N_THREADS = 4,
    N_PER_THREAD = 30000,
};

/* Plays blocks FIRST_BLOCK + 16 * n for n in [from, from + count), each allocated and freed. */
static void play_blocks(struct fake_stream *stream, uint32_t stack, uint64_t from, uint64_t count) {
    for (uint64_t n = from; n < from + count; n++) {
        fake_alloc(stream, FIRST_BLOCK + n * 16, 24, stack);
        fake_free(stream, FIRST_BLOCK + n * 16);
    }
}

static int play_single(uint64_t count) {
    const int slot = fake_process_join(session);
    struct fake_stream stream;
    fake_stream_begin(&stream, session, slot);
    const uint32_t outer = fake_node(session, (uint32_t)slot, 0, AG_ROOT_COMPLETE);
    play_blocks(&stream, fake_node(session, (uint32_t)slot, 1, outer), 0, count);
    return 0;
}

/* Plays threads in turn: each allocates a block, and the next one frees it. */
static int play_threads(void) {
    const int slot = fake_process_join(session);
    struct fake_stream streams[N_THREADS];
    const uint32_t stack = fake_node(session, (uint32_t)slot, 0, AG_ROOT_CUT);
    for (int i = 0; i < N_THREADS; i++) {
        fake_stream_begin(&streams[i], session, slot);
    }
    for (uint64_t n = 0; n < (uint64_t)N_THREADS * N_PER_THREAD; n++) {
        fake_alloc(&streams[n % N_THREADS], FIRST_BLOCK + n * 16, 100, stack);
        fake_free(&streams[(n + 1) % N_THREADS], FIRST_BLOCK + n * 16);
    }
    return 0;
}

/* Starts a program that first waits for a byte in the pipe `go`, as the child of `allogram run`
 * does. Creates its trace and starts the writer before it sends this byte. */
static pid_t start_program(int (*play)(uint64_t), uint64_t argument) {
    int go[2];
    char path[4096], message[512];
    assert_int_equal(pipe2(go, O_CLOEXEC), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte = 0;
        close(go[1]);
        _exit(read(go[0], &byte, 1) == 1 ? play(argument) : 1);
    }
    close(go[0]);
    assert_int_equal(ag_session_first_trace(session, (uint32_t)pid, "fake", path, message), 0);
    start_writer();
    assert_int_equal(write(go[1], "g", 1), 1);
    close(go[1]);
    return pid;
}

static struct ag_writer_report end_program(pid_t pid) {
    wait_for(pid);
    ag_session_child_ended(session, (uint32_t)pid, 0, 1000);
    return read_report();
}

/* ---- reading the traces ---- */

struct contents {
    uint8_t *allocs, *frees; /* how often block n was allocated and freed */
    uint64_t n_blocks, n_strangers, n_traces, n_unfinished, n_live,
        n_lost;          /* n_strangers: events of other addresses; n_live: live files */
    uint64_t from_index; /* allocated_blocks of the summaries */
    uint64_t n_ends[AG_END_CUT + 1]; /* number of processes, by the way in which they ended */
    uint32_t last_status;            /* the status of wait(2), if it is known */
};

static void count_event(const struct ag_event *event, void *context) {
    struct contents *contents = context;
    const uint64_t n = (event->address - FIRST_BLOCK) / 16;
    if (event->kind != AG_RECORD_ALLOC && event->kind != AG_RECORD_FREE) {
        return;
    }
    if (event->address < FIRST_BLOCK || n >= contents->n_blocks) {
        contents->n_strangers++;
    } else if (event->kind == AG_RECORD_ALLOC) {
        contents->allocs[n]++;
    } else {
        contents->frees[n]++;
    }
}

static void count_record(const struct ag_record *record, void *context) {
    struct contents *contents = context;
    if (record->kind == AG_RECORD_LOST) {
        contents->n_lost += record->u.lost.events;
    } else if (record->kind == AG_RECORD_END) {
        contents->n_ends[record->u.end.how]++;
        contents->last_status =
            record->u.end.wait_status_known ? record->u.end.wait_status : UINT32_MAX;
    } else if (record->kind == AG_RECORD_SUMMARY) {
        contents->from_index += record->u.summary.allocated_blocks;
    }
}

static void count_file(const char *path, void *context) {
    struct contents *contents = context;
    if (strstr(path, ".allogram-live.")) {
        contents->n_live++;
        return;
    }
    const int has_index = fake_trace_read(path, count_event, count_record, contents);
    assert_true(has_index >= 0);
    contents->n_traces++;
    contents->n_unfinished += has_index == 0;
}

static struct contents read_traces(uint64_t n_blocks) {
    struct contents contents = {
        .allocs = calloc(n_blocks, 1), .frees = calloc(n_blocks, 1), .n_blocks = n_blocks};
    fake_session_files(folder, count_file, &contents);
    return contents;
}

static void drop(struct contents *contents) {
    free(contents->allocs);
    free(contents->frees);
}

/* Checks that each block n of [0, each) was allocated and freed `times` times, that the traces have
 * no other event and no loss, that all traces are sealed, and that no live file remains. */
static void expect_blocks(uint64_t each, uint8_t times) {
    struct contents contents = read_traces(each);
    for (uint64_t n = 0; n < each; n++) {
        assert_int_equal(contents.allocs[n], times);
        assert_int_equal(contents.frees[n], times);
    }
    assert_int_equal(contents.n_strangers, 0);
    assert_int_equal(contents.n_unfinished, 0);
    assert_int_equal(contents.n_live, 0);
    assert_int_equal(contents.n_lost, 0);
    assert_int_equal(contents.from_index, each * times);
    drop(&contents);
}

/* Checks that the sums that the writer kept while it wrote equal those that are read back from the
 * trace. */
static void expect_same_sums_read_back(const char *path, const struct ag_writer_report *report) {
    const struct ag_index_facts facts = {0};
    struct ag_blob blob = {0};
    struct ag_index_sums sums;
    assert_int_equal(ag_trace_index_of_file(path, &facts, &blob, &sums), 0);
    assert_int_equal(blob.error, 0);
    ag_blob_done(&blob);
    assert_int_equal(sums.summary.allocated_blocks, report->allocated_blocks);
    assert_int_equal(sums.summary.allocated_bytes, report->allocated_bytes);
    assert_int_equal(sums.summary.in_use_bytes, report->in_use_bytes);
    assert_int_equal(sums.summary.peak_bytes, report->peak_bytes);
}

/* ---- tests ---- */

static void one_thread_is_recorded_whole(void **state) {
    (void)state;
    enum { N = 100000 };
    const pid_t pid = start_program(play_single, N);
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    assert_int_equal(report.registered, 1);
    assert_int_equal(report.allocated_blocks, N);
    assert_int_equal(report.allocated_bytes, 24 * N);
    assert_int_equal(report.peak_bytes, 24);
    assert_int_equal(report.in_use_blocks, 0);
    assert_int_equal(report.lost_events, 0);
    assert_int_equal(report.is_cut, 0);
    expect_same_sums_read_back(report.path, &report);
    expect_blocks(N, 1);
}

static int play_threads_of(uint64_t unused) {
    (void)unused;
    return play_threads();
}

static void threads_that_free_each_others_blocks_leave_no_ghosts(void **state) {
    (void)state;
    const pid_t pid = start_program(play_threads_of, 0);
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    assert_int_equal(report.allocated_blocks, N_THREADS * N_PER_THREAD);
    assert_int_equal(report.in_use_blocks, 0);
    expect_same_sums_read_back(report.path, &report);
    expect_blocks(N_THREADS * N_PER_THREAD, 1);
}

/* Waits for 20 ticks of the writer, at most 10 seconds. */
static void rest(void) {
    enum { TICKS = 20, PATIENCE_US = 10 * 1000 * 1000, STEP_US = 500 };
    const uint64_t from = atomic_load(&session->header->tick);
    for (long us = 0; us < PATIENCE_US && atomic_load(&session->header->tick) - from < TICKS;
         us += STEP_US) {
        sleep_us(STEP_US);
    }
}

/* At most 1000 bytes are in use: each thread allocates a block and frees it while the other rests.
 */
static int play_in_turns(uint64_t turns) {
    const int slot = fake_process_join(session);
    struct fake_stream streams[2];
    for (int i = 0; i < 2; i++) {
        fake_stream_begin(&streams[i], session, slot);
    }
    for (uint64_t n = 0; n < turns; n++) {
        fake_alloc(&streams[n % 2], FIRST_BLOCK + n * 16, n % 2 ? 1000 : 900, AG_ROOT_CUT);
        fake_free(&streams[n % 2], FIRST_BLOCK + n * 16);
        rest();
    }
    return 0;
}

/* For a resting thread, the writer adds a stamp (a record of the time) after the last event, in its
 * own sums and in the trace. Without these stamps, the order of the two threads' events would be
 * unknown. */
static void threads_that_rest_do_not_blur_the_peak(void **state) {
    (void)state;
    const pid_t pid = start_program(play_in_turns, 6);
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    const struct ag_index_facts facts = {0};
    struct ag_blob blob = {0};
    struct ag_index_sums sums;
    assert_int_equal(ag_trace_index_of_file(report.path, &facts, &blob, &sums), 0);
    ag_blob_done(&blob);
    assert_int_equal(report.peak_bytes, 1000);
    assert_int_equal(sums.summary.peak_bytes, 1000);
    assert_int_equal(sums.summary.peak_low_bytes, 1000);
    assert_int_equal(sums.summary.peak_high_bytes, 1000);
    expect_blocks(6, 1);
}

/* After a writer was killed, another one continues. At the end no event may be missing or be
 * recorded twice. */
static void killed_writers_lose_and_double_nothing(void **state) {
    (void)state;
    enum { N = 400000, KILLS = 6 };
    srandom((unsigned)time(NULL));
    const pid_t pid = start_program(play_single, N);
    for (int i = 0; i < KILLS; i++) {
        sleep_us(random() % 15000);
        kill_and_wait(writer);
        start_writer();
    }
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    assert_int_equal(report.allocated_blocks, N);
    expect_blocks(N, 1);
}

static void killed_writers_of_threads_lose_and_double_nothing(void **state) {
    (void)state;
    srandom((unsigned)time(NULL) + 1);
    const pid_t pid = start_program(play_threads_of, 0);
    for (int i = 0; i < 4; i++) {
        sleep_us(random() % 15000);
        kill_and_wait(writer);
        start_writer();
    }
    (void)end_program(pid);
    wait_for(writer);
    expect_blocks(N_THREADS * N_PER_THREAD, 1);
}

static char first_found[512];

static void note_trace(const char *path, void *unused) {
    (void)unused;
    if (!strstr(path, ".allogram-live.")) {
        memcpy(first_found, path, strlen(path) + 1);
    }
}

/* The program and the writer have ended: the first command that reads the trace seals (completes)
 * it with what the live file holds. */
static void seal_after(long us) {
    enum { N = 200000 };
    char message[512];
    const pid_t pid = start_program(play_single, N);
    sleep_us(us);
    kill_and_wait(writer);
    wait_for(pid);
    fake_session_files(folder, note_trace, NULL);
    assert_int_equal(ag_writer_seal(first_found, message), 1);
    assert_int_equal(ag_writer_seal(first_found, message), 0);
    expect_blocks(N, 1);
}

static void remaining_events_are_sealed_from_the_trace(void **state) {
    (void)state;
    seal_after(20000);
}

static void a_trace_that_nobody_wrote_to_leads_to_its_session(void **state) {
    (void)state;
    seal_after(0);
}

/* No writer ever ran: sealing creates the trace, too. */
static void a_session_that_nobody_collected_is_sealed_from_its_live_file(void **state) {
    (void)state;
    enum { N = 50000 };
    char message[512];
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(play_single(N));
    }
    wait_for(pid);
    char old[4096];
    assert_non_null(getcwd(old, sizeof(old)));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(ag_writer_seal(ag_session_path(session), message), 1);
    assert_int_equal(chdir(old), 0);
    expect_blocks(N, 1);
}

enum { BEFORE_EXEC = 30, AFTER_EXEC = 50 };

/* Two programs of one process, before and after an exec: the second program has the lower slot
 * (entry of the session), which was freed just before. */
static int play_exec_into_a_lower_slot(void) {
    const int status = play_single(AFTER_EXEC) | play_single(BEFORE_EXEC);
    ag_session_slot(session, 1)->start_raw = ag_session_slot(session, 0)->start_raw - 1;
    return status;
}

static void check_trace_of_program(const char *path, void *n_found) {
    struct contents contents = {
        .allocs = calloc(AFTER_EXEC, 1), .frees = calloc(AFTER_EXEC, 1), .n_blocks = AFTER_EXEC};
    count_file(path, &contents);
    assert_int_equal(contents.from_index, strstr(path, "-2.allogram") ? AFTER_EXEC : BEFORE_EXEC);
    drop(&contents);
    ++*(int *)n_found;
}

static void traces_of_one_pid_are_named_in_the_order_of_their_starts(void **state) {
    (void)state;
    char message[512], old[4096];
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(play_exec_into_a_lower_slot());
    }
    wait_for(pid);
    assert_non_null(getcwd(old, sizeof(old)));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(ag_writer_seal(ag_session_path(session), message), 1);
    assert_int_equal(chdir(old), 0);
    int n_found = 0;
    fake_session_files(folder, check_trace_of_program, &n_found);
    assert_int_equal(n_found, 2);
}

/* ---- processes that start while the writer adopts another ---- */

static void (*start_meanwhile)(void); /* called once, when the writer next begins a recording */
static uint32_t begun_slots[8];
static size_t n_begun_slots;

struct ag_recording *__real_ag_recording_begin(struct ag_session *of, uint32_t slot, bool is_first,
                                               const struct ag_process_parent *parent);
struct ag_recording *__wrap_ag_recording_begin(struct ag_session *of, uint32_t slot, bool is_first,
                                               const struct ag_process_parent *parent);

struct ag_recording *__wrap_ag_recording_begin(struct ag_session *of, uint32_t slot, bool is_first,
                                               const struct ag_process_parent *parent) {
    begun_slots[n_begun_slots++ % 8] = slot;
    if (start_meanwhile) {
        start_meanwhile();
        start_meanwhile = NULL;
    }
    return __real_ag_recording_begin(of, slot, is_first, parent);
}

/* A process that was created before the process of slot 0 takes slot 2, executes another program,
 * and takes slot 1. */
static void execute_meanwhile(void) {
    assert_int_equal(fake_process_join(session), 1);
    assert_int_equal(fake_process_join(session), 2);
    ag_session_slot(session, 2)->start_raw = ag_session_slot(session, 0)->start_raw - 1;
}

static void programs_that_start_meanwhile_are_adopted_in_the_order_of_their_starts(void **state) {
    (void)state;
    struct ag_writer adopting;
    assert_int_equal(ag_writer_start(&adopting, session), 0);
    assert_int_equal(fake_process_join(session), 0);
    n_begun_slots = 0;
    start_meanwhile = execute_meanwhile;
    ag_writer_adopt(&adopting);
    assert_int_equal(n_begun_slots, 3);
    assert_int_equal(begun_slots[0], 0);
    assert_int_equal(begun_slots[1], 2);
    assert_int_equal(begun_slots[2], 1);
    ag_writer_done(&adopting);
}

static void a_living_writer_is_left_alone(void **state) {
    (void)state;
    char message[512];
    const pid_t pid = start_program(play_single, 300000);
    sleep_us(10000);
    fake_session_files(folder, note_trace, NULL);
    assert_int_equal(ag_writer_seal(first_found, message), 0);
    (void)end_program(pid);
    wait_for(writer);
    expect_blocks(300000, 1);
}

/* A reader reads the traces of a folder while another recording begins there. */
static void a_session_that_begins_is_left_alone(void **state) {
    (void)state;
    char message[512];
    assert_int_equal(ag_writer_seal(ag_session_path(session), message), 0);
    const pid_t pid = start_program(play_single, 1000);
    (void)end_program(pid);
    wait_for(writer);
    expect_blocks(1000, 1);
}

static int play_children(uint64_t count) {
    enum { N = 20 };
    for (uint64_t i = 0; i < count; i++) {
        const pid_t pid = fork();
        if (pid == 0) {
            _exit(play_single(N));
        }
        int status = 0;
        if (waitpid(pid, &status, 0) != pid || status != 0) {
            return 1;
        }
    }
    return play_single(N);
}

/* More processes than the session has slots for, one after the other: each has its own trace. */
static void slots_are_used_again(void **state) {
    (void)state;
    enum { CHILDREN = 700 };
    const pid_t pid = start_program(play_children, CHILDREN);
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    assert_int_equal(report.n_other_traces, CHILDREN);
    struct contents contents = read_traces(20);
    assert_int_equal(contents.n_traces, CHILDREN + 1);
    assert_int_equal(contents.n_unfinished, 0);
    assert_int_equal(contents.from_index, 20 * (CHILDREN + 1));
    assert_int_equal(contents.n_lost, 0);
    drop(&contents);
}

/* A process that does not record how it is going to end. */
static int play_without_end(uint64_t count) {
    const int r = play_single(count);
    atomic_store(&ag_session_slot(session, 0)->exiting, 0);
    return r;
}

/* A child ends by the given signal, or by _exit, after the writer has created its trace. It stays a
 * zombie until its trace is sealed and its slot is free. */
static int play_child_that_ends(uint64_t signal_number) {
    const pid_t pid = fork();
    if (pid == 0) {
        (void)play_without_end(20);
        while (!atomic_load(&ag_session_slot(session, 0)->trace_created)) {
            sleep_us(1000);
        }
        (void)kill(getpid(), (int)signal_number); /* 0: sends no signal */
        _exit(3);
    }
    siginfo_t info;
    if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT) < 0) {
        return 1;
    }
    while (atomic_load(&ag_session_slot(session, 0)->generation) == 0) {
        sleep_us(1000);
    }
    return waitpid(pid, NULL, 0) != pid;
}

/* Neither `allogram run` nor the child reports the signal; the writer gets it from the kernel. */
static void a_signal_that_killed_a_child_is_known(void **state) {
    (void)state;
    const pid_t pid = start_program(play_child_that_ends, SIGKILL);
    (void)end_program(pid);
    wait_for(writer);
    struct contents contents = read_traces(20);
    assert_int_equal(contents.n_ends[AG_END_SIGNAL], 1);
    assert_int_equal(contents.last_status, SIGKILL);
    drop(&contents);
}

static void a_child_that_exits_has_no_signal(void **state) {
    (void)state;
    const pid_t pid = start_program(play_child_that_ends, 0);
    (void)end_program(pid);
    wait_for(writer);
    struct contents contents = read_traces(20);
    assert_int_equal(contents.n_ends[AG_END_SIGNAL], 0);
    assert_int_equal(contents.n_ends[AG_END_EXIT], 1);
    assert_int_equal(contents.last_status, 3 << 8);
    drop(&contents);
}

/* The trace is sealed when the kernel has already forgotten how the process ended. */
static void an_unseen_end_is_unknown(void **state) {
    (void)state;
    char message[512], old[4096];
    const pid_t pid = fork();
    if (pid == 0) {
        _exit(play_without_end(20));
    }
    wait_for(pid);
    assert_non_null(getcwd(old, sizeof(old)));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(ag_writer_seal(ag_session_path(session), message), 1);
    assert_int_equal(chdir(old), 0);
    struct contents contents = read_traces(20);
    assert_int_equal(contents.n_ends[AG_END_NOT_KNOWN], 1);
    assert_int_equal(contents.last_status, UINT32_MAX);
    drop(&contents);
}

static int play_nothing(uint64_t status) {
    return (int)status;
}

static void a_process_that_never_registers_is_reported_so(void **state) {
    (void)state;
    const pid_t pid = start_program(play_nothing, 0);
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    assert_int_equal(report.registered, 0);
    assert_int_equal(report.n_other_traces, 0);
}

/* ---- limits and damage ---- */

static int begin_small(void **state) {
    (void)state;
    return begin_with(100 * 1000);
}

static void a_trace_of_the_size_asked_for_is_cut_and_whole(void **state) {
    (void)state;
    enum { N = 4000000 };
    const pid_t pid = start_program(play_single, N);
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    assert_int_equal(report.is_cut, 1);
    assert_int_equal(report.error, 0);
    assert_true(report.trace_bytes <= 100 * 1000);
    struct contents contents = read_traces(N);
    uint64_t recorded = 0;
    for (uint64_t n = 0; n < N; n++) {
        assert_true(contents.allocs[n] <= 1 && contents.frees[n] <= 1);
        recorded += contents.allocs[n] + contents.frees[n];
    }
    assert_true(recorded > 0);
    assert_int_equal(recorded + contents.n_lost, 2 * (uint64_t)N);
    assert_int_equal(contents.n_unfinished, 0);
    drop(&contents);
}

static int play_damage(uint64_t count) {
    const int slot = fake_process_join(session);
    struct fake_stream streams[3];
    for (int i = 0; i < 3; i++) {
        fake_stream_begin(&streams[i], session, slot);
        play_blocks(&streams[i], AG_ROOT_COMPLETE, 0, 10);
    }
    const uint64_t noise[] = {0xf, 0xffffffffffffffff, 0};
    fake_words(&streams[0], noise, 3);
    streams[1].control->used_words = 0x7fffffff;
    streams[2].control->stream = 0xfffffff0;
    fake_stream_begin(&streams[2], session, slot);
    streams[2].sequence = count; /* all events of this stream before these are missing */
    play_blocks(&streams[2], 0x12345678, 10, 10);
    return 0;
}

/* The process ends when one of its threads has taken a chunk and not yet written to it. */
static int play_empty_chunk(uint64_t count) {
    const int slot = fake_process_join(session);
    struct fake_stream streams[2];
    for (int i = 0; i < 2; i++) {
        fake_stream_begin(&streams[i], session, slot);
        play_blocks(&streams[i], AG_ROOT_COMPLETE, 0, i == 0 ? 1 : count);
    }
    streams[0].control->used_words = 0;
    return 0;
}

static void a_chunk_without_words_costs_no_other_events(void **state) {
    (void)state;
    enum { N = 100 };
    const struct ag_writer_report report = end_program(start_program(play_empty_chunk, N));
    wait_for(writer);
    assert_int_equal(report.is_cut, 0);
    assert_int_equal(report.lost_events, 0);
    struct contents contents = read_traces(N);
    for (uint64_t n = 0; n < N; n++) {
        assert_true(contents.allocs[n] == 1 && contents.frees[n] == 1);
    }
    assert_int_equal(contents.n_lost, 0);
    assert_int_equal(contents.n_unfinished, 0);
    drop(&contents);
}

/* Impossible words, lengths, streams and sequence numbers are counted. The other events must be in
 * the trace. */
static void damage_is_counted_and_survived(void **state) {
    (void)state;
    const pid_t pid = start_program(play_damage, 5);
    const struct ag_writer_report report = end_program(pid);
    wait_for(writer);
    assert_true(report.lost_events > 0);
    struct contents contents = read_traces(20);
    for (uint64_t n = 0; n < 10; n++) {
        assert_true(contents.allocs[n] >= 2); /* the events of the readable streams */
    }
    for (uint64_t n = 10; n < 20; n++) {
        assert_int_equal(contents.allocs[n], 1);
    }
    assert_int_equal(contents.n_unfinished, 0);
    assert_true(contents.n_lost > 0);
    drop(&contents);
}

static int play_truncation(uint64_t count) {
    const int r = play_single(count);
    return truncate(ag_session_path(session), 64 * 1024) < 0 ? 1 : r;
}

/* The program truncates the live file while the writer uses it. The writer must not get SIGBUS. */
static void a_live_file_that_is_cut_does_no_harm(void **state) {
    (void)state;
    const pid_t pid = start_program(play_truncation, 100000);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    alarm(60);
    (void)waitpid(writer, &status, 0);
    alarm(0);
    assert_true(WIFEXITED(status));
    close(report_fd);
    report_fd = -1;
}

static void headers_that_lie_are_refused(void **state) {
    (void)state;
    char message[512];
    struct ag_session *other = NULL;
    const struct ag_segment_header good = *session->header;
    struct ag_segment_header *header = session->header;
    assert_int_equal(ag_session_open(ag_session_path(session), &other, message), 0);
    other = ag_session_close(other);
    header->n_chunks++;
    assert_int_equal(ag_session_open(ag_session_path(session), &other, message), -EINVAL);
    header->n_chunks = good.n_chunks;
    header->trees_offset = UINT64_MAX;
    assert_int_equal(ag_session_open(ag_session_path(session), &other, message), -EINVAL);
    header->trees_offset = good.trees_offset;
    header->file_bytes += 4096;
    assert_int_equal(ag_session_open(ag_session_path(session), &other, message), -EINVAL);
    header->file_bytes = good.file_bytes;
    header->version = 99;
    assert_int_equal(ag_session_open(ag_session_path(session), &other, message), -EINVAL);
    assert_non_null(strstr(message, ": it is damaged or was made by another version of allogram"));
    assert_int_equal(ag_session_open("/dev/null", &other, message), -EINVAL);
    assert_string_equal(message, "cannot open the live file /dev/null: it is not a regular file");
    assert_int_equal(ag_session_open("/nowhere", &other, message), -ENOENT);
    assert_string_equal(message, "cannot open the live file /nowhere: No such file or directory");
    assert_null(other);
}

/* ---- copies of a moment (snapshots) ---- */

static struct ag_chunk_control *control_of(uint64_t sequence) {
    for (uint32_t chunk = 0; chunk < session->n_chunks; chunk++) {
        struct ag_chunk_control *control = ag_session_control(session, chunk);
        if (atomic_load_explicit(&control->state, memory_order_acquire) != AG_CHUNK_FREE &&
            control->sequence == sequence) {
            return control;
        }
    }
    return NULL;
}

/* Starts a process whose thread allocates `count` blocks, and as many again after a byte in the
 * pipe `request`. */
static pid_t start_thread_in_turns(const int request[2], const int answer[2], uint64_t count) {
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char byte = 0;
        const int slot = fake_process_join(session);
        struct fake_stream stream;
        fake_stream_begin(&stream, session, slot);
        const uint32_t stack = fake_node(session, (uint32_t)slot, 0, AG_ROOT_COMPLETE);
        play_blocks(&stream, stack, 0, count);
        bool is_good = write(answer[1], "", 1) == 1 && read(request[0], &byte, 1) == 1;
        play_blocks(&stream, stack, count, count);
        is_good = is_good && write(answer[1], "", 1) == 1 && read(request[0], &byte, 1) == 1;
        _exit(!is_good);
    }
    return pid;
}

/* Takes a snapshot as the child in src/writer/snapshot.c does, while the thread goes on. The test
 * sets the counter of chunk 2 back to 100 words. So for the snapshot, the rest of chunk 2 and the
 * later chunks seem to be written after the snapshot began, and must not be in it. */
static void a_snapshot_shows_one_moment(void **state) {
    enum { COUNT = 20000, CHUNK_AT_THE_LOOK = 2, WORDS_AT_THE_LOOK = 100 };
    (void)state;
    int request[2], answer[2];
    char byte = 0;
    struct ag_writer frozen;
    assert_int_equal(pipe2(request, O_CLOEXEC) | pipe2(answer, O_CLOEXEC), 0);
    const pid_t pid = start_thread_in_turns(request, answer, COUNT);
    assert_int_equal(read(answer[0], &byte, 1), 1);
    assert_int_equal(ag_writer_start(&frozen, session), 0);
    ag_writer_adopt(&frozen);
    assert_ptr_equal(mmap(session->base, session->file_bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, session->fd, 0),
                     session->base);
    struct ag_chunk_control *control = control_of(CHUNK_AT_THE_LOOK);
    assert_non_null(control);
    atomic_store_explicit(&control->state, AG_CHUNK_ACTIVE, memory_order_relaxed);
    atomic_store_explicit(&control->used_words, WORDS_AT_THE_LOOK, memory_order_relaxed);
    frozen.slots[0].has_ended = true;
    assert_int_equal(ag_writer_freeze(&frozen), 0);
    assert_int_equal(write(request[1], "", 1), 1);
    assert_int_equal(read(answer[0], &byte, 1), 1); /* the thread has gone on */
    int64_t taken = 1;
    while (taken > 0) {
        taken = ag_writer_round(&frozen);
    }
    assert_int_equal(taken, 0);
    assert_int_equal(ag_writer_finish_ended(&frozen, 0), 1);
    ag_writer_done(&frozen);
    assert_int_equal(write(request[1], "", 1), 1);
    wait_for(pid);
    const struct contents contents = read_traces(2 * (uint64_t)COUNT);
    uint64_t n_begun = 0; /* number of blocks in the snapshot; block n is the n-th block of the
                           * thread */
    while (n_begun < COUNT && contents.allocs[n_begun] == 1) {
        n_begun++;
    }
    for (uint64_t n = 0; n < 2 * (uint64_t)COUNT; n++) {
        assert_int_equal(contents.allocs[n], n < n_begun);
        /* the moment of the snapshot may lie between an allocation and its free */
        assert_in_range(contents.frees[n], n + 1 < n_begun, n < n_begun);
    }
    const uint64_t most = (CHUNK_AT_THE_LOOK * AG_CHUNK_WORDS + WORDS_AT_THE_LOOK) / 3;
    assert_in_range(n_begun, most * 9 / 10, most);
    free(contents.allocs);
    free(contents.frees);
    for (int i = 0; i < 2; i++) {
        close(request[i]);
        close(answer[i]);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_session_that_cannot_be_created_closes_its_file_once),
        cmocka_unit_test(a_live_file_without_space_is_unmapped),
        cmocka_unit_test(a_live_file_that_nobody_uses_is_removed_by_the_next_session),
        cmocka_unit_test_setup_teardown(one_thread_is_recorded_whole, begin, end),
        cmocka_unit_test_setup_teardown(threads_that_free_each_others_blocks_leave_no_ghosts, begin,
                                        end),
        cmocka_unit_test_setup_teardown(threads_that_rest_do_not_blur_the_peak, begin, end),
        cmocka_unit_test_setup_teardown(killed_writers_lose_and_double_nothing, begin, end),
        cmocka_unit_test_setup_teardown(killed_writers_of_threads_lose_and_double_nothing, begin,
                                        end),
        cmocka_unit_test_setup_teardown(remaining_events_are_sealed_from_the_trace, begin, end),
        cmocka_unit_test_setup_teardown(a_trace_that_nobody_wrote_to_leads_to_its_session, begin,
                                        end),
        cmocka_unit_test_setup_teardown(
            a_session_that_nobody_collected_is_sealed_from_its_live_file, begin, end),
        cmocka_unit_test_setup_teardown(traces_of_one_pid_are_named_in_the_order_of_their_starts,
                                        begin, end),
        cmocka_unit_test_setup_teardown(
            programs_that_start_meanwhile_are_adopted_in_the_order_of_their_starts, begin, end),
        cmocka_unit_test_setup_teardown(a_living_writer_is_left_alone, begin, end),
        cmocka_unit_test_setup_teardown(a_session_that_begins_is_left_alone, begin, end),
        cmocka_unit_test_setup_teardown(slots_are_used_again, begin, end),
        cmocka_unit_test_setup_teardown(a_signal_that_killed_a_child_is_known, begin, end),
        cmocka_unit_test_setup_teardown(a_child_that_exits_has_no_signal, begin, end),
        cmocka_unit_test_setup_teardown(an_unseen_end_is_unknown, begin, end),
        cmocka_unit_test_setup_teardown(a_process_that_never_registers_is_reported_so, begin, end),
        cmocka_unit_test_setup_teardown(a_trace_of_the_size_asked_for_is_cut_and_whole, begin_small,
                                        end),
        cmocka_unit_test_setup_teardown(a_chunk_without_words_costs_no_other_events, begin, end),
        cmocka_unit_test_setup_teardown(damage_is_counted_and_survived, begin, end),
        cmocka_unit_test_setup_teardown(a_live_file_that_is_cut_does_no_harm, begin, end),
        cmocka_unit_test_setup_teardown(headers_that_lie_are_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_snapshot_shows_one_moment, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
