/* own_mappings.c SEED STEPS: maps and unmaps memory at random, and counts for each of its functions
 * how many mappings it made, their bytes, how many of the bytes are mapped at the end, and how many
 * were mapped at the peak. With the arguments threads SEED STEPS, four threads map and unmap at the
 * same time, so the kernel may give a thread addresses that another thread has just unmapped. In
 * this mode, only the mappings that were made are counted for each function, and the last line has
 * the mappings that are left.
 *
 * Without `threads`, memory from mmap and mremap is counted page by page: a table has the mapping
 * to which each page belongs. Each call changes the table as mmap(2), munmap(2) and mremap(2)
 * describe, and at the end the table is compared with /proc/self/maps. Memory from sbrk is counted
 * in bytes, and is not compared. Prints a line of JSON for each function, and then a line with the
 * result of the comparison. */
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "../say.h"

enum {
    PAGE = 4096,
    TABLE_BITS = 21,
    TABLE = 1 << TABLE_BITS, /* pages */
    MAPPINGS = 1 << 20,
    ARENA_PAGES = 4096,
    PLACES = 64,
    THREADS = 4,
};
#define KEPT __attribute__((noinline, noclone))

/* ---- the functions that map ---- */

KEPT static char *map_anywhere(size_t bytes) {
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    OPAQUE(p);
    return p;
}

KEPT static char *map_over(char *at, size_t bytes) {
    char *p =
        mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    OPAQUE(p);
    return p;
}

KEPT static char *reserve(char *at, size_t bytes) {
    char *p = mmap(at, bytes, PROT_NONE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED : 0), -1, 0);
    OPAQUE(p);
    return p;
}

KEPT static char *map_file(size_t bytes, int fd) {
    char *p = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, fd, 0);
    OPAQUE(p);
    return p;
}

KEPT static char *resize(char *p, size_t bytes, size_t new_bytes) {
    p = mremap(p, bytes, new_bytes, MREMAP_MAYMOVE);
    OPAQUE(p);
    return p;
}

KEPT static char *extend_break(intptr_t bytes) {
    char *p = sbrk(bytes);
    OPAQUE(p);
    return p;
}

/* ---- the truth ---- */

enum owner { ANYWHERE, OVER, RESERVE, FILES, RESIZE, BREAK, OWNERS };
static const char *const names[OWNERS] = {"map_anywhere", "map_over", "reserve",
                                          "map_file",     "resize",   "extend_break"};
static struct { uint64_t n, bytes, end_bytes, live, peak_bytes, peak_live; } owners[OWNERS];
static struct {
    enum owner owner;
    uint64_t n_bytes;
} mappings[MAPPINGS]; /* mappings[0] is not used */
static uint32_t n_mappings;
static struct {
    uint64_t page;
    uint32_t mapping; /* 0: not mapped */
} table[TABLE];
static uint64_t total_bytes, most_bytes;

static uint32_t *mapping_of(uint64_t page) {
    size_t at = (size_t)(page * UINT64_C(0x9e3779b97f4a7c15) >> (64 - TABLE_BITS));
    for (; table[at].page != page && table[at].page != 0; at = (at + 1) & (TABLE - 1)) {
    }
    table[at].page = page;
    return &table[at].mapping;
}

static void lose(uint32_t mapping, uint64_t bytes) {
    const enum owner owner = mappings[mapping].owner;
    mappings[mapping].n_bytes -= bytes;
    owners[owner].end_bytes -= bytes;
    owners[owner].live -= mappings[mapping].n_bytes == 0;
    total_bytes -= bytes;
}

static void note_unmap(const char *address, size_t bytes) {
    for (uint64_t page = (uintptr_t)address / PAGE, n = (bytes + PAGE - 1) / PAGE; n > 0; n--) {
        uint32_t *mapping = mapping_of(page++);
        if (*mapping != 0) {
            lose(*mapping, PAGE);
            *mapping = 0;
        }
    }
}

static uint32_t note_mapping(enum owner owner, uint64_t bytes) {
    if (++n_mappings == MAPPINGS) {
        _exit(98);
    }
    mappings[n_mappings].owner = owner;
    mappings[n_mappings].n_bytes = bytes;
    owners[owner].n++;
    owners[owner].bytes += bytes;
    owners[owner].end_bytes += bytes;
    owners[owner].live++;
    total_bytes += bytes;
    return n_mappings;
}

/* Whether each page of a range belongs to a mapping of this program, or is not mapped: other
 * memory, such as that of a library, must stay as it is. */
static bool is_ours(char *address, size_t bytes) {
    unsigned char is_resident;
    for (char *page = address; page < address + bytes; page += PAGE) {
        if (*mapping_of((uintptr_t)page / PAGE) == 0 && mincore(page, PAGE, &is_resident) == 0) {
            return false;
        }
    }
    return true;
}

