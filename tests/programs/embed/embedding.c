/* embedding.c CASE: a program that uses allogram.h in one way, right or wrong. It prints, as JSON,
 * what its trace must contain; it has counted these numbers, or they are constants of the code. The
 * tests run it with a session (a recording) that the program starts itself (the JSON then has the
 * path of the trace), and under `allogram run`. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <allogram/allogram.h>

static allogram_heap heap, gpu;
static allogram_type kind;
static struct {
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, ghost_frees;
} truth;
static char message[512];

static void alloc(allogram_heap where, uint64_t address, size_t bytes) {
    allogram_alloc(where, address, bytes, kind);
    truth.allocated_blocks++;
    truth.allocated_bytes += bytes;
}

static void release(allogram_heap where, uint64_t address, size_t bytes) {
    allogram_free(where, address);
    truth.freed_blocks++;
    truth.freed_bytes += bytes;
}

static void ghost(allogram_heap where, uint64_t address) {
    allogram_free(where, address);
    truth.ghost_frees++;
}

static void require(int holds, const char *what) {
    if (!holds) {
        printf("wrong: %s\n", what);
        fflush(stdout);
        _exit(9);
    }
}

static void start(void) {
    const int r = allogram_start(NULL, message, sizeof(message));
    if (r < 0 && r != -EALREADY) {
        printf("wrong: %s\n", message);
        exit(9);
    }
}

static void finish(void) {
    (void)allogram_stop();
    printf("{\"trace\": \"%s\", \"allocated_blocks\": %llu, \"allocated_bytes\": %llu, "
           "\"freed_blocks\": %llu, \"freed_bytes\": %llu, \"ghost_frees\": %llu}\n",
           allogram_trace(), (unsigned long long)truth.allocated_blocks,
           (unsigned long long)truth.allocated_bytes, (unsigned long long)truth.freed_blocks,
           (unsigned long long)truth.freed_bytes, (unsigned long long)truth.ghost_frees);
    fflush(stdout);
    memset(&truth, 0, sizeof(truth));
}

/* ---- cases ---- */

static void nested_start(void) {
    start();
    require(allogram_start(NULL, message, sizeof(message)) == -EALREADY, "a second start fails");
    require(strstr(message, "already") != NULL,
            "the message says that a session is recorded already");
    alloc(heap, 0x1000, 10);
    finish();
}

static void stop_without_start(void) {
    require(allogram_stop() == -ENOENT, "a stop without a session fails");
    start();
    alloc(heap, 0x1000, 10);
    finish();
    require(allogram_stop() == -ENOENT, "a second stop fails");
}

static void ghosts_and_double_frees(void) {
    start();
    ghost(heap, 0x5000);
    alloc(heap, 0x1000, 10);
    release(heap, 0x1000, 10);
    ghost(heap, 0x1000);
    alloc(gpu, 0x1000, 7);
    ghost(heap, 0x1000); /* a free in another heap: the GPU's block lives on */
    alloc(heap, 0x1000, 11);
    finish();
}

static void sizes(void) {
    const uint64_t most = (UINT64_C(1) << 48) - 1;
    start();
    alloc(heap, 0x1000, 0);
    alloc(heap, 0x2000, 0);
    release(heap, 0x1000, 0);
    alloc(heap, 0x3000, (size_t)5 << 30);
    allogram_alloc(heap, 0x4000, SIZE_MAX, kind);
    allogram_alloc(heap, 0x5000, (size_t)1 << 63, kind);
    truth.allocated_blocks += 2;
    truth.allocated_bytes += 2 * most;
    finish();
}

static void addresses(void) {
    start();
    alloc(heap, 0, 1);
    alloc(heap, UINT64_MAX, 2);
    alloc(gpu, 0, 4);
    release(heap, 0, 1);
    release(heap, UINT64_MAX, 2);
    finish();
}

