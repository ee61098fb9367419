/* observed_names.c: names the observed frames, and computes the tables of `observe`. A managed
 * frame is a frame of a runtime's function; all other frames are native. An inspector is the code
 * for one runtime (virtual machine) that reads a process of this runtime from outside.
 *
 * A frame is looked up once, on request or in advance by a thread (ag_observation_find_names). A
 * native frame can stand for several functions, because compilers inline functions. Functions with
 * the same name, image (loaded file) and runtime count as one. */
#include <errno.h>
#include <fnmatch.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/keyed_hash.h"
#include "observation_state.h"
#include "table/array.h"

/* ---- frames ---------------------------------------------------------------------------- */

static int open_symbolizer(struct ag_observation *observation) {
    if (observation->symbolizer == NULL) {
        const struct ag_symbol_options options = {.size = sizeof options,
                                                  .is_hurried = observation->options.is_hurried};
        observation->symbolizer = ag_symbolizer_new(&options);
    }
    return observation->symbolizer != NULL ? 0 : -ENOMEM;
}

void ag_observed_names_prepare(struct ag_observation *observation) {
    if (observation->naming.is_running || open_symbolizer(observation) < 0) {
        return;
    }
    for (; observation->n_symbolized_images < observation->images.n;
         observation->n_symbolized_images++) {
        const struct ag_observed_image *image =
            observation->images.items[observation->n_symbolized_images];
        const char *place = image->place != NULL ? image->place : image->path;
        /* out of memory: the image's functions are named by addresses */
        (void)ag_symbolizer_image(observation->symbolizer, image->id, place, image->elf->build_id,
                                  image->elf->build_id_bytes, image->bias, image->low, image->high);
        /* the file cannot be opened after the observed process has ended, so it is opened now */
        if (strncmp(place, "/proc/", 6) == 0) {
            const struct ag_symbol_frame *frames;
            (void)ag_symbolizer_frames(observation->symbolizer, image->id, image->low,
                                       /* return_address= */ false, &frames);
        }
    }
}

static const char *image_name(const struct ag_observation *observation, uint32_t image) {
    if (image == 0 || image > observation->images.n) {
        return NULL;
    }
    return basename(observation->images.items[image - 1]->path);
}

/* Makes the named frames of a native frame in IMAGE from the results of the symbolizer. */
static struct ag_observed_frame *name_symbols(const struct ag_observation *observation,
                                              uint32_t image, const struct ag_symbol_frame *symbols,
                                              size_t n) {
    struct ag_observed_frame *named = calloc(n + 1, sizeof *named);
    for (size_t i = 0; i < n && named != NULL; i++) {
        named[i] = (struct ag_observed_frame){
            .function = symbols[i].function,
            .file = symbols[i].file,
            .image = image_name(observation, image),
            .runtime = "c",
            .line = symbols[i].line,
            .is_known = symbols[i].is_known,
        };
    }
    return named;
}

static struct ag_observed_frame *name_native(struct ag_observation *observation,
                                             const struct ag_seen_frame *frame) {
    const struct ag_symbol_frame *symbols = NULL;
    ag_observed_names_prepare(observation);
    if (observation->symbolizer == NULL) {
        return NULL;
    }
    const size_t n = ag_symbolizer_frames(observation->symbolizer, frame->image, frame->pc,
                                          /* return_address= */ !frame->is_exact, &symbols);
    return name_symbols(observation, frame->image, symbols, n);
}

static struct ag_observed_frame *name_managed(struct ag_observation *observation,
                                              const struct ag_seen_frame *frame) {
    const struct ag_text_store *texts = &observation->seen.texts;
    struct ag_observed_frame *named = calloc(2, sizeof *named);
    if (named != NULL) {
        named[0] = (struct ag_observed_frame){
            .function = ag_text(texts, frame->function),
            .file = frame->file != 0 ? ag_text(texts, frame->file) : NULL,
            .runtime = ag_text(texts, frame->runtime),
            .line = frame->line,
            .is_known = true,
        };
    }
    return named;
}

/* ---- looking up names while the observation goes on ---- */

static void *find_names(void *context) {
    struct ag_observation *observation = context;
    for (size_t i = 0; i < observation->naming.n; i++) {
        struct ag_frame_to_name *item = &observation->naming.items[i];
        item->n_symbols =
            ag_symbolizer_frames(observation->symbolizer, item->image, item->pc,
                                 /* return_address= */ !item->is_exact, &item->symbols);
    }
    return NULL;
}

