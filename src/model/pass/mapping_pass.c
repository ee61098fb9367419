/* mapping_pass.c: applies the MAP and UNMAP records of a trace, in the order of time, to the sums
 * of mapped_memory.h.
 *
 * 1. Which mappings count. The heaps of allocators that allogram records have mappings, too. Other
 * views show their memory, as blocks, and no byte may count twice. Each record of a mapping
 * contains a via (the called function), which belongs to a heap. Only mappings of a heap whose
 * blocks contain other heaps (is_backing) count as the program's own. A mapping of another heap,
 * such as the Boehm collector's, only ends what was mapped at its addresses before.
 *
 * An allocator in a library (jemalloc, mimalloc, tcmalloc) or in the program calls mmap as any
 * other code does. It is recognized by its blocks: if a block in use lies in a mapped range at one
 * of three times, the stack that mapped the range belongs to an allocator. These times are the
 * middle of the reported time, the time when the writer read the resident memory, and the end. If
 * the block is one of malloc, all other stacks on which the same library called mmap belong to the
 * allocator, too, because the mappings of an allocator's own tables contain no block. This rule is
 * not applied to the program's own file, because it contains more than an allocator. If such stacks
 * are found, the pass is made again without their mappings. The search is made only at these
 * moments, because at other moments the events of blocks and the records of mappings are not
 * applied up to the same time.
 *
 * 2. Kinds. A file that is mapped, and addresses that are only reserved (PROT_NONE), are not memory
 * that the program uses like that of malloc. They get vias (allocation functions) of their own, so
 * that views show them separately. mremap does not state the kind of a mapping: the mapping keeps
 * the kind of the range that mremap unmapped immediately before. A reservation that mprotect makes
 * accessible keeps its kind, because mprotect is not recorded.
 *
 * 3. Filters have the meaning that they have for blocks: the mappings that they exclude still count
 * for the peak, as mappings of AG_STACK_OTHER, a stack that no view shows. */
#include "model/pass/mapping_pass.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "model/pass/chunk_feed.h"
#include "table/array.h"

enum { MOMENTS_MOST = 3 };

struct range { /* [low, high) */
    uint64_t low, high;
    uint32_t recorded_stack;
};
struct mapping_pass {
    struct ag_definitions *definitions;
    const struct ag_pass_options *options;
    struct ag_mapped_memory *memory;
    uint32_t unmapped_via, unmapped_stream; /* via and stream of the last record, if that record is
                                             * an UNMAP */
    uint64_t until_ns;                      /* later records are left out */
    bool has_restarted;
    /* the stacks on which an allocator whose blocks are recorded calls mmap, and the libraries of
     * these stacks (ids of images) */
    struct ag_index_map allocators, libraries;
    struct range *ranges; /* what is mapped, while allocators are searched */
    size_t n_ranges;
    /* the ends of the periods, as in ag_pass_options; reach_moment is called at all but the last */
    uint64_t moments_ns[MOMENTS_MOST];
    size_t n_moments;
    uint64_t half_way_ns, look_ns; /* 0: not in the time window, or not known */
    bool finds_allocators;
    int r;
};

static uint32_t find_via(const struct ag_definitions *definitions, const char *name) {
    uint32_t via = 0;
    while (via < AG_MODEL_VIAS &&
           (!definitions->vias[via].name || strcmp(definitions->vias[via].name, name) != 0)) {
        via++;
    }
    return via;
}

/* Returns the via with this NAME; if there is none, defines it in the heap of the via LIKE. Returns
 * LIKE if all numbers of vias are used. */
static uint32_t named_via(struct ag_definitions *definitions, const char *name, uint32_t like) {
    uint32_t via = find_via(definitions, name);
    if (via < AG_MODEL_VIAS) {
        return via;
    }
    while (via > 0 && definitions->vias[via - 1].name) {
        via--;
    }
    if (via == 0) {
        return like;
    }
    definitions->vias[via - 1].name = name;
    definitions->vias[via - 1].heap = definitions->vias[like].heap;
    return via - 1;
}

/* The via of a mapping; see section 2. The flags of a call of mmap are never 0: they contain
 * MAP_SHARED or MAP_PRIVATE. */
