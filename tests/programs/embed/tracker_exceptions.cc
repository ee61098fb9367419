/* tracker_exceptions.cc: the checks of throwing_tracker.h with calls of allogram.h. Ends with 0 when all checks hold. */
#include "throwing_tracker.h"

int main() {
    struct allogram_heap_options options = {};
    options.size = sizeof(options);
    options.allocator = "arena";
    const allogram_heap heap = allogram_heap_new(&options);
    const bool wrong = track_blocks(
        0, [heap](uint64_t i) { allogram_alloc(heap, i << 4, 10, 0); }, [heap](uint64_t i) { allogram_free(heap, i << 4); });
    return wrong ? 1 : 0;
}