/* Starts the thread. All signals are blocked in it, because this process reads its signals by
 * signalfd, or handles them in the first thread. */
static bool start_naming(struct ag_observation *observation) {
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before); /* cannot fail: the arguments are valid */
    observation->naming.is_running =
        pthread_create(&observation->naming.thread, NULL, find_names, observation) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return observation->naming.is_running;
}

/* Stores the results of the thread, which has ended. */
static void end_naming(struct ag_observation *observation) {
    observation->naming.is_running = false;
    for (size_t i = 0; i < observation->naming.n; i++) {
        const struct ag_frame_to_name *item = &observation->naming.items[i];
        observation->named_frames[item->frame] =
            name_symbols(observation, item->image, item->symbols, item->n_symbols);
    }
    observation->naming.n = 0;
}

static void wait_for_naming(struct ag_observation *observation) {
    if (observation->naming.is_running) {
        (void)pthread_join(observation->naming.thread, NULL); /* cannot fail: it was not joined */
        end_naming(observation);
    }
}

/* Collects the native frames that have no names yet. Returns false if there are none, or if memory
 * is exhausted. */
static bool collect_frames_to_name(struct ag_observation *observation) {
    const struct ag_seen_stacks *seen = &observation->seen;
    if (AG_ARRAY_EXTEND(observation->named_frames, observation->n_named_frames, seen->n_frames) <
        0) {
        return false;
    }
    for (; observation->naming.n_frames < seen->n_frames; observation->naming.n_frames++) {
        const uint32_t id = observation->naming.n_frames;
        const struct ag_seen_frame *frame = &seen->frames[id];
        const struct ag_frame_to_name item = {
            .frame = id, .image = frame->image, .pc = frame->pc, .is_exact = frame->is_exact};
        if (frame->runtime == 0 && observation->named_frames[id] == NULL &&
            AG_ARRAY_ADD(observation->naming.items, observation->naming.n, item) < 0) {
            break;
        }
    }
    return observation->naming.n > 0;
}

bool ag_observation_find_names(struct ag_observation *observation) {
    if (observation->naming.is_running) {
        const bool is_done = pthread_tryjoin_np(observation->naming.thread, NULL) == 0;
        if (is_done) {
            end_naming(observation);
        }
        return is_done; /* the few frames seen meanwhile are named on request */
    }
    ag_observed_names_prepare(observation);
    if (observation->symbolizer == NULL || !collect_frames_to_name(observation)) {
        return true;
    }
    if (!start_naming(observation)) {
        observation->naming.n = 0; /* the names are looked up on request */
        return true;
    }
    return false;
}

const struct ag_observed_frame *ag_observed_names_of(struct ag_observation *observation,
                                                     uint32_t frame) {
    wait_for_naming(observation);
    if (AG_ARRAY_EXTEND(observation->named_frames, observation->n_named_frames,
                        observation->seen.n_frames) < 0) {
        return NULL;
    }
    if (observation->named_frames[frame] == NULL) {
        const struct ag_seen_frame *seen = &observation->seen.frames[frame];
        observation->named_frames[frame] =
            seen->runtime != 0 ? name_managed(observation, seen) : name_native(observation, seen);
    }
    return observation->named_frames[frame];
}

static bool add_frames(struct ag_observation *observation, struct ag_named_stack *stack,
                       uint32_t frame) {
    const struct ag_observed_frame *named = ag_observed_names_of(observation, frame);
    for (size_t i = 0; named != NULL && named[i].function != NULL; i++) {
        if (AG_ARRAY_ADD(stack->frames, stack->n, named[i]) < 0) {
            return false;
        }
    }
    return named != NULL;
}

size_t ag_observation_stack(struct ag_observation *observation, uint32_t node,
                            const struct ag_observed_frame **ret_frames) {
    *ret_frames = NULL;
    if (node < AG_SEEN_FIRST) {
        return 0;
    }
    const uint32_t at = node - AG_SEEN_FIRST;
    if (AG_ARRAY_EXTEND(observation->named, observation->n_named, observation->seen.n_nodes) < 0) {
        return 0;
    }
    struct ag_named_stack *stack = &observation->named[at];
    bool goes_on = stack->n == 0;
    for (uint32_t i = node; goes_on && i >= AG_SEEN_FIRST;
         i = ag_seen_node(&observation->seen, i)->parent) {
        goes_on = add_frames(observation, stack, ag_seen_node(&observation->seen, i)->frame);
    }
    *ret_frames = stack->frames;
    return stack->n;
}

