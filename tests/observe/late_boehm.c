/* late_boehm.c: a program with the Boehm collector, to which allogram attaches and from which it
 * detaches.
 *
 *     usage: late_boehm [busy]
 *
 * busy: two threads allocate all the time. The program allocates and keeps 1000 blocks of 100 bytes
 * (not in counted()), and prints "ready". Each line of its input is a command, which the program
 * answers with the same line:
 *
 *     make N    allocates N blocks of 64 bytes in counted(), and keeps no pointer to them
 *     keep N    allocates N blocks of 100 bytes in counted(), and keeps pointers to them
 *     drop      overwrites the pointers to the kept blocks, and runs a collection
 *     free      frees the kept blocks by GC_FREE
 *     listen    registers a function that the collector calls at collections; after this, the
 *               answer to "drop" is "drop notified" if the collector called this function */
#define GC_THREADS
#include <gc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { KEPT_MOST = 100000 };
static void *kept[KEPT_MOST];
static long n_kept;
static _Atomic int was_notified;

static __attribute__((noinline)) void *counted(size_t bytes) {
    char *block = GC_MALLOC(bytes);
    block[0] = 1;
    return block;
}

static void *be_busy(void *unused) {
    char *last = NULL;
    for (;;) {
        for (int i = 0; i < 100; i++) {
            char *block = GC_MALLOC(16 + (size_t)i * 8);
            if (block[15] != 0) {
                puts("a block was not empty");
            }
            block[15] = 1;
            last = block;
        }
        volatile double product = last[0];
        for (int i = 0; i < 3000; i++) {
            product = product * 1.0000001 + 1;
        }
    }
    return unused;
}

static void count_event(GC_EventType event) {
    atomic_fetch_add(&was_notified, event == GC_EVENT_END);
}

int main(int argc, char **argv) {
    char line[64];
    long n = 0;
    pthread_t thread;
    GC_INIT();
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 0; argc > 1 && i < 2; i++) {
        GC_pthread_create(&thread, NULL, be_busy, argv);
    }
    for (; n_kept < 1000; n_kept++) {
        kept[n_kept] = GC_MALLOC(100);
    }
    puts("ready");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        if (sscanf(line, "make %ld", &n) == 1) {
            for (long i = 0; i < n; i++) {
                counted(64);
            }
        } else if (sscanf(line, "keep %ld", &n) == 1) {
            for (long i = 0; i < n && n_kept < KEPT_MOST; i++) {
                kept[n_kept++] = counted(100);
            }
        } else if (strcmp(line, "drop") == 0) {
            atomic_store(&was_notified, 0);
            memset(kept, 0, sizeof kept);
            n_kept = 0;
            GC_gcollect();
            GC_gcollect();
            strcat(line, atomic_load(&was_notified) ? " notified" : "");
        } else if (strcmp(line, "free") == 0) {
            while (n_kept > 0) {
                GC_FREE(kept[--n_kept]);
                kept[n_kept] = NULL;
            }
        } else if (strcmp(line, "listen") == 0) {
            GC_set_on_collection_event(count_event);
        }
        puts(line);
    }
    return 0;
}
