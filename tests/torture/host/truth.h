/* truth.h: a torture program counts its own allocations and frees. The driver (run_torture.py)
 * compares these counts with the trace.
 *
 * The counts are in a file that the driver creates. The program maps the file as shared memory, so
 * the counts survive every way in which a process can end. Each process has a record in the file.
 * The pointer to the record is on a page that the kernel clears when memory is copied to a child
 * (MADV_WIPEONFORK). So a child that has a copy of the memory (fork) takes a new record at its
 * first call, also if a signal handler created the child. A child that shares its parent's memory
 * (vfork, CLONE_VM) counts its calls for its parent, as in allogram.
 *
 * A call is counted as begun before it begins, and as done when it returns. If a process was killed
 * during a call, the trace must have at least the calls that were done and at most those that were
 * begun.
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
    /* frees of blocks that this process itself allocated at this site (a function, see sites.h) */
    _Atomic uint64_t frees_begun, frees_done;
};

struct truth_process {
    _Atomic uint32_t pid;
    /* 1 if this process, or an ancestor, was started by an act (a step) that executed this program
     * again */
    _Atomic uint32_t is_executed;
    _Atomic uint64_t foreign_frees; /* frees of blocks that an ancestor allocated before a fork */
    struct truth_site sites[TRUTH_SITES];
};

struct truth_header {
    _Atomic uint32_t n_processes, n_results;
    _Atomic uint32_t is_running; /* 1 as soon as main runs the acts */
    _Atomic uint32_t n_others;   /* executions of other programs, which have no counts here */
    _Atomic uint64_t results[TRUTH_RESULTS]; /* slots, reused in turn, for results of children */
};
_Static_assert(sizeof(struct truth_header) <= TRUTH_HEADER_BYTES, "the header has room");

/* The kernel clears this page in every child that has a copy of its parent's memory. */
struct truth_page {
    struct truth_process *_Atomic self;
};

extern struct truth_header *truth_file;
extern struct truth_page *truth_page;
extern int truth_is_executed;

/* Maps the file that $TORTURE_TRUTH names; if it is not set, maps anonymous shared memory. */
void truth_open(void);
/* Whether more than half of the records are free. */
int truth_has_room(void);
/* Takes a record for this process, if it has none yet, and returns the record. */
struct truth_process *truth_claim(void);
/* Prints a line with WHAT on standard error. Called for errors that must not occur in any run, with
 * or without allogram. */
void complain(const char *what);

/* Returns the number of a new slot for a result. */
unsigned truth_new_result(void);
/* Returns the slot with this number. */
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
    if (block == NULL) { /* nothing was allocated: undo truth_begin */
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

/* 1 while truth_free_begin runs in this thread. During this time a signal handler must not fork,
 * because the child would return into truth_free_begin and use its parent's counters. */
extern __thread volatile sig_atomic_t truth_is_choosing;

/* Must be called before a block is freed. Returns the counters of the block's site, or NULL if
 * another process allocated the block or the block was overwritten (then it complains). */
struct truth_site *truth_free_begin(void *block);

static inline void truth_free_done(struct truth_site *truth) {
    if (truth != NULL) {
        truth_add(&truth->frees_done, 1);
    }
}

#endif
