/* counting_preload.c: counts, exactly and independently of allogram, the blocks that a program
 * allocates and frees. Tests compare allogram's counts with these, and call this library the judge.
 *
 * It is preloaded instead of the profiler, or after the profiler in the same process, and shares no
 * code with the profiler. The counters are in a file mapped shared, $COUNTING_FOLDER/PID.N.count
 * (N: the number of earlier execs of the process, in three digits), so they survive an exec and
 * every end of the process (exit, _exit, SIGKILL). The rest of the state is in memory that the
 * kernel clears in a forked child (MADV_WIPEONFORK), so a child starts from zero. Only the set of
 * the addresses of all blocks is copied to the child, so that the child knows which blocks it has
 * inherited. A child of vfork shares its parent's memory and is counted as its parent.
 *
 * One spin lock, taken with all signals blocked, protects everything: slow, but easy to verify. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    TABLE_SLOTS =
        1
        << 23, /* 5 million live blocks at a load of 0.6; pages that are not touched cost nothing */
    THREADS_MAX = 1 << 16,
    MAGIC = 0x54434f55,
};

struct counters { /* tests/conformance/counted.py reads this layout: change both together */
    uint64_t magic, pid;
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes;
    /* frees of blocks that are not in the table: blocks that a parent process had allocated before
     * the fork (inherited), and all others (ghost) */
    uint64_t inherited_frees, ghost_frees;
    uint64_t in_use_blocks, in_use_bytes, peak_blocks, peak_bytes, temporary_blocks, threads;
    uint64_t overflow; /* 1: the table of blocks was too small, and the numbers are wrong */
    char exe[256];
};

struct block {
    uintptr_t address; /* 0: the slot is free */
    uint64_t size;
    uint32_t thread;
    uint64_t serial; /* number of the allocation in its thread */
};

struct state { /* in memory that a forked child finds zeroed */
    struct counters *counters;
    _Atomic uint32_t lock;
    uint32_t n_threads;
    struct block *table;
};

static struct state *state;
static uintptr_t *addresses; /* of the blocks of this process and of those that it inherited */
static __thread uint32_t thread_of_process,
    thread_number __attribute__((tls_model("initial-exec")));
static __thread uint64_t thread_serial __attribute__((tls_model("initial-exec")));

static volatile bool is_looking_up; /* volatile, because the compiler assumes that dlsym calls no
                                     * function of this file (attribute leaf) */
static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static void (*next_free)(void *);
static void *(*next_memalign)(size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_valloc)(size_t);
static void *(*next_pvalloc)(size_t);

static void *map_memory(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        abort();
    }
    return memory;
}

static void *empty_in_child(size_t bytes) {
    void *memory = map_memory(bytes);
    if (madvise(memory, bytes, MADV_WIPEONFORK) != 0) {
        abort();
    }
    return memory;
}

static struct counters *open_counters(void) {
    const char *folder = getenv("COUNTING_FOLDER");
    struct counters *counters = NULL;
    static struct counters nowhere;
    for (int n = 0; folder != NULL && n < 1000 && counters == NULL; n++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%d.%03d.count", folder, (int)getpid(), n);
        int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd < 0) {
            continue;
        }
        if (ftruncate(fd, sizeof *counters) == 0) {
            counters = mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        }
        close(fd);
    }
    if (counters == NULL || counters == MAP_FAILED) {
        counters = &nowhere; /* the counts are lost, and the test fails because their file is
                              * missing */
    }
    counters->magic = MAGIC;
    counters->pid = (uint64_t)getpid();
    ssize_t length = readlink("/proc/self/exe", counters->exe, sizeof counters->exe - 1);
    counters->exe[length < 0 ? 0 : length] = 0;
    return counters;
}

static void find_next(void) {
    is_looking_up = true;
    next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
    next_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
    next_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    next_memalign = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "memalign");
    next_aligned_alloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
    next_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    next_valloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "valloc");
    next_pvalloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "pvalloc");
    next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
    is_looking_up = false;
}

static sigset_t enter(void);
static void leave(sigset_t before);

/* The lock is held during a fork, so that the child gets a consistent set of addresses. In the
 * child the kernel has cleared the lock. */
static sigset_t before_fork;

static void enter_fork(void) {
    before_fork = enter();
}

static void leave_in_parent(void) {
    leave(before_fork);
}

static void leave_in_child(void) {
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before_fork, NULL, 8);
}

