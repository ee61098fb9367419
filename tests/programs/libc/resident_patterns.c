/* resident_patterns.c PATTERN SECONDS [PLUGIN]: a program whose resident memory has one known
 * pattern:
 *
 *   pinned     on each page of the blocks of make_batch, one block stays in use
 *   arenas     the same by eight threads, in their own arenas
 *   untrimmed  all blocks are freed, but malloc keeps the memory: its top is not trimmed
 *   trimmed    all blocks are freed, and malloc gives the memory back
 *   huge       a large block with transparent huge pages
 *   mapped     memory that the program maps itself
 *   stacks     500 threads use STACK_BYTES of their stacks, and TLS_BYTES of the dynamic
 *              thread-local storage of PLUGIN
 *   files      a private mapping of a file, part of which is changed
 *
 * When the pattern is there, the program waits SECONDS. Then it prints its resident memory, as in
 * smaps_rollup, and by how much malloc_trim(0) decreases this memory. */
#include <dlfcn.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    MIB = 1 << 20,
    PAGE = 4096,
    BLOCK = 240,
    PER_PAGE = 16, /* every PER_PAGE-th block is kept: at least one on each page */
    BLOCKS = 160000,
    THREADS = 8,
    BLOCKS_OF_THREAD = 24000,
    STACKS = 500,
    STACK_BYTES = 64 << 10,
    HUGE_BYTES = 64 * MIB,
    MAPPED_BYTES = 40 * MIB,
    FILE_BYTES = 24 * MIB,
    COPIED_BYTES = 9 * MIB,
};

static void *keep[8]; /* so that the compiler does not remove what is not used */

static void touch(char *bytes, long n_bytes) {
    for (long at = 0; at < n_bytes; at += PAGE) {
        ((volatile char *)bytes)[at] = 1;
    }
}

/* ---- blocks ---- */

__attribute__((noinline)) static char *keep_block(void) {
    char *block = malloc(BLOCK);
    memset(block, 1, BLOCK);
    return block;
}

__attribute__((noinline)) static char *pass_block(void) {
    char *block = malloc(BLOCK);
    memset(block, 2, BLOCK);
    return block;
}

/* Makes N blocks and frees all but every PER_PAGE-th; then also these, if IS_KEPT is 0. */
__attribute__((noinline)) static void make_batch(int n, int is_kept) {
    char **blocks = mmap(NULL, (size_t)n * sizeof *blocks, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int i = 0; i < n; i++) {
        blocks[i] = i % PER_PAGE == 0 ? keep_block() : pass_block();
    }
    for (int i = 0; i < n; i++) {
        if (!is_kept || i % PER_PAGE != 0) {
            free(blocks[i]);
        }
    }
    munmap(blocks, (size_t)n * sizeof *blocks);
}

static void pinned(const char *plugin) {
    (void)plugin;
    make_batch(BLOCKS, 1);
}

static void untrimmed(const char *plugin) {
    (void)plugin;
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    make_batch(BLOCKS, 0);
}

static void trimmed(const char *plugin) {
    (void)plugin;
    make_batch(BLOCKS, 0);
}

__attribute__((noinline)) static void huge(const char *plugin) {
    (void)plugin;
    keep[0] = aligned_alloc(2 * MIB, HUGE_BYTES);
    madvise(keep[0], HUGE_BYTES, MADV_HUGEPAGE);
    touch(keep[0], HUGE_BYTES);
}

/* ---- threads ---- */

static pthread_barrier_t ready;
static void (*touch_storage)(void);

static void *use_arena(void *unused) {
    make_batch(BLOCKS_OF_THREAD, 1);
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}

static void *use_stack(void *unused) {
    char bytes[STACK_BYTES];
    touch(bytes, sizeof bytes);
    touch_storage();
    pthread_barrier_wait(&ready);
    pause();
    return unused;
}

static void start(int n, void *(*run)(void *)) {
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 << 10);
    pthread_barrier_init(&ready, NULL, (unsigned)n + 1);
    for (int i = 0; i < n; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, run, NULL) != 0) {
            exit(1);
        }
    }
    pthread_barrier_wait(&ready);
}

static void arenas(const char *plugin) {
    (void)plugin;
    start(THREADS, use_arena);
}

static void stacks(const char *plugin) {
    void *library = dlopen(plugin, RTLD_NOW);
    *(void **)&touch_storage = library != NULL ? dlsym(library, "touch_storage") : NULL;
    if (touch_storage == NULL) {
        exit(1);
    }
    start(STACKS, use_stack);
}

/* ---- mappings ---- */

__attribute__((noinline)) static void mapped(const char *plugin) {
    (void)plugin;
    keep[0] = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    touch(keep[0], MAPPED_BYTES);
}

static void files(const char *plugin) {
    (void)plugin;
    char name[] = "/tmp/resident_patterns.XXXXXX", page[PAGE];
    const int fd = mkstemp(name);
    memset(page, 1, sizeof page);
    unlink(name);
    for (int at = 0; at < FILE_BYTES; at += PAGE) {
        if (write(fd, page, sizeof page) != (ssize_t)sizeof page) {
            exit(1);
        }
    }
    char *bytes = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
    volatile int sum = 0;
    for (int at = 0; at < FILE_BYTES; at += PAGE) {
        sum += bytes[at];
    }
    (void)sum;
    touch(bytes, COPIED_BYTES);
    keep[0] = bytes;
}

/* ---- the whole ---- */

static long rss(void) {
    static char text[4096];
    const int fd = open("/proc/self/smaps_rollup", O_RDONLY);
    const ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *line = strstr(text, "\nRss:");
    return line != NULL ? atol(line + 5) * 1024 : -1;
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*make)(const char *plugin);
    } patterns[] = {{"pinned", pinned},   {"arenas", arenas}, {"untrimmed", untrimmed},
                    {"trimmed", trimmed}, {"huge", huge},     {"mapped", mapped},
                    {"stacks", stacks},   {"files", files}};
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; argc > 2 && i < sizeof patterns / sizeof patterns[0]; i++) {
        if (strcmp(patterns[i].name, argv[1]) == 0) {
            patterns[i].make(argc > 3 ? argv[3] : "");
            sleep((unsigned)atoi(argv[2]));
            const long before = rss();
            malloc_trim(0);
            printf("{\"rss_bytes\": %ld, \"trimmed_bytes\": %ld}\n", before, before - rss());
            _exit(0);
        }
    }
    return 1;
}
