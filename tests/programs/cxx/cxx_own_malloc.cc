// cxx_own_malloc.cc: a program with a malloc of its own, which the operators of libstdc++ call:
// every block must come from the arena of this malloc, with and without the recorder. main makes
// 100 rounds. Each allocates an int by new, 10 ints in a vector, and a block of 10 bytes that
// reallocarray enlarges to 100. So there are 400 blocks with 100 * (4 + 40 + 10 + 100) bytes, all
// freed. The program counts the calls of its malloc, calloc and realloc from the first one, also
// those of libraries that are initialized before main, and writes the counts to a file.
#include <cstdint>
#include <cstring>
#include <vector>

#include "../say.h"

static char arena[1 << 20] __attribute__((aligned(16)));
static size_t used_bytes;
static long n_foreign;
static unsigned long n_allocated, n_allocated_bytes;

static bool is_ours(const void *block) {
    return static_cast<const char *>(block) >= arena && static_cast<const char *>(block) < arena + sizeof arena;
}

static void *take(size_t bytes) { // the block's size is stored before it
    const size_t whole = 16 + ((bytes + 15) & ~size_t{15});
    if (bytes > sizeof arena || used_bytes + whole > sizeof arena) {
        return nullptr;
    }
    char *block = arena + used_bytes + 16;
    used_bytes += whole;
    memcpy(block - 16, &bytes, sizeof bytes);
    n_allocated++;
    n_allocated_bytes += bytes;
    return block;
}

extern "C" __attribute__((noipa)) void *malloc(size_t bytes) {
    return take(bytes);
}

extern "C" __attribute__((noipa)) void free(void *block) {
    n_foreign += block != nullptr && !is_ours(block);
}

extern "C" __attribute__((noipa)) void *calloc(size_t count, size_t bytes) {
    return take(count * bytes); // zero: no memory of the arena is used twice
}

extern "C" __attribute__((noipa)) void *realloc(void *block, size_t bytes) {
    void *moved = take(bytes);
    if (block != nullptr && !is_ours(block)) {
        n_foreign++;
    } else if (block != nullptr && moved != nullptr) {
        size_t old_bytes;
        memcpy(&old_bytes, static_cast<char *>(block) - 16, sizeof old_bytes);
        memcpy(moved, block, old_bytes < bytes ? old_bytes : bytes);
    }
    return moved;
}

int main() {
    for (int i = 0; i < 100; i++) {
        int *number = new int(i);
        OPAQUE(number);
        std::vector<int> numbers(10);
        n_foreign += !is_ours(number) + !is_ours(numbers.data());
        void *block = malloc(10);
        OPAQUE(block);
        block = reallocarray(block, 10, 10);
        n_foreign += !is_ours(block);
        free(block);
        delete number;
    }
    tell_truth("allocated_blocks", n_allocated);
    tell_truth("allocated_bytes", n_allocated_bytes);
    say("%ld blocks of another allocator\n", n_foreign);
    return n_foreign != 0;
}