static uint32_t via_of(const struct mapping_pass *pass, const struct ag_feed_map *map,
                       uint32_t via) {
    const char *name = pass->definitions->vias[via].name;
    if ((map->flags & MAP_TYPE) != 0) {
        return (map->flags & MAP_ANONYMOUS) == 0 ? named_via(pass->definitions, AG_VIA_OF_FILE, via)
               : map->protection == PROT_NONE
                   ? named_via(pass->definitions, AG_VIA_WITHOUT_ACCESS, via)
                   : via;
    }
    const char *before = pass->unmapped_via < AG_MODEL_VIAS && pass->unmapped_stream == map->stream
                             ? pass->definitions->vias[pass->unmapped_via].name
                             : NULL;
    return name && strcmp(name, "mremap") == 0 && before &&
                   (strcmp(before, AG_VIA_OF_FILE) == 0 ||
                    strcmp(before, AG_VIA_WITHOUT_ACCESS) == 0)
               ? pass->unmapped_via
               : via;
}

static uint32_t stack_of(const struct mapping_pass *pass, const struct ag_feed_map *map) {
    const struct ag_pass_options *options = pass->options;
    const bool is_kept =
        !options->kept || ag_index_map_find(options->kept, map->stack) != AG_INDEX_NONE;
    const bool is_left_out = (options->thread >= 0 && map->thread_id != options->thread) ||
                             map->time_ns >= options->tail_ns || !is_kept;
    return is_left_out ? AG_STACK_OTHER : options->is_by_stream ? map->stream : map->stack;
}

/* ---- allocators ---- */

/* Returns the id of the library that called mmap on this stack; 0: the program's own file called
 * it, or the caller is unknown. */
static uint32_t library_of(const struct ag_definitions *definitions, uint32_t stack) {
    const struct ag_stack_nodes *nodes = &definitions->nodes;
    const uint32_t node = ag_stack_nodes_find_recorded(nodes, stack);
    const uint32_t image = AG_IS_ROOT(node) ? 0 : nodes->sites[nodes->nodes[node].site].image;
    const uint32_t at =
        image == 0 ? AG_INDEX_NONE : ag_index_map_find(&definitions->image_index, image);
    if (at == AG_INDEX_NONE) {
        return 0;
    }
    const char *path = ag_text(&definitions->texts, definitions->images[at].path);
    return definitions->exe && strcmp(path, definitions->exe) == 0 ? 0 : image;
}

static bool is_of_allocator(const struct mapping_pass *pass, uint32_t stack) {
    return pass->allocators.count > 0 &&
           (ag_index_map_find(&pass->allocators, stack) != AG_INDEX_NONE ||
            (pass->libraries.count > 0 &&
             ag_index_map_find(&pass->libraries, library_of(pass->definitions, stack)) !=
                 AG_INDEX_NONE));
}

static void take_range(void *context, uint64_t low, uint64_t high, uint32_t recorded_stack,
                       uint32_t via) {
    struct mapping_pass *pass = context;
    (void)via;
    const struct range range = {low, high, recorded_stack};
    if (!is_of_allocator(pass, recorded_stack) &&
        AG_ARRAY_ADD(pass->ranges, pass->n_ranges, range) < 0) {
        pass->r = -ENOMEM;
    }
}

static void visit_live(void *context, uint64_t address, uint8_t via) {
    struct mapping_pass *pass = context;
    const struct ag_model_heap *heap = ag_definitions_heap_of_via(pass->definitions, via);
    const uint64_t place = AG_EVENT_PLACE(address);
    /* the index of the first range that ends after PLACE is in [low, high] */
    size_t low = 0, high = pass->n_ranges;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (pass->ranges[middle].high <= place) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == pass->n_ranges || place < pass->ranges[low].low || !heap ||
        strcmp(heap->domain, "cpu") != 0 || pass->r < 0) {
        return;
    }
    const uint32_t stack = pass->ranges[low].recorded_stack;
    const uint32_t library =
        strcmp(heap->kind, "malloc") == 0 ? library_of(pass->definitions, stack) : 0;
    int r = ag_index_map_insert_first(&pass->allocators, stack, 0);
    if (r >= 0 && library != 0) {
        r = ag_index_map_insert_first(&pass->libraries, library, 0);
    }
    pass->r = r < 0 ? r : 0;
}

static void find_allocators(struct mapping_pass *pass, const struct ag_ledger *ledger) {
    pass->n_ranges = 0;
    ag_mapped_memory_ranges(pass->memory, take_range, pass);
    if (pass->n_ranges > 0 && pass->r == 0) {
        ag_ledger_visit_live(ledger, visit_live, pass);
    }
}

