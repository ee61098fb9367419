/* function_counters.c CASE: a program that counts functions with allogram.h in one way, right or
 * wrong. For each trace it prints a line of JSON with what the trace must contain; these numbers
 * were computed by hand. The tests run it with a session (a recording) that the program starts
 * itself, and under `allogram run`. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <allogram/allogram.h>

#define NONE "[no registered function]"

static allogram_function f, g;
static allogram_counters *set;
static char message[512];
static char wanted[1024]; /* the functions, as JSON: name: calls, own words, own ns */

static void require(int holds, const char *what) {
    if (!holds) {
        printf("wrong: %s\n", what);
        fflush(stdout);
        _exit(9);
    }
}

static void want(const char *name, uint64_t calls, uint64_t words, uint64_t ns) {
    const size_t at = strlen(wanted);
    snprintf(wanted + at, sizeof(wanted) - at, "%s\"%s\": [%llu, %llu, %llu]", at ? ", " : "", name,
             (unsigned long long)calls, (unsigned long long)words, (unsigned long long)ns);
}

static void say(uint64_t lost) {
    printf("{\"trace\": \"%s\", \"functions\": {%s}, \"lost\": %llu}\n", allogram_trace(), wanted,
           (unsigned long long)lost);
    fflush(stdout);
    wanted[0] = '\0';
}

static void start(void) {
    (void)allogram_start(NULL, message, sizeof(message)); /* fails under `allogram run`, which has
                                                           * started a session */
}

static void finish(void) {
    (void)allogram_stop();
    say(0);
}

static void call(allogram_function function, uint64_t words) {
    allogram_enter(set, function);
    allogram_count_words(set, words);
    allogram_leave(set);
}

/* ---- cases ---- */

static void never_registered(void) {
    const struct allogram_function_options nameless = {.size = sizeof(nameless)};
    const struct allogram_function_options small = {.size = 8, .name = "small"};
    const struct allogram_counters_options small_set = {.size = 8};
    require(allogram_function_new(NULL) == 0, "a function needs options");
    require(allogram_function_new(&nameless) == 0, "a function needs a name");
    require(allogram_function_new(&small) == 0, "the options of a function need the right size");
    require(allogram_counters_new(&small_set) == NULL, "the options of a set need the right size");
    start();
    allogram_count_words(set, 100); /* outside of all functions */
    allogram_enter(set, 0);
    allogram_count_words(set, 10);
    call(f, 1);
    allogram_leave(set);
    call(4711, 1000);
    want(NONE, 2, 1110, 0);
    want("f", 1, 1, 0);
    finish();
}

static void no_set(void) {
    start();
    allogram_enter(NULL, f);
    allogram_tail_call(NULL, f);
    allogram_count_words(NULL, 1);
    allogram_count_time(NULL, 1);
    allogram_leave(NULL);
    allogram_leave_to(NULL, 0);
    require(allogram_depth(NULL) == 0, "without a set the depth is 0");
    allogram_counters_pause(NULL);
    allogram_counters_resume(NULL);
    allogram_counters_reset(NULL);
    allogram_counters_tell(NULL);
    allogram_counters_free(NULL);
    call(f, 2);
    want("f", 1, 2, 0);
    finish();
}

static void leave_without_enter(void) {
    start();
    allogram_leave(set);
    allogram_leave(set);
    allogram_leave_to(set, 0);
    allogram_leave_to(set, 1000);
    call(f, 1);
    allogram_leave(set);
    call(f, 1);
    require(allogram_depth(set) == 0, "no function is entered");
    want("f", 2, 2, 0);
    finish();
}

static void tail_calls_and_exceptions(void) {
    start();
    allogram_tail_call(set, g); /* outside of all functions, a tail call is an enter */
    require(allogram_depth(set) == 1, "one leave ends a tail call outside of all functions");
    const uint64_t depth = allogram_depth(set);
    for (int i = 0; i < 100; i++) {
        allogram_enter(set, f);
    }
    allogram_leave_to(set, depth);
    allogram_count_words(set, 7); /* counts for g */
    for (int i = 0; i < 50; i++) {
        allogram_tail_call(set, g);
    }
    require(allogram_depth(set) == 1, "tail calls do not increase the depth");
    allogram_leave(set);
    require(allogram_depth(set) == 0, "one leave ends all tail calls");
    want("g", 51, 7, 0);
    want("f", 100, 0, 0);
    finish();
}

