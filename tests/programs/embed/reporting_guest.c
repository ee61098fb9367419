/* reporting_guest.c CASE: a stand-in for an interpreter. It reports its memory with allogram.h, as
 * a runtime does for which allogram has no adapter (code of its own for one runtime). It also
 * counts this memory itself, and prints the counts as JSON. The conformance tests of adapters
 * (tests/conformance/adapter_kit.py) also test this program. Its blocks have made-up addresses, at
 * which there is no memory. */
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

enum { TYPES = 3, FRAMES_MOST = 64 };
static const char *const names[TYPES] = {"table", "string", "closure"};
static allogram_heap heap;
static allogram_type types[TYPES];
static _Atomic uint64_t allocated_blocks[TYPES], allocated_bytes[TYPES], in_use_blocks[TYPES];
static _Atomic uint64_t next_address = 4096;

static uint64_t new_address(void) {
    return atomic_fetch_add(&next_address, 65536) + 65536;
}

static __thread struct {
    struct allogram_frame frames[FRAMES_MOST]; /* outermost first */
    volatile size_t n;                         /* volatile, because allogram's malloc calls `walk`,
                                                * and the compiler assumes that malloc calls no
                                                * function of the program */
} machine;
static allogram_function leaf, by_native, caller, script;
static volatile int zero;

/* ---- memory ---- */

static uint64_t take(int type, size_t bytes) {
    const uint64_t address = new_address();
    allogram_alloc(heap, address, bytes, types[type]);
    allocated_blocks[type]++;
    allocated_bytes[type] += bytes;
    in_use_blocks[type]++;
    return address;
}

static void give(int type, uint64_t address) {
    allogram_free(heap, address);
    in_use_blocks[type]--;
}

static uint64_t move(int type, uint64_t address, size_t bytes) {
    const uint64_t moved_to = new_address();
    allogram_realloc(heap, address, moved_to, bytes, types[type]);
    allocated_blocks[type]++;
    allocated_bytes[type] += bytes;
    return moved_to;
}

static void print_truth(void) {
    printf("{\"pid\": %d, \"types\": {", (int)getpid());
    for (int type = 0, n = 0; type < TYPES; type++) {
        if (allocated_blocks[type] != 0) {
            printf("%s\"%s\": [%llu, %llu, %llu]", n++ ? ", " : "", names[type],
                   (unsigned long long)allocated_blocks[type],
                   (unsigned long long)allocated_bytes[type],
                   (unsigned long long)in_use_blocks[type]);
        }
    }
    printf("}}\n");
    fflush(stdout);
}

/* ---- frames ---- */

static size_t walk(void *context, struct allogram_frame *frames, size_t most) {
    size_t n = 0;
    (void)context;
    for (size_t i = machine.n; i > 0 && n < most; i--) {
        frames[n++] = machine.frames[i - 1];
    }
    return n;
}

static void push(allogram_function function, uint32_t line, const void *position) {
    machine.frames[machine.n++] = (struct allogram_frame){function, line, position};
}

__attribute__((noinline)) static void run_leaf(void) {
    volatile int here = 0;
    push(by_native, 50, (const void *)&here);
    push(leaf, 47, (const void *)&here);
    (void)take(0, 56);
    machine.n -= 2;
}

__attribute__((noinline)) static void call_back(void) {
    run_leaf();
    zero = 0;
}

__attribute__((noinline)) static void run_frames(void) {
    volatile int here = 0;
    push(script, 58, (const void *)&here);
    push(caller, 54, (const void *)&here);
    call_back();
    machine.n -= 2;
}

/* ---- cases ---- */

static void counts(void) {
    uint64_t kept[500];
    for (int i = 0; i < 500; i++) {
        kept[i] = take(i % TYPES, (size_t)i);
    }
    for (int i = 0; i < 500; i += 2) {
        give(i % TYPES, kept[i]);
    }
}

static void deaths(void) {
    for (int i = 0; i < 500; i++) {
        give(i % TYPES, take(i % TYPES, (size_t)i));
    }
}

static void moves(void) {
    uint64_t address = take(1, 1);
    for (size_t bytes = 2; bytes < 10000; bytes *= 2) {
        address = move(1, address, bytes);
    }
}

__attribute__((noinline)) static void ask(void) {
    void *volatile block = malloc(54321);
    zero = block != NULL;
}

static void native_memory(void) {
    volatile int here = 0;
    push(script, 109, (const void *)&here);
    ask();
    machine.n--;
}

static void forked(void) {
    for (int i = 0; i < 10; i++) {
        (void)take(0, 56);
    }
    fflush(stdout);
    const pid_t child = fork();
    for (int i = 0; i < (child == 0 ? 7 : 3); i++) {
        (void)take(0, 56);
        call_back();
    }
    if (child == 0) {
        print_truth();
        exit(3);
    }
    (void)waitpid(child, NULL, 0);
}

static void collections(void) {
    for (int i = 0; i < 3; i++) {
        allogram_gc_begin(heap, 10, 20);
        allogram_gc_end(heap, "full", 10);
    }
}

static void ends_by_exit(void) {
    counts();
    print_truth();
    exit(3);
}

static void ends_by__exit(void) {
    counts();
    print_truth();
    _exit(4);
}

static void ends_by_quick_exit(void) {
    counts();
    print_truth();
    quick_exit(5);
}

static void ends_by_abort(void) {
    counts();
    print_truth();
    abort();
}

static void ends_by_kill(void) {
    counts();
    print_truth();
    raise(SIGKILL);
}

static void *run_in_thread(void *unused) {
    counts();
    return unused;
}

static void threads(void) {
    enum { THREADS = 4 };
    pthread_t made[THREADS];
    for (int i = 0; i < THREADS; i++) {
        if (pthread_create(&made[i], NULL, run_in_thread, NULL) != 0) {
            abort();
        }
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(made[i], NULL);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {
    {"counts", counts},
    {"deaths", deaths},
    {"moves", moves},
    {"frames", run_frames},
    {"native_memory", native_memory},
    {"forked", forked},
    {"threads", threads},
    {"collections", collections},
    {"ends_by_exit", ends_by_exit},
    {"ends_by__exit", ends_by__exit},
    {"ends_by_quick_exit", ends_by_quick_exit},
    {"ends_by_abort", ends_by_abort},
    {"ends_by_kill", ends_by_kill},
};

static allogram_function function(const char *name, uint32_t line) {
    const struct allogram_function_options options = {.size = sizeof(options),
                                                      .name = name,
                                                      .file = "guest.script",
                                                      .runtime = "guest",
                                                      .line = line};
    return allogram_function_new(&options);
}

int main(int argc, char **argv) {
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "guest", .allocator = "guest", .runtime = "guest"};
    heap = allogram_heap_new(&options);
    for (int type = 0; type < TYPES; type++) {
        types[type] = allogram_type_new(names[type], "guest");
    }
    leaf = function("leaf", 46);
    by_native = function("by_native", 49);
    caller = function("caller", 53);
    script = function("frames", 57);
    (void)allogram_walk_set(walk, NULL);
    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            print_truth();
            return 0;
        }
    }
    fprintf(stderr, "usage: reporting_guest CASE\n");
    return 2;
}