static void note_peak(void) {
    if (total_bytes >= most_bytes) {
        most_bytes = total_bytes;
        for (int i = 0; i < OWNERS; i++) {
            owners[i].peak_bytes = owners[i].end_bytes;
            owners[i].peak_live = owners[i].live;
        }
    }
}

static void note_map(enum owner owner, const char *address, size_t bytes) {
    const uint64_t n_pages = (bytes + PAGE - 1) / PAGE;
    note_unmap(address, bytes);
    const uint32_t mapping = note_mapping(owner, n_pages * PAGE);
    for (uint64_t i = 0; i < n_pages; i++) {
        *mapping_of((uintptr_t)address / PAGE + i) = mapping;
    }
    note_peak();
}

/* ---- /proc/self/maps ---- */

static char maps[8 << 20];
static struct { uint64_t first, end; /* pages */ } ranges[MAPPINGS];
static size_t n_ranges;

static void read_maps(void) {
    const int fd = open("/proc/self/maps", O_RDONLY);
    ssize_t n = 0, used = 0;
    while ((n = read(fd, maps + used, sizeof maps - 1 - (size_t)used)) > 0) {
        used += n;
    }
    for (const char *line = maps; *line != '\0' && n_ranges < MAPPINGS; n_ranges++) {
        char *end;
        ranges[n_ranges].first = strtoull(line, &end, 16) / PAGE;
        ranges[n_ranges].end = strtoull(end + 1, &end, 16) / PAGE;
        line = strchr(end, '\n') + 1;
    }
}

static bool is_in_maps(uint64_t page) {
    size_t low = 0, high = n_ranges; /* the range is one of ranges[low] to ranges[high - 1] */
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (page < ranges[middle].first) {
            high = middle;
        } else if (page >= ranges[middle].end) {
            low = middle + 1;
        } else {
            return true;
        }
    }
    return false;
}

static void compare(const char *arena) {
    read_maps();
    uint64_t missing = 0, in_arena = 0, of_maps = 0;
    const uint64_t first = (uintptr_t)arena / PAGE;
    for (size_t i = 0; i < TABLE; i++) {
        if (table[i].mapping != 0) {
            missing += !is_in_maps(table[i].page);
            in_arena += table[i].page - first < ARENA_PAGES;
        }
    }
    for (uint64_t page = 0; page < ARENA_PAGES; page++) {
        of_maps += is_in_maps(first + page);
    }
    say("{\"missing\": %" PRIu64 ", \"arena\": %" PRIu64 ", \"arena_in_maps\": %" PRIu64 "}\n",
        missing, in_arena, of_maps);
}

static void print_owners(void) {
    for (int i = 0; i < OWNERS; i++) {
        say("{\"function\": \"%s\", \"allocated_blocks\": %" PRIu64
            ", \"allocated_bytes\": %" PRIu64 ", \"in_use_blocks\": %" PRIu64
            ", \"in_use_bytes\": %" PRIu64 ", \"peak_blocks\": %" PRIu64
            ", \"peak_bytes\": %" PRIu64 "}\n",
            names[i], owners[i].n, owners[i].bytes, owners[i].live, owners[i].end_bytes,
            owners[i].peak_live, owners[i].peak_bytes);
    }
}

/* ---- one thread ---- */

static uint64_t state;

static uint64_t below(uint64_t *of, uint64_t n) {
    *of = *of * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*of >> 33) % n;
}

struct place {
    char *address;
    size_t bytes;
};