/* Negative words and times are subtracted, and no count becomes negative. */
static void negative_steps(void) {
    start();
    allogram_step(set, 0, f, 0, 0);
    allogram_step(set, 1, g, 0, 100);           /* 100 ns for f */
    allogram_step(set, 1, 0, 5, (uint64_t)-30); /* g had no time */
    allogram_step(set, 1, g, 0, (uint64_t)-40); /* 60 ns remain for f */
    allogram_step(set, 0, 0, (uint64_t)-9, 7);  /* g had 5 words */
    want("f", 1, 0, 60);
    want("g", 2, 0, 7);
    finish();
}

/* A caller whose own call was not reported is on the path of the next call, and has no calls. */
static void caller_without_call(void) {
    start();
    allogram_enter_caller(set, f);
    allogram_enter(set, g);
    allogram_count_words(set, 3); /* counts for g */
    allogram_leave_to(set, 0);
    allogram_enter(set, f);
    allogram_leave(set);
    want("f", 1, 0, 0);
    want("g", 1, 3, 0);
    finish();
}

static void paused(void) {
    start();
    allogram_enter(set, f);
    allogram_counters_pause(set);
    call(g, 1000);
    allogram_enter(set, g);
    allogram_counters_resume(set);
    allogram_count_words(set, 1); /* counts for g, although its call was not counted */
    allogram_leave(set);
    allogram_count_words(set, 10);
    allogram_pause();
    call(g, 1000);
    allogram_enter(set, g);
    allogram_count_time(set, 1000);
    allogram_resume();
    allogram_count_words(set, 2);
    allogram_leave(set);
    allogram_count_words(set, 20);
    allogram_leave(set);
    require(allogram_depth(set) == 0, "all functions are left");
    want("f", 1, 30, 0);
    want("g", 0, 3, 0);
    finish();
}

static void reset(void) {
    start();
    call(g, 1000);
    allogram_enter(set, f);
    call(g, 1000);
    allogram_enter(set, f);
    allogram_count_words(set, 1000);
    allogram_counters_tell(set);
    allogram_counters_reset(set);
    allogram_count_words(set, 1); /* counts for the inner f */
    allogram_leave(set);
    call(g, 10);
    allogram_leave(set);
    require(allogram_depth(set) == 0, "all functions are left");
    want("f", 0, 1, 0);
    want("g", 1, 10, 0);
    finish();
}

static void counted_time(void) {
    start();
    allogram_count_time(set, 1000); /* no function is open */
    allogram_enter(set, f);
    allogram_count_time(set, 11);
    allogram_enter(set, g);
    allogram_count_time(set, 5);
    allogram_leave(set);
    allogram_count_time(set, 11);
    allogram_leave(set);
    want("f", 1, 0, 22);
    want("g", 1, 0, 5);
    finish();
}

static void *count_in_thread(void *unused) {
    (void)unused;
    allogram_counters *own = allogram_counters_new(NULL);
    for (int i = 0; i < 10000; i++) {
        allogram_enter(own, f);
        allogram_count_words(own, 1);
        allogram_enter(own, g);
        allogram_leave(own);
        allogram_leave(own);
    }
    return NULL;
}

static void threads(void) {
    enum { THREADS = 4 };
    pthread_t ids[THREADS];
    start();
    for (int i = 0; i < THREADS; i++) {
        require(pthread_create(&ids[i], NULL, count_in_thread, NULL) == 0,
                "pthread_create succeeds");
    }
    for (int i = 0; i < 100; i++) { /* reports counts while other threads count */
        call(f, 1);
        allogram_counters_tell(set);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(ids[i], NULL);
    }
    want("f", 100 + 10000 * THREADS, 100 + 10000 * THREADS, 0);
    want("g", 10000 * THREADS, 0, 0);
    finish();
}

