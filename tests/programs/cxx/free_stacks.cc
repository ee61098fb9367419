/* free_stacks.cc: the size of a block identifies its kind, and each kind is freed by a function
 * whose name describes the way of freeing. tests/conformance/free_stacks.py has the function for
 * each size. With an argument, the program forks a child, which frees a block of its parent. */
#include <cstdlib>
#include <new>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#define APART __attribute__((noinline, no_icf))
#define STAYS __asm__ volatile("" ::: "memory") /* so that the call before is no tail call */

struct plain {
    char bytes[203];
};
struct alignas(64) aligned {
    char bytes[192];
};

APART static void *makes(size_t bytes) {
    void *block = malloc(bytes);
    STAYS;
    return block;
}
APART static void frees(void *block) {
    free(block);
    STAYS;
}
APART static void *grows(void *block, size_t bytes) {
    void *moved = realloc(block, bytes);
    STAYS;
    return moved;
}
APART static void empties(void *block) {
    void *none = realloc(block, 0);
    __asm__ volatile("" ::"r"(none));
    STAYS;
}
APART static void fails_to_grow(void *block) {
    void *none = realloc(block, SIZE_MAX / 2);
    __asm__ volatile("" ::"r"(none));
    STAYS;
}
APART static void deletes(plain *object) {
    delete object;
    STAYS;
}
APART static void deletes_array(plain *objects) {
    delete[] objects;
    STAYS;
}
APART static void deletes_aligned(aligned *object) {
    delete object;
    STAYS;
}
APART static void frees_for_another(void *block) {
    free(block);
    STAYS;
}
APART static void frees_inherited(void *block) {
    free(block);
    STAYS;
}

int main(int argc, char **) {
    for (int i = 0; i < 100; i++) {
        frees(makes(101));
        frees(grows(makes(102), 5000));
        empties(makes(103));
        void *stays = makes(104);
        fails_to_grow(stays);
        frees(stays);
        deletes(new plain);
        deletes_array(new plain[2]);
        deletes_aligned(new aligned);
    }
    void *kept = makes(105);
    void *others[100];
    for (void *&block : others) {
        block = makes(106);
    }
    std::thread([&] {
        for (void *block : others) {
            frees_for_another(block);
        }
    }).join();
    if (argc > 1) {
        const pid_t child = fork();
        if (child == 0) {
            frees_inherited(kept);
            _exit(0);
        }
        (void)waitpid(child, nullptr, 0);
    }
    return kept == nullptr;
}
