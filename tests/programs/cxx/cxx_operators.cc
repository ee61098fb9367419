/* cxx_operators.cc: every form of operator new and delete, as COUNT x BYTES: new 100 x 24, new[] 100 x 40 (10 ints), nothrow 50
 * x 24, nothrow[] 50 x 40, aligned(64) 30 x 128, aligned[] 20 x 256, aligned nothrow 10 x 128. Sized deletes come from
 * -fsized-deallocation. All objects are deleted, except 5 x 24 bytes.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's runtime allocates; the
 * judge (counting_preload.c) counts them.
 *
 * @allocated_blocks 360 + runtime
 * @allocated_bytes  100 * 24 + 100 * 40 + 50 * 24 + 50 * 40 + 30 * 128 + 20 * 256 + 10 * 128 + runtime
 * @freed_blocks     355 + runtime
 * @ghost_frees      0
 * @threads          1
 */
#include <new>

#include "../say.h"

struct plain {
    char bytes[24];
};
struct alignas(64) wide {
    char bytes[128];
};

template <typename T> static T *seen(T *pointer)
{
    OPAQUE(pointer);
    return pointer;
}

int main()
{
    plain *objects[100];
    for (auto &object : objects) {
        object = seen(new plain);
    }
    for (int i = 5; i < 100; i++) {
        delete objects[i];
    }
    for (int i = 0; i < 100; i++) {
        delete[] seen(new int[10]);
    }
    for (int i = 0; i < 50; i++) {
        delete seen(new (std::nothrow) plain);
        delete[] seen(new (std::nothrow) int[10]);
    }
    for (int i = 0; i < 30; i++) {
        delete seen(new wide);
    }
    for (int i = 0; i < 20; i++) {
        delete[] seen(new wide[2]);
    }
    for (int i = 0; i < 10; i++) {
        void *memory = seen(::operator new(128, std::align_val_t(64), std::nothrow));
        ::operator delete(memory, 128, std::align_val_t(64));
    }
    say("operators\n");
    return 0;
}
