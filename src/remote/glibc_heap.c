/* glibc_heap.c: counts the blocks that a process has in glibc's main heap, for the summary of
 * `attach`. ag_glibc_heap_read walks the chunks of malloc in the memory of the process.
 *
 *     chunk:  size of the previous chunk, if that is free | size, flags | the block, or free memory
 *             (struct malloc_chunk in malloc/malloc.c of glibc)
 *
 * Chunks are contiguous from the start of the heap, and the last one (top) ends where the heap
 * ends. The flags of the next chunk show whether a chunk is in use, and the next chunk also repeats
 * the size of a free chunk. So the walk checks every size; memory in which all sizes fit up to the
 * end is taken for a heap. */
#include "glibc_heap.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "remote_memory.h"

enum {
    PREVIOUS_IN_USE = 1,
    FLAGS = 7,
    MAPPED_OR_OTHER = 6, /* flags of chunks outside of the main heap, which must not occur here */
    LEAST_BYTES = 32,
    ALIGNMENT = 16,
    WINDOW_BYTES = 256 << 10,
    TRIES = 3,
};
static const uint64_t most_bytes = UINT64_C(1) << 30;

struct window { /* a copy of the heap from `address` to `address` + n; the heap ends at `high` */
    pid_t pid;
    uint64_t address, high;
    size_t n;
    uint8_t bytes[WINDOW_BYTES];
};

/* Reads the two words of a chunk's header. */
static int read_head(struct window *window, uint64_t chunk, uint64_t ret_head[2]) {
    const size_t head_bytes = 2 * sizeof(uint64_t);
    if (chunk < window->address || chunk + head_bytes > window->address + window->n) {
        const uint64_t rest = window->high - chunk;
        window->n = rest < WINDOW_BYTES ? (size_t)rest : (size_t)WINDOW_BYTES;
        window->address = chunk;
        const int r = ag_remote_memory_read(window->pid, chunk, window->bytes, window->n);
        if (r < 0) {
            window->n = 0;
            return r;
        }
    }
    memcpy(ret_head, window->bytes + (chunk - window->address), head_bytes);
    return 0;
}

static unsigned class_of(uint64_t bytes) {
    unsigned class = 0;
    while (class + 1 < AG_GLIBC_HEAP_CLASSES && (UINT64_C(1) << class) < bytes) {
        class ++;
    }
    return class;
}

static void heap_count_chunk(struct ag_glibc_heap *heap, uint64_t bytes, bool is_in_use) {
    if (is_in_use) {
        heap->n_blocks++;
        heap->bytes += bytes;
        heap->class_bytes[class_of(bytes)] += bytes;
    } else {
        heap->free_bytes += bytes;
    }
}

static int heap_walk(struct window *window, uint64_t low, struct ag_glibc_heap *heap) {
    uint64_t head[2], next[2], chunk = low;
    int r = read_head(window, chunk, head);
    while (r == 0) {
        const uint64_t bytes = head[1] & ~(uint64_t)FLAGS;
        if ((head[1] & MAPPED_OR_OTHER) != 0 || bytes < LEAST_BYTES || bytes % ALIGNMENT != 0 ||
            bytes > window->high - chunk) {
            return -ESTALE;
        }
        if (chunk + bytes == window->high) { /* the top chunk, which is not allocated */
            heap->free_bytes += bytes;
            return 0;
        }
        if (window->high - chunk - bytes < LEAST_BYTES) {
            return -ESTALE;
        }
        r = read_head(window, chunk + bytes, next);
        const bool is_in_use = (next[1] & PREVIOUS_IN_USE) != 0;
        if (r == 0 && !is_in_use && next[0] != bytes) {
            return -ESTALE;
        }
        heap_count_chunk(heap, bytes, is_in_use);
        chunk += bytes;
        memcpy(head, next, sizeof head);
    }
    return r;
}

int ag_glibc_heap_read(pid_t pid, uint64_t low, uint64_t high, struct ag_glibc_heap *ret_heap) {
    struct window window = {.pid = pid, .high = high};
    int r = -ESTALE;
    if (high - low > most_bytes) {
        return -E2BIG;
    }
    for (int i = 0; i < TRIES && r == -ESTALE; i++) {
        struct ag_glibc_heap heap = {.n_blocks = 0};
        window.n = 0;
        r = high > low ? heap_walk(&window, low, &heap) : -ESTALE;
        if (r == 0) {
            *ret_heap = heap;
        }
    }
    return r;
}