static void processes(void) {
    start();
    for (int i = 0; i < 1000; i++) {
        char name[32];
        snprintf(name, sizeof(name), "<0.%d.0>", i);
        const struct allogram_counters_options options = {
            .size = sizeof(options), .runtime = "vm", .process = name, .initial_call = "f"};
        set = allogram_counters_new(&options);
        call(i % 2 ? f : g, 3);
        allogram_counters_free(set);
    }
    want("f", 500, 1500, 0);
    want("g", 500, 1500, 0);
    finish();
}

/* One function calls 5,000 functions: their call paths need more than one page, and so do the
 * functions. */
static void many(void) {
    static allogram_function many[5000];
    start();
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 5000; i++) {
            const struct allogram_function_options options = {
                .size = sizeof(options), .name = "same name", .line = i + 1};
            const allogram_function number = allogram_function_new(&options);
            require(number != 0 && (round == 0 || number == many[i]),
                    "the same options give the same function");
            many[i] = number;
            allogram_enter(set, f);
            call(number, 2);
            allogram_leave(set);
        }
    }
    want("f", 10000, 0, 0);
    want("same name", 10000, 20000, 0);
    finish();
}

enum { WIDTH = 10, LEVELS = 5 };

static void call_all(const allogram_function functions[WIDTH], int level) {
    for (unsigned i = 0; i < WIDTH; i++) {
        allogram_enter(set, functions[i]);
        allogram_count_words(set, i + 1);
        if (level < LEVELS) {
            call_all(functions, level + 1);
        }
        allogram_leave(set);
    }
}

/* Each of ten functions calls all ten, five levels deep: 111,110 call paths. */
static void many_paths(void) {
    allogram_function functions[WIDTH];
    char name[8];
    for (unsigned i = 0; i < WIDTH; i++) {
        snprintf(name, sizeof(name), "p%u", i);
        const struct allogram_function_options options = {.size = sizeof(options), .name = name};
        functions[i] = allogram_function_new(&options);
        want(name, 11111, 11111 * (uint64_t)(i + 1), 0);
    }
    start();
    call_all(functions, 1);
    finish();
}

/* Four functions with one name; not all of them have a file and a line. */
static void one_name(void) {
    static const struct {
        const char *file;
        uint32_t line;
    } places[] = {{"a.vm", 1}, {"b.vm", 9}, {NULL, 7}, {NULL, 0}};
    allogram_function new[4];
    for (size_t i = 0; i < 4; i++) {
        const struct allogram_function_options options = {.size = sizeof(options),
                                                          .name = "new",
                                                          .file = places[i].file,
                                                          .runtime = "vm",
                                                          .line = places[i].line};
        new[i] = allogram_function_new(&options);
    }
    start();
    allogram_enter(set, f);
    for (int i = 0; i < 10; i++) {
        call(new[0], 1);
        call(new[1], 100);
    }
    allogram_leave(set);
    for (int i = 0; i < 10; i++) {
        call(new[1], 100);
    }
    for (int i = 0; i < 3; i++) {
        call(new[2], 1);
    }
    call(new[3], 5);
    want("f", 1, 0, 0);
    want("new", 34, 2018, 0);
    finish();
}

/* Nests calls deeper than the largest number of call paths. */
static void too_deep(void) {
    enum { DEPTH = 1100000, PATHS_MOST = 1048559 };
    start();
    for (int i = 0; i < DEPTH; i++) {
        allogram_enter(set, f);
    }
    require(allogram_depth(set) == DEPTH, "all calls increase the depth");
    allogram_count_words(set, 5);
    allogram_tail_call(set, g); /* this call is lost, too */
    for (int i = 0; i < DEPTH; i++) {
        allogram_leave(set);
    }
    require(allogram_depth(set) == 0, "all functions are left");
    call(f, 1);
    want("f", PATHS_MOST + 1, 6, 0);
    (void)allogram_stop();
    say(DEPTH - PATHS_MOST + 1);
}