/* Runs in the first call of malloc, or before main. At that time there is only one thread, and no
 * timer. */
__attribute__((constructor)) static void start(void) {
    if (next_malloc == NULL) {
        find_next();
        addresses = map_memory(sizeof *addresses * TABLE_SLOTS);
        state = empty_in_child(sizeof *state);
        state->table = empty_in_child(sizeof(struct block) * TABLE_SLOTS);
        state->counters = open_counters();
        if (pthread_atfork(enter_fork, leave_in_parent, leave_in_child) != 0) {
            abort();
        }
    }
}

/* ---- the counters, which the lock protects ---- */
static sigset_t enter(void) {
    static struct block *table; /* the table of blocks: a forked child has it at the same address,
                                 * cleared by the kernel */
    sigset_t all, before;
    sigfillset(&all);
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, &before, 8);
    while (atomic_exchange_explicit(&state->lock, 1, memory_order_acquire) != 0) {
        syscall(SYS_sched_yield);
    }
    if (state->counters == NULL) { /* a forked child: the kernel has cleared these pages */
        state->table = table;
        state->counters = open_counters();
    }
    table = state->table;

    uint32_t process = (uint32_t)state->counters->pid;
    if (thread_of_process != process) {
        thread_of_process = process;
        thread_number = ++state->n_threads;
        thread_serial = 0;
        state->counters->threads = state->n_threads;
    }
    return before;
}

static void leave(sigset_t before) {
    atomic_store_explicit(&state->lock, 0, memory_order_release);
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, 8);
}

