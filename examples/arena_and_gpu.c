/* arena_and_gpu.c: an arena allocator and a heap of an imaginary GPU, which report their blocks
 * with allogram.h.
 *
 *     cc -g arena_and_gpu.c $(pkg-config --cflags --libs allogram) -o arena_and_gpu
 *     ./arena_and_gpu                        writes a trace and prints its path
 *     allogram run ./arena_and_gpu           the same heaps, and malloc, in one trace
 *     allogram report --view=heaps TRACE     other views: types, blocks, sites, tree
 *
 * What the program allocates (the tests compare every number with the trace):
 *
 *     heap      domain    allocated          freed              in use at the end
 *     nodes     cpu       110 blocks  4,855   30 blocks  1,440   80 blocks      3,415
 *     textures  gpu         6 blocks  7 MiB    3 blocks  3 MiB    3 blocks      4 MiB
 *     handles   external    3 blocks      0    3 blocks      0    0 blocks          0
 *
 *     type        objects      bytes   in use
 *     list node       100      4,800       70
 *     text             10         55       10
 *     texture           6  7,340,032        3
 *
 * Two frees are ghosts: no block is in use at their address. The arena never returned the address
 * of the first of them, and the other frees a texture for the second time. */
#include <stdio.h>
#include <stdlib.h>

#include <allogram/allogram.h>

static allogram_heap nodes, textures, handles;
static allogram_type list_node, text, texture;

/* ---- an arena: one block of malloc, whose bytes are given out from its start ---- */

static struct {
    char *chunk;
    size_t used;
} arena;

static void *arena_alloc(size_t bytes, allogram_type type) {
    char *block = arena.chunk + arena.used;
    arena.used += (bytes + 15) & ~(size_t)15;
    allogram_alloc(nodes, (uintptr_t)block, bytes, type);
    return block;
}

static void arena_free(void *block) {
    allogram_free(nodes, (uintptr_t)block);
}

/* ---- a GPU: its addresses are separate from those of other heaps, and begin at 0x1000 ---- */

static uint64_t next_texture = 0x1000;

static uint64_t texture_new(size_t bytes) {
    const uint64_t address = next_texture;
    next_texture += 0x1000;
    allogram_alloc(textures, address, bytes, texture);
    return address;
}

static uint64_t texture_grow(uint64_t address, size_t bytes) {
    const uint64_t moved = next_texture;
    next_texture += 0x1000;
    allogram_realloc(textures, address, moved, bytes, texture);
    return moved;
}

/* ---- the program ---- */

static void build_list(void) {
    void *list[100];
    for (int i = 0; i < 100; i++) {
        list[i] = arena_alloc(48, list_node);
    }
    for (int i = 0; i < 30; i++) {
        arena_free(list[i]);
    }
    arena_free(arena.chunk + 60000); /* this address has no block: the free is a ghost */
}

static void write_texts(void) {
    for (size_t length = 1; length <= 10; length++) {
        (void)arena_alloc(length, text);
    }
}

static void load_textures(void) {
    uint64_t loaded[5];
    for (int i = 0; i < 5; i++) {
        loaded[i] = texture_new(1 << 20);
    }
    allogram_free(textures, loaded[0]);
    allogram_free(textures, loaded[1]);
    allogram_free(textures, loaded[1]); /* this texture is freed already: the free is a ghost */
    loaded[2] = texture_grow(loaded[2], 2 << 20);
}

static void open_and_close(void) {
    for (uint64_t handle = 0; handle < 3; handle++) { /* 0 is a valid handle */
        allogram_alloc(handles, handle, 0, 0);
        allogram_free(handles, handle);
    }
}

int main(void) {
    const struct allogram_heap_options node_heap = {
        .size = sizeof(node_heap), .name = "nodes", .allocator = "arena"};
    const struct allogram_heap_options texture_heap = {.size = sizeof(texture_heap),
                                                       .name = "textures",
                                                       .allocator = "fake-gpu",
                                                       .domain = ALLOGRAM_GPU};
    const struct allogram_heap_options handle_heap = {.size = sizeof(handle_heap),
                                                      .name = "handles",
                                                      .allocator = "table",
                                                      .domain = ALLOGRAM_EXTERNAL};
    nodes = allogram_heap_new(&node_heap);
    textures = allogram_heap_new(&texture_heap);
    handles = allogram_heap_new(&handle_heap);
    list_node = allogram_type_new("list node", NULL);
    text = allogram_type_new("text", NULL);
    texture = allogram_type_new("texture", NULL);

    char message[512];
    if (allogram_start(NULL, message, sizeof(message)) < 0) {
        fprintf(stderr, "%s\n", message); /* for example, because the program runs under `allogram
                                           * run` */
    }
    arena.chunk = malloc(65536);
    if (arena.chunk == NULL) {
        return 1;
    }
    build_list();
    allogram_mark("the list is there");
    write_texts();
    load_textures();
    open_and_close();
    if (allogram_stop() == 0) {
        puts(allogram_trace());
    }
    free(arena.chunk);
    return 0;
}