static void never_registered(void) {
    start();
    allogram_alloc(0, 0x1000, 1, kind);
    allogram_alloc(1, 0x1000, 1, kind);
    allogram_alloc(255, 0x1000, 1, kind);
    allogram_alloc(70000, 0x1000, 1, kind);
    allogram_alloc(UINT32_MAX, 0x1000, 1, kind);
    allogram_free(255, 0x1000);
    allogram_realloc(UINT32_MAX, 0x1000, 0x2000, 5, 0);
    allogram_gc_begin(255, 0, 0);
    allogram_map(255, 0x1000, 4096);
    allogram_alloc(heap, 0x1000, 8, 65535); /* only the type is unknown */
    truth.allocated_blocks++;
    truth.allocated_bytes += 8;
    finish();
}

static void reallocs(void) {
    start();
    alloc(heap, 0x1000, 10);
    allogram_realloc(heap, 0x1000, 0x2000, 30, kind);
    allogram_realloc(heap, 0x2000, 0x2000, 20, kind);
    truth.allocated_blocks += 2;
    truth.allocated_bytes += 50;
    truth.freed_blocks += 2;
    truth.freed_bytes += 40;
    finish();
}

static volatile sig_atomic_t n_signals;

static void on_signal(int number) {
    (void)number;
    const int n = ++n_signals;
    allogram_alloc(gpu, (uint64_t)n << 4, 16, kind);
    if (n % 2 == 0) {
        allogram_free(gpu, (uint64_t)n << 4);
    }
    allogram_mark("a signal");
}

static void signal_handlers(void) {
    enum { SIGNALS = 200 };
    const struct itimerval often = {.it_interval = {.tv_usec = 200}, .it_value = {.tv_usec = 200}};
    const struct itimerval never = {.it_value = {0}};
    const struct sigaction action = {.sa_handler = on_signal};
    start();
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (uint64_t i = 0; n_signals < SIGNALS; i++) {
        alloc(heap, 0x1000 + (i % 64) * 16, 24);
        release(heap, 0x1000 + (i % 64) * 16, 24);
    }
    setitimer(ITIMER_REAL, &never, NULL);
    const uint64_t n = (uint64_t)n_signals;
    truth.allocated_blocks += n;
    truth.allocated_bytes += 16 * n;
    truth.freed_blocks += n / 2;
    truth.freed_bytes += 16 * (n / 2);
    finish();
}

enum { THREADS = 6, ROUNDS = 2000 };

static void *allocate_much(void *number) {
    const uint64_t base = (uint64_t)(uintptr_t)number << 32;
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        allogram_alloc(heap, base + i * 16, i, kind);
        if (i % 2 == 0) {
            allogram_free(heap, base + i * 16);
        }
    }
    return NULL;
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    for (uintptr_t t = 0; t < THREADS; t++) {
        require(pthread_create(&threads[t], NULL, allocate_much, (void *)(t + 1)) == 0,
                "pthread_create succeeds");
    }
    for (int t = 0; t < THREADS; t++) {
        pthread_join(threads[t], NULL);
    }
    truth.allocated_blocks += THREADS * ROUNDS;
    truth.allocated_bytes += (uint64_t)THREADS * ROUNDS * (ROUNDS + 1) / 2;
    truth.freed_blocks += THREADS * ROUNDS / 2;
    truth.freed_bytes += (uint64_t)THREADS * (ROUNDS / 2) * (ROUNDS / 2 + 1);
}

static void threads_never_registered(void) {
    start();
    run_threads();
    finish();
}

static void paused(void) {
    start();
    alloc(heap, 0x1000, 1);
    allogram_pause();
    allogram_alloc(heap, 0x2000, 100, kind);
    allogram_free(heap, 0x1000);
    allogram_mark("nobody sees this");
    allogram_resume();
    allogram_resume();
    alloc(heap, 0x3000, 2);
    finish();
}

/* ---- a reset drops the counts, and keeps the set of live blocks ---- */

