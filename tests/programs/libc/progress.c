/* progress.c: allocates without end and counts its events in a file mapped shared, $PROGRESS, which
 * survives a SIGKILL. For allocations and for frees, each thread has two counters: events begun
 * (written before the call) and events done (written after the call), so for each thread the true
 * count is known except for the one event that the kill interrupted. A round is three allocations
 * and two frees.
 *
 * Argument: number of threads (default 1). */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>

#include "../say.h"

enum { THREADS_MAX = 16 };
struct progress { /* read by tests/stress/kill_random.py */
    _Atomic uint64_t n_threads, ready;
    struct {
        _Atomic uint64_t allocations_begun, allocations_done, frees_begun, frees_done;
    } threads[THREADS_MAX];
};
static struct progress *progress;

static void *make(size_t number, size_t size) {
    atomic_fetch_add(&progress->threads[number].allocations_begun, 1);
    void *block = malloc(size);
    OPAQUE(block);
    atomic_fetch_add(&progress->threads[number].allocations_done, 1);
    return block;
}

static void drop(size_t number, void *block) {
    atomic_fetch_add(&progress->threads[number].frees_begun, 1);
    free(block);
    atomic_fetch_add(&progress->threads[number].frees_done, 1);
}

static void *work(void *argument) {
    size_t number = (size_t)(uintptr_t)argument;
    for (;;) {
        void *a = make(number, 40), *b = make(number, 48), *kept = make(number, 8);
        drop(number, b);
        drop(number, a);
        OPAQUE(kept);
    }
    return NULL;
}

int main(int n_arguments, char **arguments) {
    size_t n_threads = n_arguments > 1 ? (size_t)atoi(arguments[1]) : 1;
    const char *path = getenv("PROGRESS");
    int fd = path == NULL || n_threads > THREADS_MAX ? -1 : open(path, O_RDWR);
    progress = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (progress == MAP_FAILED) {
        return 2;
    }
    for (size_t i = 1; i < n_threads; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)(uintptr_t)i);
    }
    atomic_store(&progress->n_threads, n_threads);
    atomic_store(&progress->ready, 1);
    work(NULL);
    return 0;
}
