/* throwing_tracker.h: C++ exceptions leave the callbacks of a tracker (functions of the program
 * that are called for sampled blocks). After an exception, the blocks, the values that callbacks
 * returned and the sampling must be as allogram.h documents. tracker_exceptions.cc and
 * lua_tracker_exceptions.cc allocate the blocks. */
#ifndef THROWING_TRACKER_H
#define THROWING_TRACKER_H

#include <cstdio>
#include <stdexcept>

#include <allogram/allogram.h>

static unsigned allocs, frees;
static bool throws = true;
static allogram_type tracked_type;

static void *on_alloc(void *, const struct allogram_sample *sample) {
    if (sample->type != tracked_type) {
        return nullptr;
    }
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
        std::printf("does not hold: %s\n", what);
    }
    return !holds;
}

/* Tracks 200 blocks of the type. make(i) allocates block i; drop(i) frees it, if it was not freed
 * before. Returns whether a check failed. */
template <class Make, class Drop>
static bool track_blocks(allogram_type type, Make make, Drop drop) {
    tracked_type = type;
    struct allogram_tracker_options options = {};
    options.size = sizeof(options);
    options.interval_bytes = ALLOGRAM_EVERY_BLOCK;
    options.on_alloc = on_alloc;
    options.on_free = on_free;
    bool wrong = is_wrong(allogram_tracker_start(&options) >= 1, "a tracker starts");
    unsigned caught = 0;
    for (uint64_t i = 1; i <= 100; i++) {
        try {
            make(i);
        } catch (const std::runtime_error &) {
            caught++;
        }
        drop(i);
    }
    wrong |= is_wrong(caught == 100 && allocs == 100,
                      "each callback throws, and each exception is caught");
    wrong |= is_wrong(frees == 0, "a block whose callback threw has no value");
    throws = false;
    for (uint64_t i = 1; i <= 100; i++) {
        make(i);
        try {
            drop(i);
        } catch (int) {
            caught++;
        }
        drop(i);
    }
    return wrong | is_wrong(caught == 200 && frees == 100, "a death is reported once");
}

#endif