static void exit_without_stop(void) {
    start();
    call(f, 1);
    allogram_enter(set, g);
    want("f", 1, 1, 0);
    want("g", 1, 0, 0);
    say(0);
    exit(0);
}

/* In these cases the process ends without running destructors. Under `allogram run` no counts are
 * lost. */
static void count_before_the_end(void) {
    start();
    call(f, 1);
    call(f, 2);
    want("f", 2, 3, 0);
    say(0);
}

static void left_by__exit(void) {
    count_before_the_end();
    _exit(0);
}

static void left_by_quick_exit(void) {
    count_before_the_end();
    quick_exit(0);
}

static void leave_now(int signal) {
    (void)signal;
    _Exit(0);
}

static void left_in_a_handler(void) {
    count_before_the_end();
    (void)signal(SIGUSR1, leave_now);
    (void)raise(SIGUSR1);
}

/* A child that shares this process's memory ends, and its parent goes on. */
static void vforked(void) {
    start();
    call(f, 1);
    const pid_t pid = vfork();
    if (pid == 0) {
        _exit(0);
    }
    (void)waitpid(pid, NULL, 0);
    call(f, 2);
    want("f", 2, 3, 0);
    finish();
}

static void killed(void) {
    start();
    call(f, 1);
    allogram_counters_tell(set);
    call(f, 1);
    allogram_counters_tell(set);
    call(f, 1000); /* counted after the last allogram_counters_tell: the writer process reads these
                    * counts from shared memory */
    want("f", 3, 1002, 0);
    say(0);
    (void)raise(SIGKILL);
}

static void killed_deep(void) {
    enum { LEVELS = 10000 }; /* each level is a call path */
    start();
    for (int i = 0; i < LEVELS; i++) {
        allogram_enter(set, f);
        allogram_count_words(set, 2);
    }
    want("f", LEVELS, 2 * LEVELS, 0);
    say(0);
    (void)raise(SIGKILL);
}

static void sessions_in_turn(void) {
    allogram_enter(set, f); /* entered before the first session begins */
    for (uint64_t i = 1; i <= 3; i++) {
        start();
        for (uint64_t k = 0; k < i; k++) {
            call(g, i);
        }
        allogram_enter(set, f); /* f is not left before its session ends */
        want("g", i, i * i, 0);
        want("f", 1, 0, 0);
        finish();
        call(g, 1000);
        allogram_counters_tell(set);
        allogram_counters_reset(set);
        require(allogram_depth(set) == 0, "no call is counted");
    }
}

/* The child is forked inside of f. Without `allogram run` the child has no session. */
static void forked_child(void) {
    start();
    allogram_enter(set, f);
    allogram_count_words(set, 1);
    const pid_t child = fork();
    if (child == 0) {
        call(g, 10);
        allogram_count_words(set, 100);
        allogram_leave(set);
        exit(allogram_stop() == 0 ? 9 : 0);
    }
    int status = -1;
    require(waitpid(child, &status, 0) == child && status == 0, "the child ends with status 0");
    allogram_leave(set);
    call(g, 2);
    want("f", 1, 1, 0);
    want("g", 1, 2, 0);
    finish();
    want("f", 0, 100, 0);
    want("g", 1, 10, 0);
    say(0);
}

/* nest: g(1000) calls f(999) calls g(998) ... Then f calls itself 100,000 times. The paths are g,
 * g-f, g-f-g and f. */
static void nest(int level) {
    if (level > 0) {
        allogram_enter(set, level % 2 ? f : g);
        allogram_count_words(set, level % 2 ? 1 : 10);
        nest(level - 1);
        allogram_leave(set);
    }
}

