/* cxx_bad_alloc.cc: operator new with a size that cannot succeed: the new_handler is called three
 * times, allocates a block of 9 bytes each time, then gives up, and std::bad_alloc is thrown.
 * Nothrow new returns NULL; an array whose size overflows throws bad_array_new_length. A call that
 * fails does not count as an allocation.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's runtime allocates; the
 * judge (counting_preload.c) counts them.
 *
 * @allocated_blocks 3 + runtime
 * @ghost_frees      0
 */
#include <cstddef>
#include <cstdint>
#include <new>

#include "../say.h"

static int calls;

static void handler()
{
    void *block = malloc(9);
    OPAQUE(block);
    if (++calls == 3) {
        std::set_new_handler(nullptr);
    }
}

int main()
{
    volatile std::size_t impossible = PTRDIFF_MAX - 64;
    std::set_new_handler(handler);
    try {
        char *never = new char[impossible];
        OPAQUE(never);
        say("WRONG\n");
    } catch (const std::bad_alloc &) {
        say("bad_alloc after %d calls\n", calls);
    }
    say("nothrow %s\n", ::operator new(impossible, std::nothrow) == nullptr ? "null" : "WRONG");
    try {
        volatile std::size_t count = SIZE_MAX / 2;
        long *never = new long[count];
        OPAQUE(never);
        say("WRONG\n");
    } catch (const std::bad_array_new_length &) {
        say("bad_array_new_length\n");
    }
    return 0;
}