void ag_observed_names_done(struct ag_observation *observation) {
    wait_for_naming(observation);
    free(observation->naming.items);
    for (size_t i = 0; i < observation->n_named; i++) {
        free(observation->named[i].frames);
    }
    for (size_t i = 0; i < observation->n_named_frames; i++) {
        free(observation->named_frames[i]);
    }
    free(observation->named);
    free(observation->named_frames);
    (void)ag_symbolizer_free(observation->symbolizer);
}

/* ---- functions ---------------------------------------------------------------------------
 * The table finds a function by a hash of its name, image and runtime. */
struct function_table {
    struct ag_observed_function *items;
    /* by item: the last stack (index in seen.counts) that was added to the item's total. A stack is
     * added once, even if it contains the function several times. */
    uint64_t *last;
    size_t n, n_last;
    struct ag_index_map by_hash;
    bool is_short; /* out of memory */
};

static uint64_t hash_of(const struct ag_observed_frame *frame) {
    const char *const texts[] = {frame->function, frame->image, frame->runtime};
    uint64_t hash = 0;
    for (size_t i = 0; i < 3; i++) {
        hash = ag_keyed_hash_pair(
            hash, texts[i] != NULL ? ag_keyed_hash_bytes(texts[i], strlen(texts[i])) : 0);
    }
    return hash;
}

static bool is_same_text(const char *a, const char *b) {
    return a == b || (a != NULL && b != NULL && strcmp(a, b) == 0);
}

static bool is_same(const struct ag_observed_frame *a, const struct ag_observed_frame *b) {
    return is_same_text(a->function, b->function) && is_same_text(a->image, b->image) &&
           is_same_text(a->runtime, b->runtime);
}

/* Returns the number of the frame's function, which may be new; SIZE_MAX: out of memory, then
 * is_short is set. */
static size_t function_of(struct function_table *table, const struct ag_observed_frame *frame) {
    const uint64_t hash = hash_of(frame);
    size_t cursor = 0;
    uint32_t at;
    while ((at = ag_index_map_next(&table->by_hash, hash, &cursor)) != AG_INDEX_NONE &&
           !is_same(table->items[at].frame, frame)) {
    }
    if (at != AG_INDEX_NONE) {
        return at;
    }
    at = (uint32_t)table->n;
    table->is_short =
        AG_ARRAY_ADD(table->items, table->n, (struct ag_observed_function){.frame = frame}) < 0 ||
        AG_ARRAY_ADD(table->last, table->n_last, UINT64_MAX) < 0 ||
        ag_index_map_insert(&table->by_hash, hash, at) < 0;
    return table->is_short ? SIZE_MAX : at;
}

static int by_samples(const void *a, const void *b) {
    const struct ag_observed_function *first = a, *second = b;
    if (first->own != second->own) {
        return first->own > second->own ? -1 : 1;
    }
    if (first->total != second->total) {
        return first->total > second->total ? -1 : 1;
    }
    return strcmp(first->frame->function, second->frame->function);
}

static void function_table_done(struct function_table *table) {
    free(table->items);
    free(table->last);
    ag_index_map_done(&table->by_hash);
    *table = (struct function_table){0};
}

/* Sorts the table's items and frees everything else. Returns the number of items, or -ENOMEM. */
static ssize_t end_table(struct function_table *table,
                         struct ag_observed_function **ret_functions) {
    const ssize_t n = (ssize_t)table->n;
    if (table->is_short) {
        function_table_done(table);
        return -ENOMEM;
    }
    if (n != 0) {
        qsort(table->items, table->n, sizeof table->items[0], by_samples);
    }
    *ret_functions = table->items;
    table->items = NULL;
    function_table_done(table);
    return n;
}

/* Finds the frames of the stack of COUNT, innermost first, and returns their number; 0: COUNT does
 * not count CPU samples. */
