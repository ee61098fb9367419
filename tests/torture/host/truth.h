/* truth.h: what a rude program itself counts of its calls of the allocation functions.
 *
 * The counts are in a file that the driver makes, mapped shared, so they survive every way in which
 * a process can end. Each process has a record of its own; the page that says which one is wiped by
 * the kernel when memory is copied (MADV_WIPEONFORK), so a child of fork, of clone or of a handler
 * takes a new record at its first call, and a child of vfork, which shares its parent's memory,
 * counts for its parent, as allogram does.
 *
 * A call is counted before it begins and again when it is done: of a process that was killed in
 * between, the trace holds at least what was done and at most what was begun.
 *
 *     offset                                what
 *     0                                     struct truth_header
 *     TRUTH_HEADER_BYTES                    struct truth_process x TRUTH_PROCESSES
 *
 * The layout is read by trace_truth.py. */
#ifndef TORTURE_TRUTH_H
#define TORTURE_TRUTH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRUTH_HEADER_BYTES = 65536,
    TRUTH_PROCESSES = 4096,
    TRUTH_SITES = 96,
    TRUTH_RESULTS = 4096,
    PAGE_BYTES = 4096,
    BLOCK_LEAST_BYTES = 32, /* room for the word that says whose block it is */
};

struct truth_site {
    _Atomic uint64_t blocks_begun, blocks_done, bytes_begun, bytes_done;
    /* of the blocks that this process itself allocated at this site */
    _Atomic uint64_t frees_begun, frees_done;
};

struct truth_process {
    _Atomic uint32_t pid;
    _Atomic uint32_t is_executed;   /* by another program of the same text, maybe in a parent */
    _Atomic uint64_t foreign_frees; /* of blocks of the process that it was forked from */
    struct truth_site sites[TRUTH_SITES];
};

struct truth_header {
    _Atomic uint32_t n_processes, n_results;
    _Atomic uint32_t is_running; /* main has begun its acts: the driver may attach */
    uint32_t reserved;
    _Atomic uint64_t results[TRUTH_RESULTS]; /* a ring: where children leave their results */
};
_Static_assert(sizeof(struct truth_header) <= TRUTH_HEADER_BYTES, "the records begin there");

/* Wiped in every child that has a copy of its parent's memory. */
struct truth_page {
    struct truth_process *_Atomic self;
};

extern struct truth_header *truth_file;
extern struct truth_page *truth_page;
extern int truth_is_executed;

/* Maps the file of $TORTURE_TRUTH, or private memory. */
void truth_open(void);
/* Is at least half of the records free? */
int truth_has_room(void);
/* This process' record, taken at the first call. */
struct truth_process *truth_claim(void);
/* Something is wrong that would not be without allogram: one line on standard error. */
void complain(const char *what);

/* A number of a result slot, and the slot. */
unsigned truth_new_result(void);
_Atomic uint64_t *truth_result(unsigned number);

static inline struct truth_process *truth_self(void) {
    struct truth_process *self = atomic_load_explicit(&truth_page->self, memory_order_relaxed);
    return __builtin_expect(self != NULL, 1) ? self : truth_claim();
}

static inline void truth_add(_Atomic uint64_t *counter, uint64_t n) {
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static inline void truth_begin(unsigned site, size_t n) {
    struct truth_site *truth = &truth_self()->sites[site];
    truth_add(&truth->bytes_begun, n);
    truth_add(&truth->blocks_begun, 1);
}

/* The word at the start of a block: whose it is. */
enum { BLOCK_MAGIC = 0x7047 };
static inline uint64_t block_word(unsigned site, const struct truth_process *self) {
    return (uint64_t)BLOCK_MAGIC << 48 | (uint64_t)site << 32 |
           (uint64_t)((const char *)self - (const char *)truth_file);
}

static inline void truth_done(unsigned site, size_t n, void *block) {
    struct truth_process *self = truth_self();
    struct truth_site *truth = &self->sites[site];
    if (block == NULL) { /* refused: nothing was begun */
        truth_add(&truth->blocks_begun, UINT64_MAX);
        truth_add(&truth->bytes_begun, -(uint64_t)n);
        return;
    }
    truth_add(&truth->blocks_done, 1);
    truth_add(&truth->bytes_done, n);
    ((uint64_t *)block)[0] = block_word(site, self);
    ((uint64_t *)block)[1] = n;
    ((unsigned char *)block)[n - 1] = (unsigned char)(n * 7 + site);
}

/* The site's counters of a block that is about to be freed; NULL: it is another process' block. */
struct truth_site *truth_free_begin(void *block);

static inline void truth_free_done(struct truth_site *truth) {
    if (truth != NULL) {
        truth_add(&truth->frees_done, 1);
    }
}

#endif
