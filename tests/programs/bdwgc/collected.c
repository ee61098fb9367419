/* collected.c: calls every function that gets memory from the Boehm collector. Each is called by a
 * function of the program, which prints its own name, how many blocks and bytes it got, and how
 * many of these blocks died (~0 if the collector decides that). Weak links, which the collector
 * clears when their block dies, count deaths. The other numbers follow from the numbers of rounds
 * of the loops. Where the collector decides how many blocks it returns, the program counts them.
 *
 *     collected CASE: entries, deaths, threads, child */
#define GC_THREADS
#include <gc.h>
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static void *kept[20000];
static size_t n_kept;

static void keep(void *block) {
    if (!block) {
        abort();
    }
    kept[n_kept++] = block;
}

static void say(const char *function, unsigned long blocks, unsigned long bytes,
                unsigned long freed) {
    printf("%s %lu %lu %lu\n", function, blocks, bytes, freed);
}

#define WAY(name, count, bytes, expression)                       \
    static APART void name(void) {                                \
        for (int i = 0; i < (count); i++) {                       \
            keep(expression);                                     \
        }                                                         \
        say(#name, (count), (unsigned long)(count) * (bytes), 0); \
    }

static GC_descr descriptor(void) {
    GC_word bits[1] = {1};
    return GC_make_descriptor(bits, 4);
}

WAY(by_malloc, 700, 24, GC_malloc(24))
WAY(by_malloc_of_nothing, 3, 0, GC_malloc(0))
WAY(by_malloc_large, 5, 70000, GC_malloc(70000))
WAY(by_atomic, 600, 100, GC_malloc_atomic(100))
WAY(by_uncollectable, 50, 40, GC_malloc_uncollectable(40))
WAY(by_atomic_uncollectable, 40, 48, GC_malloc_atomic_uncollectable(48))
WAY(by_off_page, 4, 300000, GC_malloc_ignore_off_page(300000))
WAY(by_atomic_off_page, 4, 200000, GC_malloc_atomic_ignore_off_page(200000))
WAY(by_stubborn, 6, 64, GC_malloc_stubborn(64))
WAY(by_kind, 30, 56, GC_malloc_kind(56, 1))
WAY(by_generic, 30, 72, GC_generic_malloc(72, 1))
WAY(by_typed, 100, 32, GC_malloc_explicitly_typed(32, descriptor()))
WAY(by_typed_array, 10, 320, GC_calloc_explicitly_typed(10, 32, descriptor()))
WAY(by_memalign, 9, 200, GC_memalign(256, 200))
WAY(by_strdup, 20, 6, GC_strdup("hello"))
WAY(by_strndup, 20, 4, GC_strndup("hello", 3))
WAY(by_debug, 25, 80, GC_debug_malloc(80, "here", 1))
WAY(by_debug_atomic, 25, 88, GC_debug_malloc_atomic(88, "here", 2))

static APART void by_posix(void) {
    for (int i = 0; i < 8; i++) {
        void *block = NULL;
        if (GC_posix_memalign(&block, 64, 100) != 0) {
            abort();
        }
        keep(block);
    }
    say("by_posix", 8, 800, 0);
}

/* Takes every block of the list that GC_malloc_many returns; the collector decides how many blocks
 * the list has. */
static APART void by_many(void) {
    unsigned long count = 0;
    for (void *block = GC_malloc_many(48), *next; block; block = next) {
        next = GC_NEXT(block);
        keep(block);
        count++;
    }
    say("by_many", count, count * 48, 0);
}

/* Programs with the inline macros of the collector take blocks from a list of their own until it is
 * empty. */
static APART void by_inline_refill(void) {
    static void *list;
    unsigned long count = 0;
    for (int i = 0; i < 1000; i++) {
        if (!list) {
            GC_generic_malloc_many(64, 1, &list);
            for (void *block = list; block; block = GC_NEXT(block)) {
                count++;
            }
        }
        void *block = list;
        list = GC_NEXT(block);
        keep(block);
    }
    say("by_inline_refill", count, count * 64, 0);
}

static APART void by_realloc(void) {
    for (int i = 0; i < 50; i++) {
        void *block = GC_realloc(NULL, 24); /* a new block */
        block = GC_realloc(block, 28);      /* stays in its place */
        block = GC_realloc(block, 5000);    /* moves */
        block = GC_realloc(block, 100000);  /* becomes a large block */
        keep(block);
    }
    say("by_realloc", 200, 50 * (24 + 28 + 5000 + 100000), 150);
}

static APART void by_free(void) {
    for (int i = 0; i < 300; i++) {
        GC_free(GC_malloc(128));
    }
    GC_free(GC_malloc(90000));
    GC_free(NULL);
    say("by_free", 301, 300 * 128 + 90000, 301);
}

static void entries(void) {
    by_malloc();
    by_malloc_of_nothing();
    by_malloc_large();
    by_atomic();
    by_uncollectable();
    by_atomic_uncollectable();
    by_off_page();
    by_atomic_off_page();
    by_stubborn();
    by_kind();
    by_generic();
    by_typed();
    by_typed_array();
    by_memalign();
    by_strdup();
    by_strndup();
    by_debug();
    by_debug_atomic();
    by_posix();
    by_many();
    by_inline_refill();
    by_realloc();
    by_free();
}

/* ---- deaths ---- */

enum { DYING = 5000 };
static GC_word *links; /* hidden addresses, zeroed by the collector when their block dies */

static APART void dies(size_t bytes, int at) {
    for (int i = 0; i < DYING; i++) {
        char *block = GC_malloc(bytes);
        links[at + i] = GC_HIDE_POINTER(block);
        GC_general_register_disappearing_link((void **)&links[at + i], block);
        if (i % 10 == 0) {
            keep(block);
        }
    }
}

static APART void dies_small(void) {
    dies(24, 0);
}

static APART void dies_large(void) {
    dies(6000, DYING);
}

/* A block with a finalizer lives until the finalizer has run. Blocks that the finalizer allocates
 * are recorded like other blocks of the program. */
static int n_finalized;

static APART void in_finalizer(void *block, void *unused) {
    (void)block;
    (void)unused;
    keep(GC_malloc(16));
    n_finalized++;
}

static APART void finalized(void) {
    for (int i = 0; i < 100; i++) {
        GC_register_finalizer(GC_malloc(400), in_finalizer, NULL, NULL, NULL);
    }
}

static APART void clear_stack(void) {
    char bytes[8192];
    memset(bytes, 0, sizeof(bytes));
    __asm__ volatile("" : : "r"(bytes) : "memory");
}

static int n_heard;
static void listener(GC_EventType event) {
    n_heard += event == GC_EVENT_END;
}

static void deaths(void) {
    links = calloc(2 * DYING, sizeof(*links));
    GC_set_on_collection_event(listener);
    if (GC_get_on_collection_event() != listener) {
        abort();
    }
    dies_small();
    dies_large();
    finalized();
    clear_stack();
    for (int i = 0; i < 5; i++) {
        GC_gcollect();
        GC_invoke_finalizers();
    }
    unsigned long dead[2] = {0, 0};
    for (int i = 0; i < 2 * DYING; i++) {
        dead[i / DYING] += links[i] == 0;
    }
    say("dies_small", DYING, DYING * 24, dead[0]);
    say("dies_large", DYING, DYING * 6000, dead[1]);
    say("in_finalizer", (unsigned long)n_finalized, (unsigned long)n_finalized * 16, 0);
    printf("# collections %lu heard %d\n", (unsigned long)GC_get_gc_no(), n_heard);
}

/* ---- threads ---- */

enum { THREADS = 4, EACH = 100000 };

static APART void *in_thread(void *unused) {
    void *volatile last = unused;
    for (int i = 0; i < EACH; i++) {
        last = GC_malloc(16 + (size_t)(i % 5) * 16);
        last = GC_malloc_atomic(40);
    }
    return last;
}

static void threads(void) {
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        pthread_create(&thread[i], NULL, in_thread, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(thread[i], NULL);
    }
    say("in_thread", THREADS * EACH * 2,
        THREADS * (EACH / 5 * (16 + 32 + 48 + 64 + 80) + EACH * 40), ~0UL);
}

/* ---- a child ---- */

static APART void before_fork(void) {
    for (int i = 0; i < 1000; i++) {
        keep(GC_malloc(200));
    }
}

static APART void in_child(void) {
    for (int i = 0; i < 500; i++) {
        keep(GC_malloc(300));
    }
    n_kept = 0;
    memset(kept, 0, sizeof(kept));
    clear_stack();
    GC_gcollect();
    say("in_child", 500, 150000, ~0UL);
    fflush(stdout);
}

static void child(void) {
    before_fork();
    const pid_t pid = fork();
    if (pid == 0) {
        in_child();
        exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv) {
    GC_set_handle_fork(1);
    GC_INIT();
    const char *wanted = argc > 1 ? argv[1] : "";
    if (strcmp(wanted, "entries") == 0) {
        entries();
    } else if (strcmp(wanted, "deaths") == 0) {
        deaths();
    } else if (strcmp(wanted, "threads") == 0) {
        threads();
    } else if (strcmp(wanted, "child") == 0) {
        child();
    } else {
        return 2;
    }
    printf("# total %zu\n", GC_get_total_bytes());
    return 0;
}