static void dropped(void) {
    start();
    alloc(heap, 0x1000, 1);
    alloc(heap, 0x2000, 2);
    alloc(heap, 0x3000, 4);
    release(heap, 0x1000, 1);
    run_threads();
    require(allogram_reset() == 0, "the first reset succeeds");
    alloc(heap, 0x4000, 8);
    require(allogram_reset() == 0, "the second reset succeeds");
    memset(&truth, 0, sizeof(truth));
    alloc(heap, 0x5000, 16);
    release(heap, 0x2000, 2); /* allocated before the reset */
    run_threads();            /* uses the addresses of the run before the reset, where half of the
                               * blocks are still live */
    ghost(heap, 0x1000);
    truth.freed_blocks += THREADS * ROUNDS / 2; /* blocks that were live, and whose addresses were
                                                 * allocated again, count as freed */
    truth.freed_bytes += (uint64_t)THREADS * (ROUNDS / 2) * (ROUNDS / 2);
    finish();
    require(allogram_trace()[0] == '\0' || allogram_reset() == -ENOENT, "there is no session");
}

/* ---- snapshots ---- */

static uint64_t passed_bytes;
static FILE *passed;

static int pass(void *context, const void *data, size_t bytes) {
    require(context == &passed_bytes, "the write function gets its context");
    passed_bytes += bytes;
    return fwrite(data, 1, bytes, passed) == bytes ? 0 : 1;
}

static int refuse(void *context, const void *data, size_t bytes) {
    (void)context;
    (void)data;
    (void)bytes;
    return 1;
}

static void say_snapshot(const char *path) {
    printf("{\"trace\": \"%s\", \"allocated_blocks\": %llu, \"allocated_bytes\": %llu, "
           "\"freed_blocks\": %llu, \"freed_bytes\": %llu, \"ghost_frees\": %llu}\n",
           path, (unsigned long long)truth.allocated_blocks,
           (unsigned long long)truth.allocated_bytes, (unsigned long long)truth.freed_blocks,
           (unsigned long long)truth.freed_bytes, (unsigned long long)truth.ghost_frees);
    fflush(stdout);
}

static void snapshots(void) {
    const struct allogram_snapshot_options file = {.size = sizeof(file),
                                                   .output = "first.allogram"};
    const struct allogram_snapshot_options flow = {
        .size = sizeof(flow), .write = pass, .context = &passed_bytes};
    const struct allogram_snapshot_options refused = {.size = sizeof(refused), .write = refuse};
    const struct allogram_snapshot_options nowhere = {.size = sizeof(nowhere),
                                                      .output = "no/such/folder/s.allogram"};
    const struct allogram_snapshot_options none = {.size = sizeof(none)};
    require(allogram_snapshot(&file, message, sizeof(message)) == -ENOENT,
            "a snapshot without a session fails");
    start();
    alloc(heap, 0x1000, 1);
    run_threads();
    require(allogram_snapshot(&file, message, sizeof(message)) == 0, message);
    say_snapshot("first.allogram");
    release(heap, 0x1000, 1);
    alloc(heap, 0x2000, 2);
    passed = fopen("second.allogram", "wb");
    require(passed != NULL, "a temporary file can be created");
    require(allogram_snapshot(&flow, NULL, 0) == 0, "a snapshot is passed to a function");
    require(fclose(passed) == 0 && passed_bytes > 0, "the function got bytes");
    say_snapshot("second.allogram");
    require(allogram_snapshot(&refused, NULL, 0) == -ECANCELED,
            "a snapshot ends if the function refuses bytes");
    require(allogram_snapshot(&nowhere, message, sizeof(message)) < 0,
            "a snapshot into a folder that does not exist fails");
    require(strstr(message, "no/such/folder") != NULL, "the message names the folder");
    require(allogram_snapshot(&none, message, sizeof(message)) == -EINVAL,
            "a snapshot without a destination is invalid");
    require(allogram_snapshot(NULL, message, sizeof(message)) == -EINVAL,
            "a snapshot without options is invalid");
    alloc(heap, 0x3000, 4);
    finish();
}

static _Atomic int has_ended;