static size_t whole_pages(size_t bytes) {
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static void one_step(char *arena, struct place *places, int fd) {
    struct place *place = &places[below(&state, PLACES)];
    char *in_arena = arena + below(&state, ARENA_PAGES - 64) * PAGE;
    const size_t bytes = below(&state, 63 * PAGE) + 1;
    char *p;
    switch (below(&state, 9)) {
    case 0:
        p = map_anywhere(bytes);
        note_map(ANYWHERE, p, bytes);
        *place = (struct place){p, bytes};
        break;
    case 1:
        if (is_ours(in_arena, bytes)) {
            note_map(OVER, map_over(in_arena, bytes), bytes);
        }
        break;
    case 2:
        if (is_ours(in_arena, bytes)) {
            note_map(RESERVE, reserve(in_arena, bytes), bytes);
        }
        break;
    case 3:
        note_map(FILES, map_file(bytes, fd), bytes);
        break;
    case 4: /* a range of the arena, whose pages may belong to several mappings or to none */
        if (is_ours(in_arena, bytes) && munmap(in_arena, bytes) == 0) {
            note_unmap(in_arena, bytes);
        }
        break;
    case 5: { /* a range that begins in a mapping or at its end, and may go beyond it; then an
               * unaligned address, which must fail */
        char *at = place->address + below(&state, 1 + place->bytes / PAGE) * PAGE;
        if (place->bytes > 0 && is_ours(at, bytes) && munmap(at, bytes) == 0) {
            note_unmap(at, bytes);
        }
        if (munmap(in_arena + 1, PAGE) == 0) {
            _exit(97);
        }
        break;
    }
    case 6:
    case 7: {
        /* A mapping that becomes shorter still belongs to the function that made it; one that grows
         * is a new mapping of resize. The call fails if it has to enlarge a range that is no longer
         * one mapping of the kernel. */
        p = place->bytes > 0 && is_ours(place->address, place->bytes)
                ? resize(place->address, place->bytes, bytes)
                : MAP_FAILED;
        if (p != MAP_FAILED) {
            const size_t kept = whole_pages(bytes), old = whole_pages(place->bytes);
            if (kept > old) {
                note_unmap(place->address, old);
                note_map(RESIZE, p, kept);
            } else {
                note_unmap(p + kept, old - kept);
            }
            *place = (struct place){p, bytes};
        }
        break;
    }
    default:
        if (extend_break((intptr_t)bytes) != (void *)-1) {
            const uint32_t mapping = note_mapping(BREAK, bytes);
            note_peak();
            if (below(&state, 2) == 0) { /* give a part or all of it back */
                const uint64_t back = below(&state, 4) == 0 ? bytes : below(&state, bytes);
                (void)extend_break(-(intptr_t)back);
                lose(mapping, back);
            }
        }
    }
}

static void alone(long n_steps) {
    struct place places[PLACES] = {{NULL, 0}};
    const int fd = open("/proc/self/exe", O_RDONLY);
    char *arena = reserve(NULL, (size_t)ARENA_PAGES * PAGE);
    note_map(RESERVE, arena, (size_t)ARENA_PAGES * PAGE);
    for (long i = 0; i < n_steps; i++) {
        one_step(arena, places, fd);
    }
    print_owners();
    compare(arena);
}

/* ---- several threads ---- */

struct worker {
    pthread_t thread;
    uint64_t state;
    long n_steps;
    struct place places[PLACES];
    uint64_t n[OWNERS], bytes[OWNERS];
};

static void *work(void *context) {
    struct worker *worker = context;
    for (long i = 0; i < worker->n_steps; i++) {
        struct place *place = &worker->places[below(&worker->state, PLACES)];
        const size_t bytes = (1 + below(&worker->state, 4)) * 16 * PAGE;
        const bool is_resized = place->bytes > 0 && below(&worker->state, 3) == 0;
        if (place->bytes > 0 && !is_resized && munmap(place->address, place->bytes) != 0) {
            _exit(96);
        }
        place->address =
            is_resized ? resize(place->address, place->bytes, bytes) : map_anywhere(bytes);
        if (place->address == MAP_FAILED) {
            _exit(95);
        }
        const size_t old_bytes = place->bytes;
        place->bytes = bytes;
        const bool is_shrunk = is_resized && bytes <= old_bytes;
        worker->n[is_resized ? RESIZE : ANYWHERE] += !is_shrunk;
        worker->bytes[is_resized ? RESIZE : ANYWHERE] += is_shrunk ? 0 : bytes;
    }
    return NULL;
}

static void together(uint64_t seed, long n_steps) {
    static struct worker workers[THREADS];
    uint64_t end_bytes = 0, live = 0;
    for (int i = 0; i < THREADS; i++) {
        workers[i].state = seed + (uint64_t)i;
        workers[i].n_steps = n_steps;
        pthread_create(&workers[i].thread, NULL, work, &workers[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        for (int owner = 0; owner < OWNERS; owner++) {
            owners[owner].n += workers[i].n[owner];
            owners[owner].bytes += workers[i].bytes[owner];
        }
        for (int place = 0; place < PLACES; place++) {
            end_bytes += workers[i].places[place].bytes;
            live += workers[i].places[place].bytes > 0;
        }
    }
    print_owners();
    say("{\"in_use_bytes\": %" PRIu64 ", \"in_use_blocks\": %" PRIu64 "}\n", end_bytes, live);
}

int main(int count, char **words) {
    const bool has_threads = count > 1 && strcmp(words[1], "threads") == 0;
    if (count != (has_threads ? 4 : 3)) {
        return 2;
    }
    state = strtoull(words[count - 2], NULL, 10);
    const long n_steps = atol(words[count - 1]);
    if (has_threads) {
        together(state, n_steps);
    } else {
        alone(n_steps);
    }
    return 0;
}
