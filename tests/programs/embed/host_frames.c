/* host_frames.c CASE: a small virtual machine that reports its frames with allogram.h. `interpret`
 * is its loop. A script function that calls another script function stays in the same loop. If a
 * script function calls native code, and the native code calls a script function, that function
 * runs in a new loop. tests/conformance/frames_reported.py has the expected stacks of each case. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <allogram/allogram.h>

enum { FRAMES_MOST = 4096, BLOCK_BYTES = 100 };

struct script_frame {
    allogram_function function;
    uint32_t line;
    const void *position;
};
static __thread struct {
    struct script_frame frames[FRAMES_MOST]; /* outermost first */
    volatile size_t n;                       /* volatile, because allogram's malloc calls `walk`,
                                              * and the compiler assumes that malloc calls no
                                              * function of the program */
    size_t n_walks;
} machine;

static allogram_heap heap;
static allogram_function script_main, dispatch, on_click, paint;
static _Atomic uint64_t next_address = 0x1000;

static uint64_t new_address(void) {
    return atomic_fetch_add(&next_address, 0x1000) + 0x1000;
}
static volatile int zero;

static size_t walk(void *context, struct allogram_frame *frames, size_t most) {
    size_t n = 0;
    (void)context;
    machine.n_walks++;
    for (size_t i = machine.n; i > 0 && n < most; i--, n++) {
        frames[n].function = machine.frames[i - 1].function;
        frames[n].line = machine.frames[i - 1].line;
        frames[n].position = machine.frames[i - 1].position;
    }
    return n;
}

static void call(allogram_function function, uint32_t line, const void *position) {
    machine.frames[machine.n++] = (struct script_frame){function, line, position};
}

/* Each function does something after its last call, so that no call is compiled to a jump. */
__attribute__((noinline)) static void make_block(void) {
    allogram_alloc(heap, new_address(), BLOCK_BYTES, 0);
    zero = 0;
}

__attribute__((noinline)) static void draw(void (*inner)(void)) {
    inner();
    zero = 0;
}

/* Script frames main:3 -> dispatch:80 -> on_click:12 in one loop, then the native function that
 * on_click calls. */
__attribute__((noinline)) static void interpret(void (*native)(void)) {
    volatile int here = 0;
    const size_t before = machine.n;
    call(script_main, 3, (const void *)&here);
    call(dispatch, 80, NULL);
    machine.frames[machine.n - 1].position = (const void *)&here;
    call(on_click, 12, (const void *)&here);
    native();
    machine.n = before;
}

__attribute__((noinline)) static void interpret_paint(void) {
    volatile int here = 0;
    call(paint, 5, (const void *)&here);
    make_block();
    machine.n--;
}

static void paint_natively(void) {
    draw(interpret_paint);
    zero = 0;
}

static void start(void) {
    char message[512];
    (void)allogram_start(NULL, message, sizeof(message));
    (void)allogram_walk_set(walk, NULL);
}

static void finish(void) {
    (void)allogram_stop();
    printf("%s\n", allogram_trace());
    fflush(stdout);
}

/* ---- cases ---- */

static void one_run(void) {
    start();
    interpret(make_block);
    finish();
}

static void two_runs(void) {
    start();
    interpret(paint_natively);
    finish();
}

static void no_run(void) {
    start();
    make_block();
    finish();
}

static void walk_removed(void) {
    start();
    (void)allogram_walk_set(NULL, NULL);
    interpret(make_block);
    if (machine.n_walks != 0) {
        printf("wrong: a walk function that was removed was called\n");
    }
    finish();
}

static void make_three(void) {
    static const struct allogram_frame inlined[] = {{0, 0, NULL}, {0, 0, NULL}};
    struct allogram_frame own[2] = {inlined[0], inlined[1]};
    own[0].function = paint;
    own[0].line = 7;
    own[1].function = dispatch;
    own[1].line = 8;
    const struct allogram_block blocks[] = {
        {.address = new_address(), .bytes = 1},
        {.address = new_address(), .bytes = 2, .frames = own, .n_frames = 2},
        {.address = new_address(), .bytes = 3, .frames = own, .n_frames = 1},
    };
    allogram_alloc_together(heap, blocks, 3);
    zero = 0;
}

static void together(void) {
    start();
    interpret(make_three);
    (void)allogram_walk_set(NULL, NULL);
    make_three(); /* without a walk function, the native frames are still there */
    finish();
}

static void strange_frames(void) {
    start();
    call(0, 1, NULL);
    call(4711, 0, (const void *)(uintptr_t)16);
    make_block();
    finish();
}

static void deep(void) {
    start();
    volatile int here = 0;
    for (uint32_t i = 0; i < 1000; i++) {
        call(paint, i + 1, (const void *)&here);
    }
    make_block();
    finish();
}

static void *run_one(void *unused) {
    (void)allogram_walk_set(walk, NULL);
    interpret(make_block);
    return unused;
}

static void threads(void) {
    enum { THREADS = 4 };
    pthread_t made[THREADS];
    start();
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&made[i], NULL, run_one, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(made[i], NULL);
    }
    interpret(paint_natively);
    finish();
}

static void on_signal(int number) {
    (void)number;
    make_block();
    zero = 0;
}

static void raise_it(void) {
    raise(SIGUSR1);
    zero = 0;
}

static void signal_handler(void) {
    signal(SIGUSR1, on_signal);
    start();
    interpret(raise_it);
    finish();
}

/* The child continues in the middle of the script. Under `allogram run` the child has a trace of
 * its own. */
static void fork_in_script(void) {
    const pid_t child = fork();
    make_block();
    if (child == 0) {
        exit(0);
    }
    (void)waitpid(child, NULL, 0);
}

static void forked(void) {
    start();
    interpret(fork_in_script);
    finish();
}

static void make_by_malloc(void) {
    static char *volatile block;
    block = malloc(12345);
    zero = block != NULL;
}

static void by_malloc(void) {
    start();
    interpret(make_by_malloc);
    finish();
}

static void collect(void) {
    allogram_gc_begin(heap, 10, 20);
    allogram_gc_end(heap, "minor", 10);
    zero = 0;
}

static void collection(void) {
    start();
    interpret(collect);
    finish();
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"one_run", one_run},
    {"two_runs", two_runs},
    {"no_run", no_run},
    {"walk_removed", walk_removed},
    {"together", together},
    {"strange_frames", strange_frames},
    {"deep", deep},
    {"threads", threads},
    {"signal_handler", signal_handler},
    {"forked", forked},
    {"by_malloc", by_malloc},
    {"collection", collection},
};

static allogram_function function(const char *name, uint32_t line) {
    const struct allogram_function_options options = {.size = sizeof(options),
                                                      .name = name,
                                                      .file = "app.script",
                                                      .runtime = "script",
                                                      .line = line};
    return allogram_function_new(&options);
}

int main(int argc, char **argv) {
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "objects", .allocator = "vm", .runtime = "script"};
    heap = allogram_heap_new(&options);
    script_main = function("main", 1);
    dispatch = function("dispatch", 70);
    on_click = function("on_click", 10);
    paint = function("paint", 4);
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    }
    fprintf(stderr, "usage: host_frames CASE\n");
    return 2;
}
