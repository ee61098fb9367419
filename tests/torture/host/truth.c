/* truth.c: maps the file in which a torture program counts its own allocations, and gives each
 * process a record in it. See truth.h. */
#define _GNU_SOURCE
#include "truth.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sites.h"

struct truth_header *truth_file;
struct truth_page *truth_page;
int truth_is_executed;
__thread volatile sig_atomic_t truth_is_choosing;

enum {
    TRUTH_BYTES = TRUTH_HEADER_BYTES + TRUTH_PROCESSES * (int)sizeof(struct truth_process),
};

static struct truth_process *process_of(unsigned number) {
    return (struct truth_process *)((char *)truth_file + TRUTH_HEADER_BYTES) + number;
}

void truth_open(void) {
    const char *path = getenv("TORTURE_TRUTH");
    const int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (path != NULL && fd < 0) {
        complain("the file of counts cannot be opened");
        _exit(99);
    }
    truth_file = mmap(NULL, TRUTH_BYTES, PROT_READ | PROT_WRITE,
                      fd < 0 ? MAP_SHARED | MAP_ANONYMOUS : MAP_SHARED, fd, 0);
    if (fd >= 0) {
        close(fd);
    }
    truth_page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (truth_file == MAP_FAILED || truth_page == MAP_FAILED ||
        madvise(truth_page, PAGE_BYTES, MADV_WIPEONFORK) != 0) {
        _exit(98);
    }
}

int truth_has_room(void) {
    return atomic_load(&truth_file->n_processes) < TRUTH_PROCESSES / 2;
}

/* Takes a record, and allocates the mark: a block whose size tells the number of the record (not
 * the pid). Signals are blocked: if a handler forked a child between the two steps, the child would
 * allocate its parent's mark. */
struct truth_process *truth_claim(void) {
    sigset_t all, before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before); /* blocks the signals of this thread only */
    const unsigned number = atomic_fetch_add(&truth_file->n_processes, 1);
    struct truth_process *mine =
        process_of(number < TRUTH_PROCESSES ? number : TRUTH_PROCESSES - 1);
    struct truth_process *self = NULL;
    /* If another thread has stored a record meanwhile, this process uses that record, and `mine`
     * stays empty. */
    if (atomic_compare_exchange_strong(&truth_page->self, &self, mine)) {
        atomic_store(&mine->pid, (uint32_t)syscall(SYS_getpid));
        atomic_store(&mine->is_executed, (uint32_t)truth_is_executed);
        site_mark(number);
        self = mine;
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    return self;
}

static struct truth_site *count_free(void *block) {
    const uint64_t word = ((uint64_t *)block)[0];
    const uint64_t n = ((uint64_t *)block)[1];
    const unsigned site = (unsigned)(word >> 32 & 0xffff);
    struct truth_process *self = truth_self();
    if (word >> 48 != BLOCK_MAGIC || site >= TRUTH_SITES ||
        ((unsigned char *)block)[n - 1] != (unsigned char)(n * 7 + site)) {
        complain("a block was overwritten");
        return NULL;
    }
    ((uint64_t *)block)[0] = 0;
    if (word != block_word(site, self)) {
        truth_add(&self->foreign_frees, 1);
        return NULL;
    }
    truth_add(&self->sites[site].frees_begun, 1);
    return &self->sites[site];
}

struct truth_site *truth_free_begin(void *block) {
    truth_is_choosing = 1;
    struct truth_site *site = count_free(block);
    truth_is_choosing = 0;
    return site;
}

unsigned truth_new_result(void) {
    const unsigned number = atomic_fetch_add(&truth_file->n_results, 1) % TRUTH_RESULTS;
    atomic_store(truth_result(number), 0);
    return number;
}

_Atomic uint64_t *truth_result(unsigned number) {
    return &truth_file->results[number % TRUTH_RESULTS];
}

void complain(const char *what) {
    char line[160] = "complaint: ";
    strncat(line, what, sizeof line - strlen(line) - 2);
    strcat(line, "\n");
    (void)!write(2, line, strlen(line));
}
