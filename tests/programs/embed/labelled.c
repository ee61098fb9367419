/* labelled.c: allocations under labels: a phase of the program, and two requests, of which the
 * second is handed to another thread. It is run with the library of allogram.h alone, and under
 * `allogram run`. By label:
 *
 *     label        heap "nodes"                       malloc
 *     load         3 of 100 bytes, in use             2 of 1000, in use
 *     request 1    5 of 10, type job, freed           1 of 500, freed
 *     request 2    the same                           the same
 *     none         4 of 7, in use                     blocks of the system's libraries */
#include <allogram/allogram.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static allogram_heap nodes;
static allogram_type job;
static void *volatile kept;

static __attribute__((noinline)) void scratch(void) {
    void *volatile block = malloc(500);
    free(block);
}

static __attribute__((noinline)) void work(uint64_t base) {
    for (uint64_t i = 0; i < 5; i++) {
        allogram_alloc(nodes, base + i, 10, job);
    }
    scratch();
    for (uint64_t i = 0; i < 5; i++) {
        allogram_free(nodes, base + i);
    }
}

static __attribute__((noinline)) void load(void) {
    for (uint64_t i = 0; i < 3; i++) {
        allogram_alloc(nodes, 0x1000 + i, 100, 0);
    }
    kept = malloc(1000);
    kept = malloc(1000);
}

static __attribute__((noinline)) void idle(void) {
    for (uint64_t i = 0; i < 4; i++) {
        allogram_alloc(nodes, 0x2000 + i, 7, 0);
    }
}

static void *serve(void *handed_over) {
    (void)allogram_label_set((allogram_label)(uintptr_t)handed_over);
    work(0x4000);
    return NULL;
}

int main(void) {
    const struct allogram_heap_options options = {.size = sizeof(options), .name = "nodes"};
    pthread_t thread;
    nodes = allogram_heap_new(&options);
    job = allogram_type_new("job", NULL);
    (void)allogram_start(NULL, NULL, 0);
    const allogram_label before = allogram_label_set(allogram_label_new("load"));
    load();
    (void)allogram_label_set(before);
    const allogram_label second = allogram_label_new("request 2");
    if (pthread_create(&thread, NULL, serve, (void *)(uintptr_t)second) != 0) {
        return 1;
    }
    (void)pthread_join(thread, NULL);
    (void)allogram_label_set(allogram_label_new("request 1"));
    work(0x3000);
    (void)allogram_label_set(before);
    idle();
    (void)allogram_stop();
    printf("%s\n", allogram_trace());
    return 0;
}
