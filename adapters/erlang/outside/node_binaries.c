/* node_binaries.c: counts the binaries outside of a process' heap to which the process refers, as
 * process_info(Pid, binary) lists them.
 *
 * A process has a list of the terms on its heap that refer to memory outside of it. The references
 * to binaries are among them; each points to the block of a binary, which has its size:
 *
 *     OTP 25     header, size, next, binary, ..        binary: flags, references, size, bytes
 *     OTP 27     header, binary, next                  binary: flags, .., references, size, bytes
 *
 * Binaries that are being appended to are in a list of their own, and each heap fragment (a piece
 * of the heap that is outside of its block) has a list, too. As in process_info, a binary counts
 * once for each reference to it, also if one process has several references.
 *
 * The lists are read word by word, through a small cache of pages, since neighbors in a list are
 * mostly neighbors in memory. If the heap or the lists of the process have changed meanwhile, all
 * its lists are read again, up to TRIES times altogether. */
#include <errno.h>
#include <string.h>

#include "node_binaries.h"

enum {
    PAGE_BYTES = 4096,
    CACHED_PAGES = 16,
    BINARIES_MOST = 1 << 22, /* so that the walk ends if the list becomes circular while it is
                              * read */
    FRAGMENTS_MOST = 1 << 16,
    NEXT = 16, /* in all versions: offset of the next term of the list */
    FRAGMENT_OFF_HEAP = 8,
    TRIES = 3,
};

/* The words that were read last, by page. */
struct cache {
    struct node *node;
    uint64_t pages[CACHED_PAGES]; /* 0: none */
    uint64_t words[CACHED_PAGES][PAGE_BYTES / 8];
};

static int read_word(struct cache *cache, uint64_t address, uint64_t *ret_word) {
    const uint64_t page = address / PAGE_BYTES * PAGE_BYTES;
    const size_t line = address / PAGE_BYTES % CACHED_PAGES;
    if (address % 8 != 0) {
        return -EBADMSG;
    }
    if (cache->pages[line] != page || page == 0) {
        cache->pages[line] = 0;
        const int r =
            allogram_target_read(cache->node->target, page, cache->words[line], PAGE_BYTES);
        if (r < 0) {
            return r;
        }
        cache->pages[line] = page;
    }
    *ret_word = cache->words[line][address % PAGE_BYTES / 8];
    return 0;
}

static int count_list(struct cache *cache, uint64_t term, struct node_binaries *sum) {
    const struct node_layout *layout = cache->node->layout;
    for (uint32_t i = 0; term != 0; i++) {
        uint64_t header, binary, bytes;
        int r = i < BINARIES_MOST ? read_word(cache, term, &header) : -EBADMSG;
        if (r == 0 && header == layout->reference_header) {
            r = read_word(cache, term + layout->reference_binary, &binary);
            r = r < 0 ? r : read_word(cache, binary + layout->binary_bytes, &bytes);
            sum->n++;
            sum->bytes += r == 0 ? bytes : 0;
        }
        r = r < 0 ? r : read_word(cache, term + NEXT, &term);
        if (r < 0) {
            return r;
        }
    }
    return 0;
}

static int count_all(struct cache *cache, const struct node_process *process,
                     struct node_binaries *sum) {
    const struct node_layout *layout = cache->node->layout;
    uint64_t fragment = node_process_word(process, layout->process_fragments);
    int r = count_list(cache, node_process_word(process, layout->process_off_heap), sum);
    r = r < 0 ? r : count_list(cache, node_process_word(process, layout->process_writable), sum);
    for (uint32_t i = 0; r == 0 && fragment != 0; i++) {
        uint64_t first;
        r = i < FRAGMENTS_MOST ? read_word(cache, fragment + FRAGMENT_OFF_HEAP, &first) : -EBADMSG;
        r = r < 0 ? r : count_list(cache, first, sum);
        r = r < 0 ? r : read_word(cache, fragment, &fragment);
    }
    return r;
}

static bool is_same(const struct node_layout *layout, const struct node_process *a,
                    const struct node_process *b) {
    const uint32_t words[] = {0, layout->process_heap, layout->process_off_heap,
                              layout->process_writable, layout->process_fragments};
    bool is_same = true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        is_same &= node_process_word(a, words[i]) == node_process_word(b, words[i]);
    }
    return is_same;
}

int node_count_binaries(struct node *node, const struct node_process *process,
                        struct node_binaries *ret_sum) {
    struct node_process now = *process, later;
    struct cache cache;
    int r = -EAGAIN;
    cache.node = node;
    for (int i = 0; i < TRIES && r < 0; i++) {
        memset(cache.pages, 0, sizeof cache.pages);
        *ret_sum = (struct node_binaries){0};
        r = count_all(&cache, &now, ret_sum);
        if (node_read_process(node, process->address, &later) < 0) {
            return -ESRCH;
        }
        if (!is_same(node->layout, &now, &later)) {
            r = -EAGAIN;
        }
        now = later;
    }
    return r;
}