static void *allocate_until_stopped(void *number) {
    const uint64_t base = (uint64_t)(uintptr_t)number << 32;
    for (uint64_t i = 1; !has_ended; i++) { /* at most one block of this thread lives at any time */
        allogram_alloc(heap, base + i % 512 * 16, 8, kind);
        allogram_free(heap, base + i % 512 * 16);
        if (i % 1000 == 0) {
            usleep(500); /* otherwise, on a slow machine, the thread that writes the trace would
                          * fall behind */
        }
    }
    return NULL;
}

/* Takes snapshots while other threads allocate: each snapshot must be complete. */
static void busy_snapshots(void) {
    pthread_t threads[2];
    start();
    for (uintptr_t t = 0; t < 2; t++) {
        require(pthread_create(&threads[t], NULL, allocate_until_stopped, (void *)(t + 1)) == 0,
                "a thread");
    }
    for (int i = 1; i <= 4; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "busy%d.allogram", i);
        const struct allogram_snapshot_options file = {.size = sizeof(file), .output = name};
        usleep(20000);
        require(allogram_snapshot(&file, message, sizeof(message)) == 0, message);
    }
    has_ended = 1;
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    (void)allogram_stop();
}

/* ---- one thread, some sizes ---- */

static void *free_and_allocate(void *unused) {
    allogram_alloc(heap, 0x9000, 1000, kind);
    allogram_free(heap, 0x9000);
    allogram_free(heap, 0x1000); /* allocated by the thread that is recorded */
    return unused;
}

static void one_thread(void) {
    const struct allogram_options options = {.size = sizeof(options),
                                             .threads = ALLOGRAM_THIS_THREAD};
    /* the second session must have nothing left over from the first */
    for (int i = 0; i < 2; i++) {
        pthread_t other;
        require(allogram_start(&options, message, sizeof(message)) == 0, message);
        alloc(heap, 0x1000, 1);
        alloc(heap, 0x2000, 2);
        require(pthread_create(&other, NULL, free_and_allocate, NULL) == 0,
                "pthread_create succeeds");
        pthread_join(other, NULL);
        truth.freed_blocks++;
        truth.freed_bytes++;
        allogram_free(heap, 0x9000); /* frees no block */
        finish();
        allogram_free(heap, 0x2000);
    }
    start(); /* a session with all threads again */
    run_threads();
    finish();
}

static void some_sizes(void) {
    const struct allogram_options sizes = {.size = sizeof(sizes),
                                           .filter = "size=10..1K,!size=20..30,domain=cpu"};
    static const char *const wrong[] = {"size=",
                                        "size=..",
                                        "size=5",
                                        "size=9..1",
                                        "size=x..2",
                                        "size=1..2x",
                                        "size=99999999999999999999..",
                                        "size=1.2"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        const struct allogram_options options = {.size = sizeof(options), .filter = wrong[i]};
        require(allogram_start(&options, message, sizeof(message)) == -EINVAL, wrong[i]);
        require(strstr(message, "size=LOW..HIGH") != NULL,
                "the message says which terms a filter has");
    }
    require(allogram_start(&sizes, message, sizeof(message)) == 0, message);
    alloc(heap, 0x1000, 10);
    alloc(heap, 0x2000, 1024);
    alloc(heap, 0x3000, 19);
    allogram_alloc(heap, 0x4000, 9, kind);
    allogram_alloc(heap, 0x5000, 1025, kind);
    allogram_alloc(heap, 0x6000, 25, kind);
    allogram_alloc(gpu, 0x1000, 10, kind);
    allogram_free(heap, 0x4000); /* the filter excluded these blocks, so their frees are no ghost
                                  * frees */
    allogram_free(heap, 0x6000);
    allogram_free(gpu, 0x1000);
    release(heap, 0x3000, 19);
    allogram_realloc(heap, 0x1000, 0x7000, 2000, kind); /* the new size is outside of the range */
    truth.freed_blocks++;
    truth.freed_bytes += 10;
    allogram_realloc(heap, 0x7000, 0x8000, 11, kind); /* the new size is inside of the range
                                                       * again */
    truth.allocated_blocks++;
    truth.allocated_bytes += 11;
    allogram_move(heap, 0x8000, 0x9000);
    release(heap, 0x9000, 11);
    finish();
}