/* ---- records ---- */

/* Called with the time of each record. If mappings from before the time window (--from, --to)
 * count, too, the counts are restarted when the window begins; what is mapped then stays mapped. */
static void restart_at(struct mapping_pass *pass, uint64_t time_ns) {
    const struct ag_pass_options *options = pass->options;
    if (options->counts_older && options->from_ns > 0 && !pass->has_restarted &&
        time_ns >= options->from_ns) {
        ag_mapped_memory_restart(pass->memory, options->from_ns);
        pass->has_restarted = true;
    }
}

/* Returns the time at which the recorded call began; UINT64_MAX: the record does not contain this
 * time. An UNMAP record with a via was written after the call; its flags are the lower 32 bits of
 * the time at which the call began. */
static uint64_t call_time(const struct ag_feed_map *map) {
    if (map->kind != AG_RECORD_UNMAP || map->via == 0) {
        return UINT64_MAX;
    }
    const uint32_t ago = (uint32_t)map->time_ns - map->flags;
    return ago <= map->time_ns ? map->time_ns - ago : 0;
}

static void visit_map(void *context, const struct ag_feed_map *map) {
    struct mapping_pass *pass = context;
    const uint32_t via = map->via % AG_MODEL_VIAS;
    const struct ag_model_heap *heap = ag_definitions_heap_of_via(pass->definitions, via);
    uint32_t unmapped_via = UINT32_MAX;
    restart_at(pass, map->time_ns);
    if (pass->r < 0 || map->time_ns > pass->until_ns) {
        return;
    }
    if (map->kind == AG_RECORD_MAP && heap && heap->is_backing &&
        !is_of_allocator(pass, map->stack)) {
        const struct ag_mapping_origin origin = {.recorded_stack = map->stack,
                                                 .stack = stack_of(pass, map),
                                                 .via = via_of(pass, map, via),
                                                 .stream = map->stream};
        pass->r =
            ag_mapped_memory_map(pass->memory, map->time_ns, map->address, map->bytes, &origin);
    } else {
        pass->r = ag_mapped_memory_unmap(pass->memory, call_time(map), map->address, map->bytes,
                                         map->stream, &unmapped_via);
    }
    pass->unmapped_via = map->kind == AG_RECORD_UNMAP ? unmapped_via : UINT32_MAX;
    pass->unmapped_stream = map->stream;
}

/* ---- moments ---- */

/* Chooses the moments: the middle of the reported time, the time of the look at the resident memory
 * unless it is the same, and the end. */
static void choose_moments(struct mapping_pass *pass) {
    const struct ag_definitions *definitions = pass->definitions;
    const struct ag_pass_options *options = pass->options;
    const uint64_t start_ns = definitions->start_ns;
    const uint64_t end_ns = definitions->end_ns > start_ns
                                ? definitions->end_ns
                                : start_ns + definitions->index.summary.duration_ns;
    const uint64_t from_ns = options->from_ns > start_ns ? options->from_ns : start_ns;
    const uint64_t to_ns = options->to_ns < end_ns ? options->to_ns : end_ns;
    const uint64_t look_ns =
        definitions->peak_look.look.n_mappings > 0 ? definitions->peak_look.time_ns : 0;
    pass->half_way_ns = to_ns > from_ns ? from_ns + (to_ns - from_ns) / 2 : 0;
    pass->look_ns = look_ns > options->from_ns && look_ns < options->to_ns ? look_ns : 0;
    const uint64_t first_ns = pass->look_ns < pass->half_way_ns ? pass->look_ns : pass->half_way_ns;
    const uint64_t last_ns = pass->look_ns < pass->half_way_ns ? pass->half_way_ns : pass->look_ns;
    if (first_ns != 0) {
        pass->moments_ns[pass->n_moments++] = first_ns;
    }
    if (last_ns != first_ns) {
        pass->moments_ns[pass->n_moments++] = last_ns;
    }
    pass->moments_ns[pass->n_moments++] = UINT64_MAX;
}

static void reach_moment(void *context, size_t period, struct ag_ledger *ledger) {
    struct mapping_pass *pass = context;
    restart_at(pass, pass->moments_ns[period]);
    if (pass->moments_ns[period] == pass->half_way_ns) {
        ag_mapped_memory_note_half_way(pass->memory);
    }
    if (pass->moments_ns[period] == pass->look_ns) {
        ag_mapped_memory_note_resident(pass->memory, &pass->definitions->peak_look.look);
    }
    if (pass->finds_allocators) {
        find_allocators(pass, ledger);
    }
}

