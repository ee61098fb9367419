/* truth.h: the counts of a torture program of its own calls of allocation functions, with which its
 * trace is compared.
 *
 * The counts are in a file that the driver creates. It is mapped shared, so the counts survive
 * every way in which a process can end. Each process has a record of its own. The pointer to this
 * record is on a page that the kernel clears when memory is copied to a child (MADV_WIPEONFORK). So
 * a child of fork or clone, also in a handler, takes a new record at its first call; a child of
 * vfork, which shares its parent's memory, counts for its parent, as in allogram.
 *
 * A call is counted before it begins and again when it is done. If a process was killed in between,
 * the trace must have at least the calls that were done and at most those that were begun.
 *
 *     offset                                what
 *     0                                     struct truth_header
 *     TRUTH_HEADER_BYTES                    struct truth_process x TRUTH_PROCESSES
 *
 * trace_truth.py reads this layout. */
#ifndef TORTURE_TRUTH_H
#define TORTURE_TRUTH_H

#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRUTH_HEADER_BYTES = 65536,
    TRUTH_PROCESSES = 4096,
    TRUTH_SITES = 96,
    TRUTH_RESULTS = 4096,
    PAGE_BYTES = 4096,
    BLOCK_LEAST_BYTES = 32, /* has room for the two words that truth_done writes */
};

struct truth_site {
    _Atomic uint64_t blocks_begun, blocks_done, bytes_begun, bytes_done;
    /* of the blocks that this process itself allocated at this site */
    _Atomic uint64_t frees_begun, frees_done;
};

struct truth_process {
    _Atomic uint32_t pid;
    _Atomic uint32_t is_executed;   /* an act executed this program again, here or in a parent */
    _Atomic uint64_t foreign_frees; /* of blocks of the process that it was forked from */
    struct truth_site sites[TRUTH_SITES];
};

struct truth_header {
    _Atomic uint32_t n_processes, n_results;
    _Atomic uint32_t is_running; /* main has begun its acts: the driver may attach */
    uint32_t reserved;
    _Atomic uint64_t results[TRUTH_RESULTS]; /* a ring of slots in which children store results */
};
_Static_assert(sizeof(struct truth_header) <= TRUTH_HEADER_BYTES, "the records begin there");

/* The kernel clears this page in every child that has a copy of its parent's memory. */
struct truth_page {
    struct truth_process *_Atomic self;
};

extern struct truth_header *truth_file;
extern struct truth_page *truth_page;
extern int truth_is_executed;

/* Maps the file of $TORTURE_TRUTH, or private memory. */
void truth_open(void);
/* Whether at least half of the records are free. */
int truth_has_room(void);
/* Takes a record for this process, if it has none yet, and returns the record. */
struct truth_process *truth_claim(void);
/* Prints a line on standard error: something is wrong that would not occur without allogram. */
void complain(const char *what);

/* The number of a new result slot; the slot of a number. */
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

/* The word at the start of a block identifies its site and the process that allocated it. */
enum { BLOCK_MAGIC = 0x7047 };
static inline uint64_t block_word(unsigned site, const struct truth_process *self) {
    return (uint64_t)BLOCK_MAGIC << 48 | (uint64_t)site << 32 |
           (uint64_t)((const char *)self - (const char *)truth_file);
}

static inline void truth_done(unsigned site, size_t n, void *block) {
    struct truth_process *self = truth_self();
    struct truth_site *truth = &self->sites[site];
    if (block == NULL) { /* refused: truth_begin is undone */
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

/* Set while truth_free_begin chooses the counters and counts. A handler must not fork then: the
 * child would return into the function with its parent's counters. */
extern __thread volatile sig_atomic_t truth_is_choosing;

/* The counters of the site of a block that is about to be freed; NULL: another process allocated
 * it. */
struct truth_site *truth_free_begin(void *block);

static inline void truth_free_done(struct truth_site *truth) {
    if (truth != NULL) {
        truth_add(&truth->frees_done, 1);
    }
}

#endif