static void sessions_in_turn(void) {
    for (int i = 1; i <= 3; i++) {
        start();
        alloc(heap, 0x1000, (size_t)i);
        release(heap, 0x1000, (size_t)i);
        run_threads();
        alloc(gpu, 0x1000, 5);
        finish();
        allogram_alloc(heap, 0x7000, 1, kind); /* no session is active */
    }
}

static void forked_child(void) {
    start();
    alloc(heap, 0x1000, 10);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        allogram_alloc(heap, 0x2000, 100, kind);
        allogram_free(heap, 0x1000);
        exit(0); /* runs destructors, which must not end the parent's session */
    }
    int status = -1;
    require(waitpid(child, &status, 0) == child && status == 0, "the child ends with status 0");
    alloc(heap, 0x3000, 20);
    finish();
}

static void at_exit(void) {
    allogram_alloc(heap, 0x2000, 20, kind);
}

static int tells_at_the_end;

__attribute__((destructor)) static void at_the_end(void) {
    if (tells_at_the_end) {
        allogram_alloc(heap, 0x3000, 40, kind);
    }
}

/* Allocations of an exit handler and of a destructor of the program are in the trace: the library's
 * own destructor runs last. */
static void exit_without_stop(void) {
    start();
    alloc(heap, 0x1000, 10);
    atexit(at_exit);
    tells_at_the_end = 1;
    printf("{\"trace\": \"%s\", \"allocated_blocks\": 3, \"allocated_bytes\": 70, "
           "\"freed_blocks\": 0, \"freed_bytes\": 0, \"ghost_frees\": 0}\n",
           allogram_trace());
}

static void killed(void) {
    start();
    for (uint64_t i = 0; i < 10000; i++) {
        alloc(heap, 0x1000 + i * 16, 3);
    }
    printf("{\"trace\": \"%s\", \"allocated_blocks\": 10000, \"allocated_bytes\": 30000, "
           "\"freed_blocks\": 0, \"freed_bytes\": 0, \"ghost_frees\": 0}\n",
           allogram_trace());
    fflush(stdout);
    raise(SIGKILL);
}

static void filtered(void) {
    const struct allogram_options options = {.size = sizeof(options), .filter = "domain=gpu"};
    const struct allogram_options wrong = {.size = sizeof(wrong), .filter = "domain=tpu"};
    const struct allogram_heap_options late = {
        .size = sizeof(late), .name = "late", .allocator = "arena", .domain = ALLOGRAM_CPU};
    require(allogram_start(&wrong, message, sizeof(message)) == -EINVAL,
            "a filter with an invalid term is refused");
    require(strstr(message, "domain=tpu") != NULL, "the message names the invalid term");
    require(allogram_start(&options, message, sizeof(message)) == 0,
            "a session with a filter starts");
    allogram_alloc(heap, 0x1000, 10, kind);
    allogram_free(heap, 0x1000);
    allogram_alloc(allogram_heap_new(&late), 0x1000, 10, kind);
    alloc(gpu, 0x1000, 4);
    finish();
}

static void some_types(void) {
    const struct allogram_options options = {.size = sizeof(options),
                                             .filter = "type=*kin?,!type=no*"};
    const allogram_type other = allogram_type_new("no kind", NULL);
    require(allogram_start(&options, message, sizeof(message)) == 0, message);
    alloc(heap, 0x1000, 10);
    alloc(gpu, 0x1000, 4);
    allogram_alloc(heap, 0x2000, 10, other);
    allogram_alloc(heap, 0x3000, 10, 0); /* 0: a block of unknown type, which no type= filter
                                          * selects */
    /* a type that is registered after the session's start */
    allogram_alloc(heap, 0x4000, 10, allogram_type_new("kindly", NULL));
    allogram_free(heap, 0x2000);
    allogram_free(heap, 0x3000);
    release(heap, 0x1000, 10);
    finish();
    start(); /* a session without options again */
    allogram_alloc(heap, 0x1000, 10, other);
    truth.allocated_blocks++;
    truth.allocated_bytes += 10;
    finish();
}

