/* collected_wild.c: programs that use more of the Boehm collector than its allocation functions:
 * callbacks and weak links of the program, threads that the collector creates, incremental
 * collections, and trackers of allogram.h whose callbacks allocate and collect. The cases
 * callbacks, steps and tracked print how many blocks and bytes a function got, as in collected.c. A
 * line that begins with # has further numbers, which the test of the case compares.
 *
 *     collected_wild CASE: callbacks, threads, steps, tracked, sizes */
#define GC_THREADS
#include <gc.h>
#include <gc/gc_mark.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <allogram/allogram.h>

#define APART __attribute__((noinline, noclone))

static void *volatile kept[20000];
static size_t n_kept;

static void keep(void *block) {
    if (!block) {
        abort();
    }
    kept[n_kept++] = block;
}

static void say(const char *function, unsigned long blocks, unsigned long bytes) {
    printf("%s %lu %lu %lu\n", function, blocks, bytes, ~0UL);
}

/* ---- callbacks of the program ---- */

static int n_notified, n_finalized, n_started, n_roots;

static void notified(void) {
    n_notified++;
}

static void started(void) {
    n_started++;
}

static GC_push_other_roots_proc other_roots;

static void push_roots(void) {
    n_roots++;
    if (other_roots) {
        other_roots();
    }
}

static APART void in_finalizer(void *object, void *data) {
    (void)object;
    (void)data;
    keep(GC_malloc(24));
    n_finalized++;
}

static APART void watched(int from) {
    static void *links[2000];
    for (int i = 0; i < 500; i++) {
        void **block = GC_malloc(64);
        links[from + i] = (void *)GC_HIDE_POINTER(block);
        GC_general_register_disappearing_link(&links[from + i], block);
        GC_register_long_link(&links[from + 1000 + i], block);
        GC_register_finalizer_no_order(block, in_finalizer, NULL, NULL, NULL);
    }
}

static APART void clear_stack(void) {
    volatile char stack[65536];
    memset((void *)stack, 0, sizeof(stack));
}

static void callbacks(void) {
    GC_set_finalize_on_demand(1);
    GC_set_finalizer_notifier(notified);
    GC_set_start_callback(started);
    other_roots = GC_get_push_other_roots();
    GC_set_push_other_roots(push_roots);
    watched(0);
    watched(500);
    clear_stack();
    for (int i = 0; i < 5; i++) {
        GC_gcollect();
        while (GC_should_invoke_finalizers()) {
            GC_invoke_finalizers();
        }
    }
    say("watched", 1000, 64000);
    say("in_finalizer", (unsigned long)n_finalized, (unsigned long)n_finalized * 24);
    printf("# notified %d started %d roots %d finalized %d\n", n_notified, n_started, n_roots,
           n_finalized);
}

/* ---- threads that the collector makes ---- */

enum { THREADS = 4, EACH = 2000 };

static APART void *in_thread(void *unused) {
    void *volatile last = unused;
    for (int i = 0; i < EACH; i++) {
        last = GC_malloc(16 + (size_t)(i % 5) * 16);
        void *again = GC_realloc(GC_malloc_atomic(40), 400);
        if (i % 2 == 0) {
            GC_free(again);
        }
        last = GC_malloc_many(32);
    }
    return last;
}

static void threads(void) {
    GC_allow_register_threads();
    pthread_t thread[THREADS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < THREADS; i++) {
            GC_pthread_create(&thread[i], NULL, in_thread, NULL);
        }
        for (int i = 0; i < THREADS; i++) {
            GC_pthread_join(thread[i], NULL);
        }
    }
}

/* ---- collections in steps ---- */

static APART void in_steps(void) {
    void *volatile last = NULL;
    for (int i = 0; i < 200000; i++) {
        void **block = GC_malloc(32);
        *block = i % 100 == 0 ? NULL : last;
        last = block;
        if (i % 1000 == 0) {
            (void)GC_collect_a_little();
        }
    }
    keep(last);
    say("in_steps", 200000, 200000UL * 32);
}

/* ---- trackers ---- */

static unsigned long n_born, n_died, n_wrong;

static void *on_alloc(void *context, const struct allogram_sample *sample) {
    (void)context;
    n_born += sample->bytes == 80;
    (void)GC_malloc(16); /* not reported, because it is allocated inside of a callback */
    return sample->bytes == 80 ? (void *)~(uintptr_t)sample->address : NULL;
}

static void on_free(void *context, void *value) {
    static int is_running;
    (void)context;
    n_wrong += is_running + (value == NULL);
    is_running = 1;
    n_died++;
    (void)GC_malloc(100);
    if (n_died % 500 == 0) {
        GC_gcollect(); /* allowed, because callbacks run without the collector's lock */
    }
    is_running = 0;
}

static APART void followed(void) {
    for (int i = 0; i < 5000; i++) {
        (void)GC_malloc(80);
    }
    for (int i = 0; i < 100; i++) {
        GC_free(GC_malloc(80));
        keep(GC_malloc(80));
    }
}

static void tracked(void) {
    const struct allogram_tracker_options options = {.size = sizeof(options),
                                                     .interval_bytes = ALLOGRAM_EVERY_BLOCK,
                                                     .on_alloc = on_alloc,
                                                     .on_free = on_free};
    const int tracker = allogram_tracker_start(&options);
    followed();
    clear_stack();
    GC_gcollect();
    (void)GC_malloc(16);
    (void)allogram_tracker_stop();
    for (int i = 0; i < 3; i++) {
        clear_stack();
        GC_gcollect();
        (void)GC_malloc(16);
    }
    say("followed", 5200, 5200 * 80);
    printf("# tracker %d born %lu died %lu wrong %lu\n", tracker, n_born, n_died, n_wrong);
}

/* ---- sizes ---- */

static void sizes(void) {
    for (int i = 0; i < 20000; i++) {
        void *block = GC_malloc_atomic(5000);
        if (i % 10 == 0) {
            keep(block);
        }
    }
    clear_stack();
    for (int i = 0; i < 10; i++) {
        GC_gcollect_and_unmap();
    }
    struct GC_prof_stats_s stats;
    (void)GC_get_prof_stats(&stats, sizeof(stats));
    printf("# heap %lu free %lu unmapped %lu kept %zu\n", (unsigned long)stats.heapsize_full,
           (unsigned long)stats.free_bytes_full, (unsigned long)stats.unmapped_bytes, n_kept);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *wanted = argc > 1 ? argv[1] : "";
    if (strcmp(wanted, "steps") == 0) {
        GC_enable_incremental();
    }
    GC_INIT();
    if (strcmp(wanted, "callbacks") == 0) {
        callbacks();
    } else if (strcmp(wanted, "threads") == 0) {
        threads();
    } else if (strcmp(wanted, "steps") == 0) {
        in_steps();
    } else if (strcmp(wanted, "tracked") == 0) {
        tracked();
    } else if (strcmp(wanted, "sizes") == 0) {
        sizes();
    } else {
        return 2;
    }
    return 0;
}