/* ---- the pass ---- */

/* Applies the records to pass->memory. The results for blocks are not used, so no filter applies to
 * them. */
static int apply_maps(const struct ag_trace_file *file, struct mapping_pass *pass,
                      struct ag_ledger *ledger) {
    const struct ag_pass_options of_maps = {.from_ns = pass->options->from_ns,
                                            .to_ns = pass->options->to_ns,
                                            .tail_ns = UINT64_MAX,
                                            .thread = -1,
                                            .n_threads = pass->options->n_threads,
                                            .counts_older = pass->options->counts_older,
                                            .visit_map = visit_map,
                                            .visit_context = pass,
                                            .period_ends_ns = pass->moments_ns,
                                            .n_periods = pass->n_moments,
                                            .end_period = reach_moment,
                                            .period_context = pass};
    const int r =
        pass->memory && ledger ? ag_event_pass(file, pass->definitions, &of_maps, ledger) : -ENOMEM;
    if (r == 0 && pass->finds_allocators) {
        find_allocators(pass, ledger);
    }
    return r < 0 ? r : pass->r;
}

/* Makes the pass again, now without the mappings of the allocators that it found. */
static int apply_maps_again(const struct ag_trace_file *file, struct mapping_pass *pass) {
    struct ag_ledger *ledger = ag_ledger_new();
    (void)ag_mapped_memory_free(pass->memory);
    pass->memory = ag_mapped_memory_new();
    pass->unmapped_via = UINT32_MAX;
    pass->has_restarted = false;
    pass->finds_allocators = false;
    const int r = apply_maps(file, pass, ledger);
    (void)ag_ledger_free(ledger);
    return r;
}

int ag_mapping_pass_at(const struct ag_trace_file *file, struct ag_definitions *definitions,
                       const struct ag_pass_options *options, uint64_t at_ns,
                       ag_mapped_range_visit *visit, void *context) {
    struct mapping_pass pass = {.definitions = definitions,
                                .options = options,
                                .memory = ag_mapped_memory_new(),
                                .unmapped_via = UINT32_MAX,
                                .until_ns = at_ns};
    struct ag_ledger *ledger = ag_ledger_new();
    const int r = apply_maps(file, &pass, ledger);
    if (r == 0) {
        ag_mapped_memory_ranges(pass.memory, visit, context);
    }
    (void)ag_ledger_free(ledger);
    (void)ag_mapped_memory_free(pass.memory);
    return r;
}

int ag_mapping_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                    const struct ag_pass_options *options, struct ag_ledger *ledger,
                    ag_take_results *take_results, struct ag_model_sums *ret_sums,
                    struct ag_live_sum **ret_live) {
    struct mapping_pass pass = {.definitions = definitions,
                                .options = options,
                                .memory = ag_mapped_memory_new(),
                                .unmapped_via = UINT32_MAX,
                                .until_ns = UINT64_MAX,
                                .finds_allocators = true};
    choose_moments(&pass);
    int r = apply_maps(file, &pass, ledger);
    r = r < 0 ? r : take_results(ledger, ret_sums, ret_live);
    if (r == 0 && pass.allocators.count > 0) {
        r = apply_maps_again(file, &pass);
    }
    if (r == 0) {
        restart_at(&pass, UINT64_MAX);
        free(ret_sums->stacks);
        free(*ret_live);
        ret_sums->stacks = NULL;
        *ret_live = NULL;
        ret_sums->n_stacks = 0;
        ret_sums->summary.unique_stacks = 0; /* counted by the caller */
        ret_sums->has_half_way = pass.half_way_ns != 0;
        ret_sums->has_residency = pass.look_ns != 0;
        r = ag_mapped_memory_sums(pass.memory, &ret_sums->stacks, ret_live, &ret_sums->mapped,
                                  &ret_sums->summary);
        ret_sums->n_stacks = r == 0 ? ag_mapped_memory_count(pass.memory) : 0;
    }
    ag_index_map_done(&pass.allocators);
    ag_index_map_done(&pass.libraries);
    free(pass.ranges);
    (void)ag_mapped_memory_free(pass.memory);
    return r;
}
