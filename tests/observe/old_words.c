/* old_words.c: a program to which allogram attaches. Its second thread waits for input, in a
 * function that was called by generated code, so its stack cannot be walked to its end. The stack
 * contains addresses of allogram's code although no function of allogram is active in this thread:
 * the frame of the waiting function has an array that is not initialized, in which return addresses
 * of an earlier allocation remain; and the frame of call_by_generated_code has variables with the
 * start of allogram's code and with an address after one of its calls. A detach must not take these
 * addresses for active calls.
 *
 *     usage: old_words
 *
 * Prints "ready". For each line of its input, allocates and frees one block of 100 bytes, and then
 * prints "allocated". */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void *volatile block;
/* points to variables in the frame of call_by_generated_code */
static volatile uintptr_t *code_of_allogram;

static __attribute__((noinline)) void allocate(void) {
    block = malloc(100);
    free(block);
}

/* Waits for a line. Its frame is larger than all frames of an allocation together. */
static __attribute__((noinline)) int read_line(void) {
    volatile char room[16 << 10];
    char byte = 0;
    room[sizeof room - 1] = 0;
    while (read(STDIN_FILENO, &byte, 1) == 1 && byte != '\n') {
    }
    return byte == '\n';
}

static void answer(const char *line) {
    (void)!write(STDOUT_FILENO, line, strlen(line));
}

/* Returns the address after the first call instruction between LOW and HIGH whose target is also
 * there; 0: there is none. */
static uintptr_t after_call(uintptr_t low, uintptr_t high) {
    for (uintptr_t at = low; at + 5 <= high; at++) {
        unsigned char bytes[5];
        int32_t distance;
        memcpy(bytes, (const void *)at, sizeof bytes);
        memcpy(&distance, bytes + 1, sizeof distance);
        const uintptr_t target = at + 5 + (uintptr_t)(intptr_t)distance;
        if (bytes[0] == 0xe8 && low <= target && target < high) {
            return at + 5;
        }
    }
    return 0;
}

/* Finds allogram's code in the list of mapped files, without an allocation. */
static void find_allogram(void) {
    static char maps[64 << 10];
    const int file = open("/proc/self/maps", O_RDONLY);
    size_t n_bytes = 0;
    ssize_t n;
    while ((n = read(file, maps + n_bytes, sizeof maps - 1 - n_bytes)) > 0) {
        n_bytes += (size_t)n;
    }
    (void)close(file);
    maps[n_bytes] = '\0';
    for (const char *line = maps; line != NULL; line = strchr(line + 1, '\n')) {
        const char *protection = strchr(line, ' '), *name = strstr(line, "liballogram-attached");
        const char *end = strchr(line + 1, '\n');
        if (protection != NULL && strncmp(protection, " r-xp", 5) == 0 && name != NULL &&
            end != NULL && name < end) {
            char *dash;
            const uintptr_t low = strtoull(line, &dash, 16);
            code_of_allogram[0] = low;
            code_of_allogram[1] = after_call(low, strtoull(dash + 1, NULL, 16));
        }
    }
}

static void work(void) {
    answer("ready\n");
    while (read_line()) {
        allocate();
        find_allogram();
        answer("allocated\n");
    }
}

/* push rbp; mov rbp, 1; call rdi; pop rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0xc7, 0xc5, 0x01, 0, 0, 0, 0xff, 0xd7, 0x5d, 0xc3};

static void *call_by_generated_code(void *unused) {
    /* zeros follow the two addresses, not a frame of allogram */
    volatile uintptr_t places[1024] = {0};
    code_of_allogram = places;
    void *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
        abort();
    }
    memcpy(page, code, sizeof code);
    void (*call)(void (*)(void));
    memcpy(&call, &page, sizeof call);
    call(work);
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, call_by_generated_code, NULL) != 0) {
        return 1;
    }
    return pthread_join(thread, NULL);
}
