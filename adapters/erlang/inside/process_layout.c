/* process_layout.c: finds the words of the emulator's process structure that describe the heap, for
 * the tracer (tracer.c). It reads a process whose state is known.
 *
 * The environment of a native function has copies of two of the pointers (the heap's top, and the
 * limit to which the function may fill the heap), and the size of a term is known. So each word is
 * recognized by the value that it must have. The layout is refused if more than one word fits:
 *
 *     heap top, stack top                   the first is the environment's, the second at most a
 *                                           reserve above the environment's limit
 *     heap, end, abandoned, size            the first is below the top, the second above the
 *                                           stack top, the fourth is the number of words from the
 *                                           first to the second
 *     fragments, messages, fragment words   a list is made that fits no heap: the first becomes the
 *                                           environment's fragment, the third grows by that list
 *
 * Word 0 is the process' identifier. Offsets in bytes in Debian's builds: heap top 80, heap 128
 * (OTP 25) or 192 (27, 29), fragments 560 or 544. */
#include "process_layout.h"

#include <string.h>

struct ag_process_layout ag_process_layout;

enum {
    FIRST_WORDS = 60,   /* the words of the heap are among the first 60 words of a process */
    LOOKED_AT = 80,     /* words that are compared; the smallest known process has 95 */
    STACK_RESERVE = 16, /* the stack's top is at most this many words above the limit for native
                         * functions */
    NOT_FOUND = 0,
    SPARE_CELLS = 64,
};

/* Whether word I may be the beginning of the heap: then word I + 1 is the end of the heap, and word
 * I + 3 its size. */
static bool has_size(const uint64_t *process, uint32_t i) {
    return process[i + 3] == (process[i + 1] - process[i]) / sizeof(uint64_t);
}

/* Finds the word with the top of the heap. If the heap is empty and the stack has few words, the
 * words with the beginning and the end of the heap have nearly the same values as those with the
 * heap's top and the stack's top; has_size recognizes and excludes them. */
static uint32_t find_heap_top(const uint64_t *process, uint64_t top, uint64_t limit) {
    uint32_t found = NOT_FOUND;
    for (uint32_t i = 1; i + 3 < FIRST_WORDS; i++) {
        const bool is_stack = process[i + 1] >= limit && process[i + 1] > top &&
                              process[i + 1] <= limit + STACK_RESERVE * sizeof(uint64_t);
        if (process[i] == top && is_stack && !has_size(process, i)) {
            if (found != NOT_FOUND) {
                return NOT_FOUND;
            }
            found = i;
        }
    }
    return found;
}

static uint32_t find_heap(const uint64_t *process, uint32_t heap_top) {
    uint32_t found = NOT_FOUND;
    const uint64_t top = process[heap_top], stack = process[heap_top + 1];
    for (uint32_t i = heap_top + 2; i + 3 < FIRST_WORDS; i++) {
        const uint64_t heap = process[i], end = process[i + 1];
        if (heap != 0 && heap <= top && end >= stack && end > heap && has_size(process, i)) {
            if (found != NOT_FOUND) {
                return NOT_FOUND;
            }
            found = i;
        }
    }
    return found;
}

/* Makes a list that has no room on the heap. */
static uint64_t make_fragment(ErlNifEnv *env) {
    const size_t free_words =
        (size_t)(ag_env_word(env, AG_ENV_HEAP_END) - ag_env_word(env, AG_ENV_HEAP_TOP));
    const size_t n_cells = free_words + SPARE_CELLS;
    ERL_NIF_TERM *cells = enif_alloc(n_cells * sizeof(*cells));
    if (cells == NULL) {
        return 0;
    }
    for (size_t i = 0; i < n_cells; i++) {
        cells[i] = enif_make_int(env, 0);
    }
    (void)enif_make_list_from_array(env, cells, (unsigned)n_cells); /* the list is made only for its
                                                                     * size */
    enif_free(cells);
    return 2 * n_cells;
}

static uint32_t find_fragments(ErlNifEnv *env, const uint64_t *process, uint32_t after) {
    uint64_t before[LOOKED_AT];
    memcpy(before, process, sizeof before);
    const uint64_t words = make_fragment(env);
    const uint64_t fragment = (uint64_t)(uintptr_t)ag_env_word(env, AG_ENV_FRAGMENT);
    uint32_t found = NOT_FOUND;
    for (uint32_t i = after; words != 0 && i + 3 < LOOKED_AT; i++) {
        if (process[i] == fragment && before[i] != fragment &&
            process[i + 3] - before[i + 3] == words) {
            if (found != NOT_FOUND) {
                return NOT_FOUND;
            }
            found = i;
        }
    }
    return found;
}

const char *ag_process_layout_find(ErlNifEnv *env) {
    const uint64_t *process = ag_env_word(env, AG_ENV_PROCESS);
    const uint64_t top = (uint64_t)(uintptr_t)ag_env_word(env, AG_ENV_HEAP_TOP);
    const uint64_t limit = (uint64_t)(uintptr_t)ag_env_word(env, AG_ENV_HEAP_END);
    ErlNifPid self;
    if (enif_self(env, &self) == NULL || process == NULL || process[0] != self.pid) {
        return "the process that runs a native function";
    }
    const uint32_t heap_top = find_heap_top(process, top, limit);
    if (heap_top == NOT_FOUND) {
        return "the top of a process' heap";
    }
    const uint32_t heap = find_heap(process, heap_top);
    if (heap == NOT_FOUND) {
        return "the beginning of a process' heap";
    }
    const uint32_t fragments = find_fragments(env, process, heap + 4);
    if (fragments == NOT_FOUND) {
        return "the fragments of a process' heap";
    }
    ag_process_layout = (struct ag_process_layout){.heap_top = heap_top,
                                                   .stack_top = heap_top + 1,
                                                   .heap = heap,
                                                   .heap_end = heap + 1,
                                                   .abandoned_heap = heap + 2,
                                                   .message_fragments = fragments + 2,
                                                   .fragment_words = fragments + 3,
                                                   .is_known = true};
    return NULL;
}