static size_t cpu_stack(struct ag_observation *observation, const struct ag_seen_count *count,
                        const struct ag_observed_frame **ret_frames) {
    return count->source == AG_SEEN_CPU ? ag_observation_stack(observation, count->node, ret_frames)
                                        : 0;
}

ssize_t ag_observation_functions(struct ag_observation *observation,
                                 struct ag_observed_function **ret_functions) {
    struct function_table table = {0};
    for (size_t i = 0; i < observation->seen.n_counts && !table.is_short; i++) {
        const struct ag_seen_count *count = &observation->seen.counts[i];
        const struct ag_observed_frame *frames;
        const size_t n = cpu_stack(observation, count, &frames);
        for (size_t j = 0, at; j < n && (at = function_of(&table, &frames[j])) != SIZE_MAX; j++) {
            if (table.last[at] != i) {
                table.last[at] = i;
                table.items[at].total += count->samples;
            }
            table.items[at].own += j == 0 ? count->samples : 0;
        }
    }
    return end_table(&table, ret_functions);
}

/* ---- blame --------------------------------------------------------------------------------- */

static bool is_native(const struct ag_observed_frame *frame) {
    return strcmp(frame->runtime, "c") == 0;
}

/* Returns the frame to blame for a stack. MATCH is the innermost native frame that matches the
 * glob. The blamed frame is the innermost managed frame among the match's callers. If there is
 * none, it is the innermost caller that does not match the glob, or the match itself if all callers
 * match. NULL: no frame matches. */
static const struct ag_observed_frame *blamed_frame(const struct ag_observed_frame *frames,
                                                    size_t n, const char *glob) {
    size_t match = 0;
    while (match < n &&
           !(is_native(&frames[match]) && fnmatch(glob, frames[match].function, 0) == 0)) {
        match++;
    }
    if (match == n) {
        return NULL;
    }
    for (size_t i = match + 1; i < n; i++) {
        if (!is_native(&frames[i])) {
            return &frames[i];
        }
    }
    /* the first caller that does not match, so that a recursive function does not blame itself */
    size_t caller = match;
    while (caller < n && fnmatch(glob, frames[caller].function, 0) == 0) {
        caller++;
    }
    return &frames[caller < n ? caller : match];
}

ssize_t ag_observation_blame(struct ag_observation *observation, const char *glob,
                             struct ag_observed_function **ret_functions) {
    struct function_table table = {0};
    for (size_t i = 0; i < observation->seen.n_counts && !table.is_short; i++) {
        const struct ag_seen_count *count = &observation->seen.counts[i];
        const struct ag_observed_frame *frames;
        const size_t n = cpu_stack(observation, count, &frames);
        const struct ag_observed_frame *frame = n != 0 ? blamed_frame(frames, n, glob) : NULL;
        const size_t at = frame != NULL ? function_of(&table, frame) : SIZE_MAX;
        if (at != SIZE_MAX) {
            table.items[at].own += count->samples;
        }
    }
    return end_table(&table, ret_functions);
}

/* ---- stacks and mappings --------------------------------------------------------------------- */

static int by_weight(const void *a, const void *b) {
    const struct ag_observed_stack *first = a, *second = b;
    if (first->bytes != second->bytes) {
        return first->bytes > second->bytes ? -1 : 1;
    }
    return first->samples > second->samples ? -1 : first->samples < second->samples;
}

ssize_t ag_observation_stacks(struct ag_observation *observation, enum ag_seen_source source,
                              struct ag_observed_stack **ret_stacks) {
    const struct ag_seen_stacks *seen = &observation->seen;
    struct ag_observed_stack *stacks = calloc(seen->n_counts + 1, sizeof *stacks);
    uint32_t *first = source == AG_SEEN_GROWTH ? calloc(seen->n_nodes + 1, sizeof *first) : NULL;
    size_t n = 0;
    if (stacks == NULL || (source == AG_SEEN_GROWTH && first == NULL)) {
        free(stacks);
        free(first);
        return -ENOMEM;
    }
    for (size_t i = 0; i < seen->n_counts; i++) {
        const struct ag_seen_count *count = &seen->counts[i];
        if (count->source != (uint32_t)source) {
            continue;
        }
        /* growth is counted for all threads together */
        uint32_t *known = first != NULL ? &first[count->node - AG_SEEN_FIRST] : NULL;
        if (known != NULL && *known != 0) {
            stacks[*known - 1].samples += count->samples;
            stacks[*known - 1].bytes += count->weight;
            continue;
        }
        stacks[n++] = (struct ag_observed_stack){
            .node = count->node,
            .thread = first != NULL ? 0 : count->thread,
            .samples = count->samples,
            .bytes = source == AG_SEEN_GROWTH ? count->weight : 0,
        };
        if (known != NULL) {
            *known = (uint32_t)n;
        }
    }
    free(first);
    qsort(stacks, n, sizeof *stacks, by_weight);
    *ret_stacks = stacks;
    return (ssize_t)n;
}

