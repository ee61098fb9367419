/* cxx_thread_local.cc: thread_local objects with destructors, in 40 threads one after the other. The object of each thread owns 3
 * blocks of 60 bytes, allocated on first use and freed when its thread ends. A function-local static of main owns one block of 61
 * bytes, freed after main.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's runtime allocates; the
 * judge (counting_preload.c) counts them.
 *
 * @allocated_blocks 40 * 3 + 1 + runtime
 * @allocated_bytes  40 * 180 + 61 + runtime
 * @ghost_frees      0
 * @threads          41
 */
#include <pthread.h>

#include "../say.h"

struct owner {
    char *blocks[3];
    owner()
    {
        for (auto &block : blocks) {
            block = static_cast<char *>(malloc(60));
        }
    }
    ~owner()
    {
        for (auto &block : blocks) {
            free(block);
        }
    }
};
static thread_local owner mine;

struct last_owner {
    void *block = malloc(61);
    ~last_owner() { free(block); }
};

static void *work(void *)
{
    OPAQUE(mine.blocks[0]);
    return nullptr;
}

int main()
{
    static last_owner last;
    OPAQUE(last.block);
    for (int i = 0; i < 40; i++) {
        pthread_t thread;
        pthread_create(&thread, nullptr, work, nullptr);
        pthread_join(thread, nullptr);
    }
    say("40 threads\n");
    return 0;
}
