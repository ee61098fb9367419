/* thread_storage.c: finds the thread-local storage (TLS) of threads, for resident_look.c.
 *
 * 1. Layout. glibc places the static TLS of a thread and its control block (TCB) above the thread's
 * stack, in the same mapping. The TLS and TCB of the first thread are in a small mapping that the
 * dynamic linker made, or (static programs) at the start of [heap]. On x86-64:
 *
 *      low                                                              high
 *      | stack ... | TLS of a library | ... | TLS of the program | TCB ... |
 *                  ^ the lowest address in the dtv               ^ thread pointer
 *
 * The TCB begins with its own address, the address of the dtv (dynamic thread vector), and its own
 * address again. The ABI for TLS fixes this; compilers rely on the first word. The dtv has an
 * element of two words for each library with TLS: the address of the library's TLS, and the block
 * of malloc in which it is, if the TLS was allocated when the thread used it first (dynamic TLS).
 * The element before the dtv, with which the block of the dtv begins, has the length of the dtv.
 *
 * 2. Search. The kernel does not report the thread pointer of a running thread. So the top of each
 * stack, the start of [heap], and other small mappings without a name are searched for an address
 * at which the first and the third word contain this address. The dtv must be valid, too: a length
 * of 1 to DTV_MOST, and static TLS below the TCB at most STATIC_BYTES_MOST away, or none. A list
 * head, which also contains its own address, fails these tests. The search, also for the dtv, reads
 * only pages of private anonymous memory that were resident when the look was taken. Any other page
 * could belong to a file system or to userfaultfd, and reading it could wait for a long time. The
 * number of candidates per mapping and of all ranges is limited.
 *
 * 3. Changes. The process runs meanwhile, so a thread may end or its dtv may move. This does no
 * harm: only addresses were read, and the reader compares them with the resident pages of the same
 * look. */
#include "thread_storage.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "format/page_runs.h"
#include "table/array.h"

enum {
    WORD = 8,
    TCB_ALIGNMENT = 64,
    TCB_BYTES = 2304, /* struct pthread of glibc 2.36; other versions differ by some 100 bytes */
    TOP_BYTES = 8192, /* the TCB is in the uppermost bytes of a stack */
    SMALL_MAPPING = 256 << 10,
    STATIC_BYTES_MOST = 1 << 20,
    DTV_MOST = 1024,
    CANDIDATES_MOST = 16,   /* of a mapping: addresses that may be a TCB */
    STORAGE_MOST = 1 << 16, /* ranges of a look; the search ends when there are more */
};

struct dtv_element {
    uint64_t value, block;
};

/* Returns whether all bytes were read. */
static bool read_memory(uint32_t pid, uint64_t address, void *ret_bytes, size_t n_bytes) {
    const struct iovec here = {ret_bytes, n_bytes};
    const struct iovec there = {(void *)(uintptr_t)address, n_bytes};
    return process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0) == (ssize_t)n_bytes;
}

static int add(struct ag_resident_look *look, uint64_t low, uint64_t high) {
    const struct ag_storage_range range = {low, high};
    return AG_ARRAY_ADD(look->storage, look->n_storage, range);
}

