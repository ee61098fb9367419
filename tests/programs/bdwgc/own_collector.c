/* own_collector.c: own_allocator.c with the function names by which allogram recognizes the Boehm
 * collector: a collector that never collects, in the same source file as its callers
 * (tests/conformance/own_runtimes.py). The program also prints a checksum of calls of functions
 * that change almost no registers. */
#define malloc GC_malloc
#define free GC_free
#define realloc GC_realloc
#define calloc own_calloc
#define aligned_alloc GC_memalign
#define posix_memalign GC_posix_memalign
#define main work_as_allocator
#include "../allocators/own_allocator.c"
#undef main

typedef void listener_fn(int event);
listener_fn *volatile listener;

ALLOCATOR void GC_set_on_collection_event(listener_fn *function) {
    listener = function;
}

ALLOCATOR listener_fn *GC_get_on_collection_event(void) {
    return listener;
}

ALLOCATOR void *GC_base(void *block) {
    return block;
}

ALLOCATOR int GC_is_marked(const void *block) {
    return block != NULL;
}

ALLOCATOR size_t GC_size(const void *block) {
    const struct head *head = (const struct head *)((const char *)block - HEAD);
    return head->bytes;
}

ALLOCATOR size_t GC_get_total_bytes(void) {
    return allocated_bytes;
}

ALLOCATOR unsigned GC_get_version(void) {
    return 8 << 16 | 2 << 8;
}

ALLOCATOR size_t GC_get_prof_stats_unsafe(size_t *statistics, size_t bytes) {
    for (size_t i = 0; i < bytes / sizeof(*statistics); i++) {
        statistics[i] = 0;
    }
    return bytes;
}

CALLER uint64_t listens(uint64_t a, uint64_t b, uint64_t c, double x, double y) {
    const uint64_t d = a * b, e = b ^ c, f = c + a, g = d * 3, h = e * 5, i = f * 7;
    const double z = x * y, v = x + y;
    GC_set_on_collection_event(GC_get_on_collection_event());
    listener_fn *now = GC_get_on_collection_event();
    GC_set_on_collection_event(now);
    return a + 3 * b + 5 * c + 7 * d + 11 * e + 13 * f + 17 * g + 19 * h + 23 * i +
           (uint64_t)(x + y + z * 2 + v * 3) + (now != NULL);
}

int main(int argc, char **argv) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < 1000; i++) {
        const uint64_t a = next_random(), b = next_random();
        sum = sum * 3 + listens(a, b, i, (double)i, 2.5);
    }
    say("%llx\n", (unsigned long long)sum);
    return work_as_allocator(argc, argv);
}