static size_t home_of(uintptr_t address) {
    return (size_t)((address >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 41) & (TABLE_SLOTS - 1);
}

static struct block *find(uintptr_t address) {
    for (size_t slot = home_of(address), probes = 0; probes < TABLE_SLOTS; probes++) {
        struct block *block = &state->table[(slot + probes) & (TABLE_SLOTS - 1)];
        if (block->address == address || block->address == 0) {
            return block;
        }
    }
    return NULL;
}

/* ---- the set of addresses, a hash table of the same size as the table of blocks ---- */

/* Returns the slot of ADDRESS, or the free slot where it belongs. */
static size_t slot_of(uintptr_t address) {
    size_t slot = home_of(address);
    while (addresses[slot] != 0 && addresses[slot] != address) {
        slot = (slot + 1) & (TABLE_SLOTS - 1);
    }
    return slot;
}

/* Returns whether ADDRESS was in the set. */
static bool remove_address(uintptr_t address) {
    size_t hole = slot_of(address);
    if (addresses[hole] == 0) {
        return false;
    }
    for (size_t slot = (hole + 1) & (TABLE_SLOTS - 1); addresses[slot] != 0;
         slot = (slot + 1) & (TABLE_SLOTS - 1)) {
        size_t home = home_of(addresses[slot]);
        if (((slot - home) & (TABLE_SLOTS - 1)) >= ((slot - hole) & (TABLE_SLOTS - 1))) {
            addresses[hole] = addresses[slot];
            hole = slot;
        }
    }
    addresses[hole] = 0;
    return true;
}

static void remove_block(struct block *block) {
    size_t hole = (size_t)(block - state->table);
    for (size_t slot = (hole + 1) & (TABLE_SLOTS - 1); state->table[slot].address != 0;
         slot = (slot + 1) & (TABLE_SLOTS - 1)) {
        size_t home = home_of(state->table[slot].address);
        if (((slot - home) & (TABLE_SLOTS - 1)) >= ((slot - hole) & (TABLE_SLOTS - 1))) {
            state->table[hole] = state->table[slot];
            hole = slot;
        }
    }
    state->table[hole].address = 0;
}

static void book_allocation(void *address, uint64_t size) {
    struct counters *counters = state->counters;
    struct block *block = find((uintptr_t)address);
    thread_serial++;
    counters->allocated_blocks++;
    counters->allocated_bytes += size;
    counters->in_use_blocks++;
    counters->in_use_bytes += size;
    if (counters->in_use_bytes >= counters->peak_bytes) { /* of equal peaks the last one counts */
        counters->peak_bytes = counters->in_use_bytes;
        counters->peak_blocks = counters->in_use_blocks;
    }
    if (block == NULL || counters->in_use_blocks > TABLE_SLOTS / 10 * 6) {
        counters->overflow = 1;
        return;
    }
    *block = (struct block){(uintptr_t)address, size, thread_number, thread_serial};
    addresses[slot_of((uintptr_t)address)] = (uintptr_t)address;
}

static void book_free(void *address) {
    struct counters *counters = state->counters;
    struct block *block = find((uintptr_t)address);
    const bool is_known = remove_address((uintptr_t)address);
    if (block == NULL || block->address == 0) {
        counters->inherited_frees += is_known;
        counters->ghost_frees += !is_known;
        return;
    }
    counters->freed_blocks++;
    counters->freed_bytes += block->size;
    counters->in_use_blocks--;
    counters->in_use_bytes -= block->size;
    counters->temporary_blocks += block->thread == thread_number && block->serial == thread_serial;
    remove_block(block);
}

static void *allocated(void *address, uint64_t size) {
    int error = errno;
    if (address != NULL) {
        sigset_t before = enter();
        book_allocation(address, size);
        leave(before);
    }
    errno = error;
    return address;
}

/* ---- malloc and its family ---- */
void *malloc(size_t size) {
    start();
    return allocated(next_malloc(size), size);
}

void *calloc(size_t count, size_t size) {
    if (is_looking_up) {
        return NULL; /* dlsym of glibc before 2.34 calls calloc for its error message, and uses a
                      * static buffer if calloc returns NULL */
    }
    start();
    return allocated(next_calloc(count, size), (uint64_t)count * size);
}

/* Calls between these functions stay in this file. Calls through the dynamic symbols would begin at
 * the library that is preloaded before this one, and be counted twice. */
static void counted_free(void *address) {
    int error = errno;
    start();
    if (address != NULL) {
        sigset_t before = enter();
        book_free(address);
        leave(before);
    }
    errno = error;
    next_free(address);
}

void free(void *address) {
    counted_free(address);
}

void free_sized(void *address, size_t size);
void free_sized(void *address, size_t size) {
    (void)size;
    counted_free(address);
}

void free_aligned_sized(void *address, size_t alignment, size_t size);
void free_aligned_sized(void *address, size_t alignment, size_t size) {
    (void)alignment;
    (void)size;
    counted_free(address);
}

/* The block is removed from the table before the real call, because another thread may get its
 * address at once. */
static void *counted_realloc(void *address, size_t size) {
    start();
    if (address == NULL) {
        return allocated(next_realloc(NULL, size), size);
    }
    sigset_t before = enter();
    struct block *found = find((uintptr_t)address),
                 old = found == NULL ? (struct block){0} : *found;
    struct counters saved = *state->counters;
    book_free(address);
    bool was_temporary = state->counters->temporary_blocks != saved.temporary_blocks;
    bool was_inherited = state->counters->inherited_frees != saved.inherited_frees;
    leave(before);

    void *moved = next_realloc(address, size);
    int error = errno;
    before = enter();
    if (moved != NULL) {
        book_allocation(moved, size);
    } else if (size != 0) { /* next_realloc failed and the old block lives on: undoes book_free */
        struct counters *counters = state->counters;
        if (old.address != 0 || was_inherited) {
            addresses[slot_of((uintptr_t)address)] = (uintptr_t)address;
        }
        if (old.address == 0) {
            counters->inherited_frees -= was_inherited;
            counters->ghost_frees -= !was_inherited;
        } else {
            counters->freed_blocks--;
            counters->freed_bytes -= old.size;
            counters->in_use_blocks++;
            counters->in_use_bytes += old.size;
            counters->temporary_blocks -= was_temporary;
            *find(old.address) = old;
        }
    }
    leave(before);
    errno = error;
    return moved;
}

void *realloc(void *address, size_t size) {
    return counted_realloc(address, size);
}

void *reallocarray(void *address, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return counted_realloc(address, bytes);
}

void *memalign(size_t alignment, size_t size) {
    start();
    return allocated(next_memalign(alignment, size), size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    start();
    return allocated(next_aligned_alloc(alignment, size), size);
}

int posix_memalign(void **ret_address, size_t alignment, size_t size) {
    start();
    int r = next_posix_memalign(ret_address, alignment, size);
    if (r == 0) {
        allocated(*ret_address, size);
    }
    return r;
}

void *valloc(size_t size) {
    start();
    return allocated(next_valloc(size), size);
}

void *pvalloc(size_t size) {
    start();
    return allocated(next_pvalloc(size), size);
}