static void handles(void) {
    struct allogram_heap_options options = {.size = sizeof(options), .allocator = "many"};
    char name[32];
    allogram_heap last = 0;
    int n_made = 2; /* the heaps made by main */
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof(name), "heap %d", i);
        options.name = name;
        const allogram_heap made = allogram_heap_new(&options);
        require(made == 0 || made > last, "handles increase until none is left");
        require(made == allogram_heap_new(&options), "the same options give the same handle");
        last = made != 0 ? made : last;
        n_made += made != 0;
    }
    require(n_made == 192, "there are as many heaps as the header says");
    require(allogram_heap_new(NULL) == 0, "without options there is no heap");
    options.size = 3;
    require(allogram_heap_new(&options) == 0, "with options of another size there is no heap");
    require(allogram_type_new(NULL, NULL) == 0 && allogram_type_new("", "x") == 0,
            "a type without a name is refused");
    require(allogram_type_new("kind", NULL) == kind, "the same name gives the same type");
    require(allogram_type_new("kind", "lua") != kind,
            "the same name of another runtime is another type");
    start();
    alloc(heap, 0x1000, 10);
    allogram_alloc(last, 0x1000, 5, kind);
    truth.allocated_blocks++;
    truth.allocated_bytes += 5;
    finish();
}

static void labels(void) {
    const allogram_label request = allogram_label_new("request"), task = allogram_label_new("task");
    require(request != 0 && task != 0 && request != task, "two labels have different numbers");
    start();
    alloc(heap, 0x1000, 1);
    require(allogram_label_set(request) == 0, "no label was set before");
    alloc(heap, 0x2000, 2);
    require(allogram_label_set(task) == request, "the label that was set before is returned");
    run_threads(); /* other threads have no label */
    alloc(heap, 0x3000, 4);
    require(allogram_label_set(4711) == task, "an unknown label counts as no label");
    alloc(heap, 0x4000, 8);
    require(allogram_label_set(0) == 0, "an unknown number sets no label");
    finish();
}

static void collections(void) {
    start();
    alloc(heap, 0x1000, 10);
    alloc(heap, 0x2000, 20);
    allogram_gc_begin(heap, 64, 30);
    release(heap, 0x1000, 10);
    allogram_gc_end(heap, "minor", 20);
    allogram_gc_end(heap, "twice", 1); /* no collection had begun */
    allogram_gc_begin(heap, 0, 0);
    allogram_gc_begin(gpu, 0, 0); /* inside of the other collection */
    allogram_gc_end(gpu, "inner", 0);
    allogram_gc_end(heap, NULL, 0);
    for (int i = 0; i < 10; i++) {
        allogram_gc_begin(gpu, 0, 0); /* without an end */
    }
    allogram_map(heap, 0x100000, 65536);
    allogram_map(gpu, 0x100000, 4096);
    allogram_unmap(heap, 0x100000, 65536);
    finish();
}

static void wrong_options(void) {
    const struct allogram_options small = {.size = 8};
    const struct allogram_options threads = {.size = sizeof(threads),
                                             .threads = ALLOGRAM_THIS_THREAD + 1};
    const struct allogram_options deep = {.size = sizeof(deep), .depth = UINT32_MAX};
    require(allogram_start(&small, message, sizeof(message)) == -EINVAL,
            "options of another size are refused");
    require(allogram_start(&threads, message, sizeof(message)) == -EINVAL,
            "an unknown value of threads is invalid");
    require(strstr(message, "threads = 2") != NULL, "the message names the value of threads");
    require(allogram_start(&deep, message, sizeof(message)) == -EINVAL,
            "a depth above the limit is invalid");
    start(); /* no effect of the wrong options is left */
    alloc(heap, 0x1000, 10);
    run_threads();
    finish();
}

