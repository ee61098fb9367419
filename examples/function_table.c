/* function_table.c: functions that count their calls and words with allogram.h alone, as an
 * interpreter does for the functions of its programs: recursion, tail calls, an exception.
 *
 *     cc -g function_table.c $(pkg-config --cflags --libs allogram) -o function_table
 *     ./function_table                            writes a trace and prints its path
 *     allogram report --view=functions TRACE      other options: --callers=cons, --tree
 *
 * What the trace must contain (the tests compare every number). "own words" are the words that a
 * function itself allocated; "acc words" (accumulated) include the words of all functions that it
 * called:
 *
 *     function  calls  own words  percent  words per call  acc words
 *     loop        100        100     50.0             1.0        130
 *     cons         20         60     30.0             3.0         60
 *     fib           9         27     13.5             3.0         27
 *     main          1          7      3.5             7.0        200
 *     parse         3          6      3.0             2.0          6
 *     range        11          0      0.0             0.0         30
 *     even          4          0      0.0             0.0          0
 *     odd           4          0      0.0             0.0          0
 *     total       152        200
 *
 * loop calls itself by a tail call, and even and odd call each other by tail calls. cons is called
 * 10 times by range and 10 times by loop. Each call of fib with n > 1 calls fib twice. parse calls
 * itself three levels deep, and an exception leaves all levels; range calls itself eleven levels
 * deep. */
#include <setjmp.h>
#include <stdio.h>

#include <allogram/allogram.h>

enum { MAIN, FIB, RANGE, CONS, LOOP, EVEN, ODD, PARSE, FUNCTIONS };
static const char *const names[FUNCTIONS] = {"main", "fib",  "range", "cons",
                                             "loop", "even", "odd",   "parse"};
static allogram_function functions[FUNCTIONS];
static allogram_counters *counters;

static void fib(int n) {
    allogram_enter(counters, functions[FIB]);
    allogram_count_words(counters, 3);
    if (n > 1) {
        fib(n - 1);
        fib(n - 2);
    }
    allogram_leave(counters);
}

static void cons(void) {
    allogram_enter(counters, functions[CONS]);
    allogram_count_words(counters, 3);
    allogram_leave(counters);
}

static void range(int n) {
    allogram_enter(counters, functions[RANGE]);
    if (n > 0) {
        range(n - 1);
        cons();
    }
    allogram_leave(counters);
}

/* loop(n) ends with a call of loop(n - 1). */
static void loop(int n) {
    allogram_enter(counters, functions[LOOP]);
    for (;;) {
        allogram_count_words(counters, 1);
        if (n % 10 == 0) {
            cons();
        }
        n--;
        if (n == 0) {
            break;
        }
        allogram_tail_call(counters, functions[LOOP]);
    }
    allogram_leave(counters);
}

/* even(n) ends with odd(n - 1), and odd with even. */
static void even(int n) {
    allogram_enter(counters, functions[EVEN]);
    for (int is_even = 1; n > 0; n--) {
        is_even = !is_even;
        allogram_tail_call(counters, functions[is_even ? EVEN : ODD]);
    }
    allogram_leave(counters);
}

static jmp_buf handler;

static void parse(int level, int wrong_level) {
    allogram_enter(counters, functions[PARSE]);
    allogram_count_words(counters, 2);
    if (level == wrong_level) {
        longjmp(handler, 1); /* leaves all levels at once; none of them calls allogram_leave */
    }
    if (level < 9) {
        parse(level + 1, wrong_level);
    }
    allogram_leave(counters);
}

static void run(void) {
    allogram_enter(counters, functions[MAIN]);
    fib(4);
    range(10);
    loop(100);
    even(7);
    const uint64_t depth = allogram_depth(counters);
    if (setjmp(handler) == 0) {
        parse(1, 3);
    }
    allogram_leave_to(counters, depth);
    allogram_count_words(counters, 7);
    allogram_leave(counters);
}

int main(void) {
    for (int i = 0; i < FUNCTIONS; i++) {
        const struct allogram_function_options function = {.size = sizeof(function),
                                                           .name = names[i],
                                                           .file = "program.calc",
                                                           .line = 10 * (uint32_t)i + 1,
                                                           .runtime = "calc"};
        functions[i] = allogram_function_new(&function);
    }
    const struct allogram_counters_options options = {
        .size = sizeof(options), .runtime = "calc", .clock = ALLOGRAM_CLOCK};
    counters = allogram_counters_new(&options);
    char message[512];
    if (allogram_start(NULL, message, sizeof(message)) < 0) {
        fprintf(stderr, "%s\n", message); /* for example, because the program runs under `allogram
                                           * run` */
    }
    run();
    if (allogram_stop() == 0) {
        puts(allogram_trace());
    }
    allogram_counters_free(counters);
    return 0;
}
