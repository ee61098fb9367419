/* tracker_blocks.c: the blocks of tracker_blocks.h, reported with calls of allogram.h; the name of
 * a block is its address. */
#include "tracker_blocks.h"

allogram_heap blocks_heap;
const bool blocks_come_together = true;
__thread jmp_buf blocks_out;
static allogram_type kind;

void blocks_begin(void) {
    const struct allogram_heap_options options = {
        .size = sizeof(options), .name = "blocks", .allocator = "arena"};
    blocks_heap = allogram_heap_new(&options);
    kind = allogram_type_new("kind", NULL);
}

bool blocks_have(const struct allogram_sample *sample) {
    return sample->heap == blocks_heap && sample->type == kind;
}

uint64_t blocks_name(const struct allogram_sample *sample) {
    return sample->address;
}

void block_new(uint64_t name) {
    allogram_alloc(blocks_heap, name, 24, kind);
}

void block_free(uint64_t name) {
    allogram_free(blocks_heap, name);
}

void blocks_new_together(uint64_t first, size_t n) {
    struct allogram_block blocks[16] = {{0}};
    for (size_t i = 0; i < n; i++) {
        blocks[i] = (struct allogram_block){.address = first + i, .bytes = 8, .type = kind};
    }
    allogram_alloc_together(blocks_heap, blocks, n);
}

void blocks_free_all(uint64_t first, size_t n) {
    for (size_t i = 0; i < n; i++) {
        block_free(first + i);
    }
}

void block_new_growing(uint64_t name) {
    block_new(name);
}

void block_grow(uint64_t name, uint64_t new_name) {
    allogram_realloc(blocks_heap, name, new_name, 100, kind);
}

uint64_t blocks_new_periodic(size_t n, size_t one, size_t other) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < n; i++) {
        const size_t size = i % 2 ? other : one;
        allogram_alloc(blocks_heap, i + 1, size, kind);
        bytes += size + 1;
    }
    return bytes;
}

void block_promote(uint64_t name) {
    allogram_promote(blocks_heap, name);
}

void block_complete(uint64_t name) {
    allogram_complete(blocks_heap, name);
}

void blocks_start_over(uint64_t place) {
    (void)place; /* nothing to do: a new block may have the address of a freed one */
}

void blocks_leave(void) {
    longjmp(blocks_out, 1);
}