static int by_node(const void *a, const void *b) {
    const struct ag_ledger_range *first = a, *second = b;
    return first->node < second->node ? -1 : first->node > second->node;
}
static int by_bytes(const void *a, const void *b) {
    const struct ag_observed_map *first = a, *second = b;
    return first->bytes > second->bytes ? -1 : first->bytes < second->bytes;
}

ssize_t ag_observation_maps(struct ag_observation *observation, struct ag_observed_map **ret_maps) {
    const struct ag_mapping_ledger *ledger = &observation->mappings;
    struct ag_observed_map *maps = calloc(ledger->n + 1, sizeof *maps);
    struct ag_ledger_range *ranges = calloc(ledger->n + 1, sizeof *ranges);
    size_t n = 0;
    if (maps == NULL || ranges == NULL) {
        free(maps);
        free(ranges);
        return -ENOMEM;
    }
    if (ledger->n != 0) {
        memcpy(ranges, ledger->items, ledger->n * sizeof *ranges);
        qsort(ranges, ledger->n, sizeof *ranges, by_node);
    }
    for (size_t i = 0; i < ledger->n; i++) {
        if (n == 0 || maps[n - 1].node != ranges[i].node) {
            maps[n++] = (struct ag_observed_map){.node = ranges[i].node};
        }
        maps[n - 1].bytes += ranges[i].high - ranges[i].low;
        maps[n - 1].resident_bytes +=
            ag_remote_memory_resident(observation->process.pid, ranges[i].low, ranges[i].high);
        maps[n - 1].n_mappings++;
    }
    free(ranges);
    qsort(maps, n, sizeof *maps, by_bytes);
    *ret_maps = maps;
    return (ssize_t)n;
}

/* ---- what inspectors reported ---- */

size_t ag_observation_processes(const struct ag_observation *observation,
                                const struct ag_reported_process **ret_processes) {
    *ret_processes = observation->processes;
    return observation->n_processes;
}

size_t ag_observation_allocators(const struct ag_observation *observation,
                                 const struct ag_reported_allocator **ret_allocators) {
    *ret_allocators = observation->allocators;
    return observation->n_allocators;
}

size_t ag_observation_collections(const struct ag_observation *observation,
                                  const struct ag_reported_collection **ret_collections) {
    *ret_collections = observation->collections;
    return observation->n_collections;
}

static int by_collected(const void *a, const void *b) {
    const struct ag_observed_collector *first = a, *second = b;
    return first->bytes > second->bytes ? -1 : first->bytes < second->bytes;
}

/* Returns how many collections a reported collection represents: a collection is reported with a
 * probability in proportion to its allocated bytes. */
static double collections_represented(const struct ag_reported_collection *collection) {
    return collection->allocated_bytes != 0 && collection->weight_bytes != 0
               ? (double)collection->weight_bytes / (double)collection->allocated_bytes
               : 1;
}

/* How allocated bytes are divided among functions. A heap is collected when it is full, so the
 * bytes before a collection are known exactly. But in a periodic program, the same function may
 * find the heap full in each round. So all collections with the same cause (the function that found
 * the heap full, and the first function of the process) form a class. The bytes of a class are
 * those that were allocated before its collections. They are divided among functions by words: the
 * observer watches random words of the heap, each from a random moment on. A word that is written
 * counts for the function that wrote it, in the class of the process's next collection. If there
 * are too few words, the cause of the class gets all its bytes.
 *
 * A word of a heap is written once in each round from one collection to the next. A random moment
 * is more often in a long pause between two writes of the word than in a short one, so writes after
 * long pauses are seen too often. This bias disappears if only those writes are used that come
 * within a certain time after the random moment, and all pauses are longer than this time: then
 * each write is seen with the same probability. So only the third of a class's words that was
 * written soonest after the observer began to watch is used
 * (docs/explanation/adr/0020-random-words.md has figures). */
