/* mapping_pass.c: applies the MAP and UNMAP records of a trace, in the order of time, to the sums
 * of mapped_memory.h.
 *
 * 1. Which mappings count. The heaps of allocators that allogram records have mappings, too, for
 * example those of the Boehm collector. Other views show their memory, as blocks. The program's own
 * mappings are those of a heap that holds other heaps (is_backing). A mapping of another heap only
 * ends what was mapped at its addresses before.
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

struct mapping_pass {
    struct ag_definitions *definitions;
    const struct ag_pass_options *options;
    struct ag_mapped_memory *memory;
    uint32_t unmapped_via, unmapped_stream; /* via and stream of the last record, if that record is
                                             * an UNMAP */
    uint64_t until_ns;                      /* later records are left out */
    bool has_restarted;
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

/* Called with the time of each record. If the time window (--from, --to) counts older mappings, the
 * counts are restarted when the window begins; what is mapped at that time stays mapped. */
static void restart_at(struct mapping_pass *pass, uint64_t time_ns) {
    const struct ag_pass_options *options = pass->options;
    if (options->counts_older && options->from_ns > 0 && !pass->has_restarted &&
        time_ns >= options->from_ns) {
        ag_mapped_memory_restart(pass->memory, options->from_ns);
        pass->has_restarted = true;
    }
}

/* Returns the time at which the recorded call began; UINT64_MAX: MAP does not contain this time. An
 * UNMAP record with a via was written after the call; its flags are the lower 32 bits of the time
 * at which the call began. */
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
    if (map->kind == AG_RECORD_MAP && heap && heap->is_backing) {
        const struct ag_mapping_origin origin = {
            .stack = stack_of(pass, map), .via = via_of(pass, map, via), .stream = map->stream};
        pass->r =
            ag_mapped_memory_map(pass->memory, map->time_ns, map->address, map->bytes, &origin);
    } else {
        pass->r = ag_mapped_memory_unmap(pass->memory, call_time(map), map->address, map->bytes,
                                         map->stream, &unmapped_via);
    }
    pass->unmapped_via = map->kind == AG_RECORD_UNMAP ? unmapped_via : UINT32_MAX;
    pass->unmapped_stream = map->stream;
}

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
                                            .visit_context = pass};
    const int r =
        pass->memory && ledger ? ag_event_pass(file, pass->definitions, &of_maps, ledger) : -ENOMEM;
    return r < 0 ? r : pass->r;
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
                                .until_ns = UINT64_MAX};
    int r = apply_maps(file, &pass, ledger);
    r = r < 0 ? r : take_results(ledger, ret_sums, ret_live);
    if (r == 0) {
        restart_at(&pass, UINT64_MAX);
        free(ret_sums->stacks);
        free(*ret_live);
        ret_sums->stacks = NULL;
        *ret_live = NULL;
        ret_sums->n_stacks = 0;
        ret_sums->summary.unique_stacks = 0; /* counted by the caller */
        r = ag_mapped_memory_sums(pass.memory, &ret_sums->stacks, ret_live, &ret_sums->n_stacks,
                                  &ret_sums->summary);
    }
    (void)ag_mapped_memory_free(pass.memory);
    return r;
}