/* First joins the sampled session of another process, if ALLOGRAM_SESSION names one. A tracker
 * (callbacks of the program for sampled blocks) that stops in that session does not stop the
 * recorder's sampling. */
static void after_sampled(void) {
    const struct allogram_tracker_options tracker = {.size = sizeof(tracker)};
    const char *live = getenv("ALLOGRAM_SESSION");
    if (live && allogram_session_join(live, message, sizeof(message)) == 0) {
        require(allogram_start_tracker(&tracker) > 0 && allogram_stop_tracker() == 0,
                "a tracker starts and stops");
        allogram_alloc(heap, 0x1000, 1, kind); /* starts the count of bytes up to the thread's next
                                                * sample */
        require(allogram_stop() == 0, "the joined session ends");
    }
    start();
    for (uint64_t i = 0; i < 1000; i++) {
        alloc(heap, 0x10000 + 0x100 * i, 64);
    }
    finish();
}

static void no_runtime(void) {
    const struct allogram_runtime_options nameless = {.size = sizeof(nameless)};
    const struct allogram_runtime_options small = {.size = 8, .name = "vm"};
    start();
    allogram_runtime(NULL);
    allogram_runtime(&nameless);
    allogram_runtime(&small);
    alloc(heap, 0x1000, 10);
    finish();
}

static void no_such_folder(void) {
    const struct allogram_options options = {.size = sizeof(options),
                                             .output = "no/such/folder/t.allogram"};
    require(allogram_start(&options, message, sizeof(message)) < 0,
            "a folder that does not exist is refused");
    require(strstr(message, "no/such/folder") != NULL, "the message names the folder");
    require(allogram_start(&options, NULL, 0) < 0,
            "a start without a buffer for the message fails");
    char small[16 + 1]; /* the byte after the 16 bytes for the message must not change */
    memset(small, 'x', sizeof(small));
    require(allogram_start(&options, small, 16) < 0,
            "a start with a small buffer for the message fails");
    require(strlen(small) == 15 && strncmp(small, message, 15) == 0,
            "the message is cut to the size of the buffer");
    require(small[16] == 'x', "nothing is written after the end of the buffer");
    require(allogram_start(&options, small, 0) < 0 && small[0] == message[0],
            "with 0 bytes no message is written");
    allogram_alloc(heap, 0x1000, 10, kind);
    start();
    alloc(heap, 0x1000, 10);
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"nested_start", nested_start},
    {"stop_without_start", stop_without_start},
    {"ghosts_and_double_frees", ghosts_and_double_frees},
    {"sizes", sizes},
    {"addresses", addresses},
    {"never_registered", never_registered},
    {"reallocs", reallocs},
    {"signal_handlers", signal_handlers},
    {"threads_never_registered", threads_never_registered},
    {"paused", paused},
    {"sessions_in_turn", sessions_in_turn},
    {"forked_child", forked_child},
    {"exit_without_stop", exit_without_stop},
    {"killed", killed},
    {"filtered", filtered},
    {"some_types", some_types},
    {"handles", handles},
    {"labels", labels},
    {"collections", collections},
    {"no_such_folder", no_such_folder},
    {"wrong_options", wrong_options},
    {"no_runtime", no_runtime},
    {"dropped", dropped},
    {"snapshots", snapshots},
    {"busy_snapshots", busy_snapshots},
    {"one_thread", one_thread},
    {"some_sizes", some_sizes},
    {"after_sampled", after_sampled},
};

int main(int argc, char **argv) {
    const struct allogram_heap_options host = {
        .size = sizeof(host), .name = "blocks", .allocator = "arena", .runtime = "embedding"};
    const struct allogram_heap_options video = {
        .size = sizeof(video), .name = "video", .allocator = "fake-gpu", .domain = ALLOGRAM_GPU};
    heap = allogram_heap_new(&host);
    gpu = allogram_heap_new(&video);
    kind = allogram_type_new("kind", NULL);
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: embedding CASE\n");
    return 2;
}