struct allocation_word {
    size_t class, function;
    uint64_t delay_ns;
};
struct allocation_sums {
    struct function_table kinds, functions;
    struct ag_observed_collector *list;   /* by function */
    double *represented, *function_bytes; /* by function: its collections, and its bytes */
    double *class_bytes, *class_words;    /* by class */
    uint64_t *classes;                    /* by class: its function, and its kind << 32 */
    size_t n_classes;
    struct allocation_word *words;
    size_t n_words;
};
enum {
    SOONEST = 3,
    CLASS_LEAST = 3,   /* a class with fewer words in its soonest third is not divided */
    WORDS_LEAST = 100, /* of all classes together; with fewer words, collections are the more exact
                        * estimate in most programs */
};

static bool has_room(const struct allocation_sums *sums) {
    return !sums->kinds.is_short && !sums->functions.is_short;
}

/* The innermost managed function of a stack, or its innermost function if none is managed;
 * SIZE_MAX: the stack is empty, or out of memory. *ret_kind: the function with which the process
 * began, which is the outermost managed one. */
static size_t allocating_function(struct ag_observation *observation, struct allocation_sums *sums,
                                  uint32_t node, size_t *ret_kind) {
    const struct ag_observed_frame *frames;
    const size_t n = ag_observation_stack(observation, node, &frames);
    size_t first = n, innermost = 0;
    while (first > 0 && is_native(&frames[first - 1])) {
        first--;
    }
    while (innermost < n && is_native(&frames[innermost])) {
        innermost++;
    }
    if (n == 0) {
        return SIZE_MAX;
    }
    const struct ag_observed_frame *frame = &frames[innermost < n ? innermost : 0];
    *ret_kind = function_of(&sums->kinds, &frames[first > 0 ? first - 1 : n - 1]);
    const size_t function = function_of(&sums->functions, frame);
    if (!has_room(sums)) {
        return SIZE_MAX;
    }
    sums->list[function].function = frame->function;
    return function;
}

/* The class of collections with the stack NODE, and their cause; SIZE_MAX: none. */
static size_t class_of(struct ag_observation *observation, struct allocation_sums *sums,
                       uint32_t node, size_t *ret_function) {
    size_t kind = 0;
    *ret_function = allocating_function(observation, sums, node, &kind);
    if (*ret_function == SIZE_MAX) {
        return SIZE_MAX;
    }
    const uint64_t key = (uint64_t)kind << 32 | *ret_function;
    size_t class = 0;
    while (class < sums->n_classes && sums->classes[class] != key) {
        class ++;
    }
    sums->classes[class] = key;
    sums->n_classes += class == sums->n_classes;
    return class;
}

static int by_time(const void *a, const void *b) {
    const struct ag_seen_word *first = a, *second = b;
    return first->time_ns < second->time_ns ? -1 : first->time_ns > second->time_ns;
}

/* Returns the entry of word_ends for the word that was written at TIME_NS: the next collection of
 * its process; NULL: none. An entry of word_ends has the time of the same write, but measured by
 * another clock, so the two times differ slightly. *AT: where the search in word_ends continues;
 * TIME_NS must not decrease from call to call. */
static const struct ag_seen_word *end_of_word(const struct ag_observation *observation,
                                              uint64_t time_ns, size_t *at) {
    enum { APART_NS = 300 * 1000 };
    while (*at < observation->n_word_ends &&
           observation->word_ends[*at].time_ns + APART_NS < time_ns) {
        ++*at;
    }
    const struct ag_seen_word *end = &observation->word_ends[*at];
    return *at < observation->n_word_ends && end->time_ns < time_ns + APART_NS ? end : NULL;
}

static int by_class(const void *a, const void *b) {
    const struct allocation_word *first = a, *second = b;
    if (first->class != second->class) {
        return first->class < second->class ? -1 : 1;
    }
    return first->delay_ns < second->delay_ns ? -1 : first->delay_ns > second->delay_ns;
}

/* Finds the words that are used: of each class the third that was written soonest, if the class has
 * enough words. */
