/* filtered.cc: blocks of every kind that a filter can distinguish: blocks of malloc and of operator
 * new in all sizes, moved and resized, from two threads and from a forked child that frees a block
 * of its parent; two heaps reported by the program; blocks with types and without. Every run
 * allocates the same blocks, so that a filtered recording can be compared with a full one. */
#include <allogram/allogram.h>

#include <cstdlib>
#include <cstring>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

static void *volatile keep[64];

static void resize() {
    void *block = std::malloc(100);
    block = std::realloc(block, 6000); // a filter of sizes (4 KiB and more) now selects the block
    block = std::realloc(block, 50);   // now the filter no longer selects it
    block = std::realloc(block, 60);
    keep[0] = block;
    void *large = std::malloc(9000);
    volatile std::size_t too_much = SIZE_MAX / 2;
    if (std::realloc(large, too_much) != nullptr) { // realloc fails, and the block stays live
        std::abort();
    }
    std::free(large);
}

static void mix() {
    for (int i = 0; i < 20; i++) {
        void *block = std::malloc(static_cast<std::size_t>(10 << i % 10));
        char *object = static_cast<char *>(::operator new(static_cast<std::size_t>(7 << i % 11)));
        if (i % 3 == 0) {
            keep[1 + i % 7] = block;
        } else {
            std::free(block);
        }
        ::operator delete(object);
    }
    keep[10] = ::operator new[](777);
    void *aligned = nullptr;
    if (posix_memalign(&aligned, 64, 4096) == 0) {
        std::free(aligned);
    }
    keep[11] = std::calloc(3, 333);
    keep[12] = strdup("a text of some length");
}

static void own_heaps() {
    struct allogram_heap_options options = {};
    options.size = sizeof(options);
    options.name = "nodes";
    options.allocator = "arena";
    const allogram_heap nodes = allogram_heap_new(&options);
    options.name = "textures";
    options.allocator = "fake-gpu";
    options.domain = ALLOGRAM_GPU;
    const allogram_heap textures = allogram_heap_new(&options);
    const allogram_type list = allogram_type_new("list node", nullptr);
    const allogram_type tree = allogram_type_new("tree node", nullptr);
    for (unsigned i = 1; i <= 40; i++) {
        const allogram_type type = i % 3 == 0 ? list : i % 3 == 1 ? tree : 0;
        allogram_alloc(nodes, 0x1000 * i, 10 * i, type);
        allogram_alloc(textures, 0x1000 * i, 1000 * i, type);
        if (i % 2 == 0) {
            allogram_free(nodes, 0x1000 * i);
            allogram_realloc(textures, 0x1000 * i, 0x100000 * i, 100 * i, tree);
        }
    }
    allogram_free(nodes, 0x3000);
    allogram_move(nodes, 0x9000, 0x900000);
    allogram_promote(nodes, 0x900000);
    allogram_collect(nodes, 0x900000);
}

int main() {
    mix();
    resize();
    own_heaps();
    void *handed_over = std::malloc(5555);
    std::thread other([&] {
        std::free(handed_over);
        mix();
    });
    other.join();
    const pid_t child = fork();
    if (child == 0) {
        std::free(keep[11]); // a block of the parent: an inherited free, if the filter selects it
        std::free(std::malloc(70));
        std::free(std::malloc(7000));
        _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    return status;
}