/* Whether [address, address + n_bytes) is in resident pages of private anonymous memory. */
static bool is_resident(const struct ag_resident_look *look, uint64_t address, uint64_t n_bytes) {
    size_t low = 0, high = look->n_mappings;
    while (low < high) { /* the first mapping that ends after the address */
        const size_t middle = low + (high - low) / 2;
        if (look->mappings[middle].high <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct ag_resident_mapping *mapping = &look->mappings[low];
    if (low == look->n_mappings || address < mapping->low || mapping->pages == NULL ||
        (mapping->flags & (AG_RESIDENT_FILE | AG_RESIDENT_SHARED))) {
        return false;
    }
    struct ag_page_runs runs = ag_page_runs_of(mapping, look->page_bytes);
    while (runs.high <= address && ag_page_runs_next(&runs)) {
    }
    return address >= runs.low && address < runs.high && n_bytes <= runs.high - address;
}

/* Adds the storage of the thread with this TCB. Returns 1; 0: there is no TCB here; -ENOMEM. */
static int add_thread(uint32_t pid, struct ag_resident_look *look,
                      const struct ag_resident_mapping *mapping, uint64_t tcb, uint64_t dtv) {
    struct dtv_element head[2], elements[DTV_MOST];
    if (dtv % WORD != 0 || dtv < sizeof head[0] ||
        !is_resident(look, dtv - sizeof head[0], sizeof head) ||
        !read_memory(pid, dtv - sizeof head[0], head, sizeof head) || head[0].value == 0 ||
        head[0].value > DTV_MOST ||
        !is_resident(look, dtv + sizeof head[0], head[0].value * sizeof elements[0]) ||
        !read_memory(pid, dtv + sizeof head[0], elements, head[0].value * sizeof elements[0])) {
        return 0;
    }
    uint64_t low = tcb;
    for (uint64_t i = 0; i < head[0].value; i++) {
        const uint64_t value = elements[i].value;
        if (value >= mapping->low && value < tcb) {
            if (tcb - value > STATIC_BYTES_MOST) {
                return 0;
            }
            low = value < low ? value : low;
        }
    }
    const uint64_t end = (mapping->flags & AG_RESIDENT_STACK) || mapping->high - tcb < TCB_BYTES
                             ? mapping->high
                             : tcb + TCB_BYTES;
    int r = add(look, low, end);
    r = r < 0 ? r : add(look, dtv - sizeof head[0], dtv - sizeof head[0]);
    for (uint64_t i = 0; i < head[0].value && r == 0; i++) {
        r = elements[i].block != 0 ? add(look, elements[i].block, elements[i].block) : 0;
    }
    return r < 0 ? r : 1;
}

/* The address at which the search in a mapping begins; mapping->high: the mapping is not
 * searched. */
static uint64_t search_from(const struct ag_resident_mapping *mapping, uint64_t *ret_high) {
    const uint64_t bytes = mapping->high - mapping->low;
    *ret_high = mapping->high;
    if ((mapping->flags & (AG_RESIDENT_FILE | AG_RESIDENT_SHARED)) ||
        !(mapping->flags & AG_RESIDENT_WRITE)) {
        return mapping->high;
    }
    if (strcmp(mapping->path, "[heap]") == 0) {
        *ret_high = bytes > TOP_BYTES ? mapping->low + TOP_BYTES : mapping->high;
        return mapping->low;
    }
    if (mapping->path[0] == '[') { /* the stack of the first thread has no TCB */
        return strncmp(mapping->path, "[anon:", 6) != 0 || bytes <= TOP_BYTES
                   ? mapping->high
                   : mapping->high - TOP_BYTES;
    }
    if (mapping->flags & AG_RESIDENT_STACK) {
        return bytes > TOP_BYTES ? mapping->high - TOP_BYTES : mapping->low;
    }
    return bytes <= SMALL_MAPPING ? mapping->low : mapping->high;
}

/* Reads [low, high), without the pages that are not resident: reading these would change the memory
 * of the process, and could wait (userfaultfd). Their words are set to 0. Returns whether something
 * was read. */
static bool read_resident(uint32_t pid, const struct ag_resident_look *look,
                          const struct ag_resident_mapping *mapping, uint64_t low, uint64_t high,
                          uint64_t *ret_words) {
    struct ag_page_runs runs = ag_page_runs_of(mapping, look->page_bytes);
    bool has_read = false;
    memset(ret_words, 0, high - low);
    while (runs.low < high && ag_page_runs_next(&runs)) {
        const uint64_t first = runs.low > low ? runs.low : low,
                       last = runs.high < high ? runs.high : high;
        has_read |=
            first < last && read_memory(pid, first, ret_words + (first - low) / WORD, last - first);
    }
    return has_read;
}

static int search(uint32_t pid, struct ag_resident_look *look,
                  const struct ag_resident_mapping *mapping, uint64_t *words) {
    uint64_t high;
    const uint64_t low = search_from(mapping, &high);
    if (low >= high || !read_resident(pid, look, mapping, low, high, words)) {
        return 0;
    }
    unsigned n_candidates = 0;
    for (uint64_t at = (high - 3 * WORD) / TCB_ALIGNMENT * TCB_ALIGNMENT;
         at >= low && n_candidates < CANDIDATES_MOST; at -= TCB_ALIGNMENT) {
        const uint64_t *tcb = words + (at - low) / WORD;
        if (tcb[0] == at && tcb[2] == at && tcb[1] != at) {
            n_candidates++;
            const int r = add_thread(pid, look, mapping, at, tcb[1]);
            if (r != 0) {
                return r;
            }
        }
    }
    return 0;
}

static int by_address(const void *left, const void *right) {
    const struct ag_storage_range *a = left, *b = right;
    return a->low != b->low ? (a->low < b->low ? -1 : 1)
                            : (a->high > b->high) - (a->high < b->high);
}

int ag_thread_storage_find(uint32_t pid, struct ag_resident_look *look) {
    uint64_t *words = malloc(SMALL_MAPPING);
    int r = words != NULL ? 0 : -ENOMEM;
    for (size_t i = 0; i < look->n_mappings && r >= 0 && look->n_storage < STORAGE_MOST; i++) {
        r = search(pid, look, &look->mappings[i], words);
    }
    free(words);
    if (look->n_storage > 0) {
        qsort(look->storage, look->n_storage, sizeof *look->storage, by_address);
    }
    return r < 0 ? r : 0;
}