static void folded(void) {
    const struct allogram_counters_options options = {.size = sizeof options,
                                                      .recursion = ALLOGRAM_FOLD_RECURSION};
    start();
    set = allogram_counters_new(&options);
    nest(1000);
    require(allogram_depth(set) == 0, "all entered functions are left");
    for (int level = 0; level < 100000; level++) {
        allogram_step(set, (uint64_t)level, f, 0, 0);
        allogram_count_words(set, 1);
    }
    allogram_step(set, 0, 0, 3, 0); /* 3 words for the innermost f, before it is left */
    require(allogram_depth(set) == 0, "the step leaves all functions");
    allogram_step(set, 0, g, 0, 0);
    allogram_count_calls(set, f, 10, 7, 0); /* ten calls below g, which are counted without entering
                                             * f */
    require(allogram_depth(set) == 1, "calls that are only counted keep the current function");
    want("f", 100510, 100510, 0);
    want("g", 501, 5000, 0);
    allogram_leave(set);
    finish();
}

/* A reset in the middle of a recursion keeps the current path, whose repeated functions are folded
 * (see nest). */
static void folded_reset(void) {
    const struct allogram_counters_options options = {.size = sizeof options,
                                                      .recursion = ALLOGRAM_FOLD_RECURSION};
    start();
    set = allogram_counters_new(&options);
    for (int level = 0; level < 3000; level++) {
        allogram_enter(set, level % 3 ? f : g);
    }
    allogram_counters_reset(set);
    require(allogram_depth(set) == 3000, "entered functions stay entered");
    allogram_count_words(set, 5); /* level 2999: f, called by f */
    allogram_leave(set);
    allogram_leave(set);
    allogram_count_words(set, 7); /* level 2997: g */
    call(f, 1);
    allogram_leave_to(set, 0);
    call(g, 2);
    want("f", 1, 6, 0);
    want("g", 1, 9, 0);
    finish();
}

/* Reports memory that no function is charged with (messages, arguments, the profiler's own), and a
 * garbage collection of a process of the runtime; tests/conformance/functions_counted.py has the
 * expected numbers. */
static void apart(void) {
    const struct allogram_counters_options options = {
        .size = sizeof options, .process = "<0.7.0>", .runtime = "calc", .initial_call = "f"};
    start();
    set = allogram_counters_new(&options);
    allogram_count_apart(set, ALLOGRAM_MESSAGES, 1, 100);
    allogram_count_apart(set, ALLOGRAM_MESSAGES, 1, 20);
    allogram_count_apart(set, ALLOGRAM_ARGUMENTS, 1, 3);
    allogram_count_apart(set, ALLOGRAM_PROFILER, 5, 20);
    allogram_enter(set, f);
    allogram_counters_rename(set, "keeper");
    allogram_counters_gc_begin(set, 64, 800);
    allogram_counters_gc_end(set, "minor", 160);
    allogram_counters_gc_end(set, "an end without a beginning", 160);
    allogram_leave(set);
    want("f", 1, 0, 0);
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"never_registered", never_registered},
    {"no_set", no_set},
    {"leave_without_enter", leave_without_enter},
    {"tail_calls_and_exceptions", tail_calls_and_exceptions},
    {"negative_steps", negative_steps},
    {"caller_without_call", caller_without_call},
    {"paused", paused},
    {"reset", reset},
    {"folded", folded},
    {"folded_reset", folded_reset},
    {"apart", apart},
    {"counted_time", counted_time},
    {"threads", threads},
    {"processes", processes},
    {"many", many},
    {"many_paths", many_paths},
    {"one_name", one_name},
    {"too_deep", too_deep},
    {"exit_without_stop", exit_without_stop},
    {"left_by__exit", left_by__exit},
    {"left_by_quick_exit", left_by_quick_exit},
    {"left_in_a_handler", left_in_a_handler},
    {"vforked", vforked},
    {"killed", killed},
    {"killed_deep", killed_deep},
    {"sessions_in_turn", sessions_in_turn},
    {"forked_child", forked_child},
};

int main(int argc, char **argv) {
    const struct allogram_function_options named_f = {
        .size = sizeof(named_f), .name = "f", .file = "f.vm", .runtime = "vm", .line = 3};
    const struct allogram_function_options named_g = {.size = sizeof(named_g), .name = "g"};
    f = allogram_function_new(&named_f);
    g = allogram_function_new(&named_g);
    set = allogram_counters_new(NULL);
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: function_counters CASE\n");
    return 2;
}
