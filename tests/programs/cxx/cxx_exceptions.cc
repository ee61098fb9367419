/* cxx_exceptions.cc: throws 500 exceptions through 1 to 25 frames, each frame with an object that
 * owns a block of 77 bytes. Each frame except the innermost rethrows the exception, and every tenth
 * exception is kept by an exception_ptr. Exception number r (0 to 499) passes r % 25 + 1 frames:
 * 20 * 325 frames in all.
 *
 * In the counts below, `runtime` stands for further blocks that the C library or the language's runtime allocates; the
 * judge (counting_preload.c) counts them.
 *
 * @allocated_blocks 20 * 325 + runtime
 * @allocated_bytes  20 * 325 * 77 + runtime
 * @ghost_frees      0
 * @threads          1
 */
#include <exception>
#include <stdexcept>

#include "../say.h"

struct owner {
    char *block = new char[77];
    owner() { OPAQUE(block); }
    ~owner() { delete[] block; }
};

__attribute__((noinline)) static void dive(int depth)
{
    owner mine;
    if (depth == 1) {
        throw std::runtime_error("at the bottom, with a text that is too long for the small string");
    }
    try {
        dive(depth - 1);
    } catch (const std::logic_error &) {
        say("never\n");
    } catch (...) {
        throw;
    }
}

int main()
{
    int caught = 0;
    std::exception_ptr kept;
    for (int round = 0; round < 500; round++) {
        try {
            dive(round % 25 + 1);
        } catch (const std::exception &error) {
            caught += error.what()[0] == 'a';
            if (round % 10 == 0) {
                kept = std::current_exception();
            }
        }
    }
    say("caught %d\n", caught);
    return kept ? 0 : 1;
}