static void choose_words(struct ag_observation *observation, struct allocation_sums *sums) {
    size_t at = 0, n = 0, n_used = 0;
    qsort(observation->words, observation->n_words, sizeof *observation->words, by_time);
    qsort(observation->word_ends, observation->n_word_ends, sizeof *observation->word_ends,
          by_time);
    for (size_t i = 0; i < observation->n_words; i++) {
        const struct ag_seen_word *word = &observation->words[i],
                                  *end = end_of_word(observation, word->time_ns, &at);
        size_t cause, kind;
        if (end == NULL) {
            continue; /* the process has not collected since the write, or has ended */
        }
        const struct allocation_word found = {
            .class = class_of(observation, sums, end->node, &cause),
            .function = allocating_function(observation, sums, word->node, &kind),
            .delay_ns = word->delay_ns,
        };
        if (found.class != SIZE_MAX && found.function != SIZE_MAX) {
            sums->words[n++] = found;
        }
    }
    qsort(sums->words, n, sizeof *sums->words, by_class);
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && sums->words[end].class == sums->words[i].class) {
            end++;
        }
        const size_t n_soonest = (end - i) / SOONEST;
        for (size_t j = i; n_soonest >= CLASS_LEAST && j < i + n_soonest; j++) {
            sums->words[n_used++] = sums->words[j];
        }
        i = end;
    }
    sums->n_words = n_used >= WORDS_LEAST ? n_used : 0;
}

static void sum_allocations(struct ag_observation *observation, struct allocation_sums *sums) {
    if (observation->n_words > 0 && observation->n_word_ends > 0) {
        choose_words(observation, sums);
    }
    for (size_t i = 0; i < sums->n_words; i++) {
        sums->class_words[sums->words[i].class]++;
        sums->list[sums->words[i].function].n_words++;
    }
    for (size_t i = 0; i < observation->n_collections; i++) {
        const struct ag_reported_collection *collection = &observation->collections[i];
        size_t cause;
        const size_t class = class_of(observation, sums, collection->node, &cause);
        if (class != SIZE_MAX) {
            sums->represented[cause] += collections_represented(collection);
            *(sums->class_words[class] == 0 ? &sums->function_bytes[cause]
                                            : &sums->class_bytes[class]) +=
                (double)collection->weight_bytes;
        }
    }
    for (size_t i = 0; i < sums->n_words; i++) {
        const size_t class = sums->words[i].class;
        sums->function_bytes[sums->words[i].function] +=
            sums->class_bytes[class] / sums->class_words[class];
    }
    for (size_t i = 0; i < sums->functions.n; i++) {
        sums->list[i].n_collections = (uint64_t)(sums->represented[i] + 0.5);
        sums->list[i].bytes = (uint64_t)(sums->function_bytes[i] + 0.5);
    }
}

ssize_t ag_observation_collectors(struct ag_observation *observation,
                                  struct ag_observed_collector **ret_collectors) {
    const size_t most = observation->n_collections + 2 * observation->n_words + 1;
    struct allocation_sums sums = {.list = calloc(most, sizeof *sums.list),
                                   .represented = calloc(most, sizeof(double)),
                                   .function_bytes = calloc(most, sizeof(double)),
                                   .class_bytes = calloc(most, sizeof(double)),
                                   .class_words = calloc(most, sizeof(double)),
                                   .classes = calloc(most, sizeof(uint64_t)),
                                   .words = calloc(most, sizeof *sums.words)};
    bool is_short = sums.list == NULL || sums.represented == NULL || sums.function_bytes == NULL ||
                    sums.class_bytes == NULL || sums.class_words == NULL || sums.classes == NULL ||
                    sums.words == NULL;
    if (!is_short) {
        sum_allocations(observation, &sums);
        is_short = !has_room(&sums);
    }
    const size_t n = sums.functions.n;
    free(sums.represented);
    free(sums.function_bytes);
    free(sums.class_bytes);
    free(sums.class_words);
    free(sums.classes);
    free(sums.words);
    function_table_done(&sums.kinds);
    function_table_done(&sums.functions);
    if (is_short) {
        free(sums.list);
        return -ENOMEM;
    }
    qsort(sums.list, n, sizeof *sums.list, by_collected);
    *ret_collectors = sums.list;
    return (ssize_t)n;
}
