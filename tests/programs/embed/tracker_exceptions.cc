/* tracker_exceptions.cc: C++ exceptions leave the callbacks of a tracker; after that, blocks, values and sampling must be as
 * allogram.h documents. Ends with 0 when all checks hold. */
#include <cstdio>
#include <stdexcept>

#include <allogram/allogram.h>

static unsigned allocs, frees;
static bool throws = true;

static void *on_alloc(void *, const struct allogram_sample *sample) {
    allocs++;
    if (throws) {
        throw std::runtime_error("from an alloc");
    }
    return reinterpret_cast<void *>(static_cast<uintptr_t>(sample->address));
}

static void on_free(void *, void *) {
    frees++;
    throw 42;
}

static bool is_wrong(bool holds, const char *what) {
    if (!holds) {
        std::printf("not so: %s\n", what);
    }
    return !holds;
}

int main() {
    struct allogram_heap_options heap_options = {};
    heap_options.size = sizeof(heap_options);
    heap_options.allocator = "arena";
    const allogram_heap heap = allogram_heap_new(&heap_options);
    struct allogram_tracker_options options = {};
    options.size = sizeof(options);
    options.interval_bytes = ALLOGRAM_EVERY_BLOCK;
    options.on_alloc = on_alloc;
    options.on_free = on_free;
    bool wrong = is_wrong(allogram_tracker_start(&options) >= 1, "a tracker starts");
    unsigned caught = 0;
    for (uint64_t i = 1; i <= 100; i++) {
        try {
            allogram_alloc(heap, i << 4, 10, 0);
        } catch (const std::runtime_error &) {
            caught++;
        }
        allogram_free(heap, i << 4);
    }
    wrong |= is_wrong(caught == 100 && allocs == 100, "each throws, each is caught");
    wrong |= is_wrong(frees == 0, "what threw has no value");
    throws = false;
    for (uint64_t i = 1; i <= 100; i++) {
        allogram_alloc(heap, i << 4, 10, 0);
        try {
            allogram_free(heap, i << 4);
        } catch (int) {
            caught++;
        }
        allogram_free(heap, i << 4);
    }
    wrong |= is_wrong(caught == 200 && frees == 100, "a death is told once");
    return wrong ? 1 : 0;
}
