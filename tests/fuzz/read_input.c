/* read_input.c: turns a fuzz target into a program that reads files, for input_budgets.py. It is
 * linked with fuzz_SUBJECT.c in place of libFuzzer.
 *
 *     usage: input_SUBJECT FILE... */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n_bytes, size_t capacity);

/* Some targets have a mutator that refers to this function; it is not called here. */
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t n_bytes, size_t capacity) {
    (void)bytes, (void)capacity;
    return n_bytes;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        struct stat facts;
        const int fd = open(argv[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &facts) != 0 || facts.st_size == 0) {
            perror(argv[i]);
            return 2;
        }
        void *bytes = mmap(NULL, (size_t)facts.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (bytes == MAP_FAILED) {
            perror(argv[i]);
            return 2;
        }
        /* the test is that the call returns */
        (void)LLVMFuzzerTestOneInput(bytes, (size_t)facts.st_size);
        close(fd);
    }
    return 0;
}
