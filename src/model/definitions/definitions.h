/* definitions.h: everything in a trace except its events: the process, its images, threads, heaps
 * and stacks, what was lost, how it ended; and the index' sums, if it has them. */
#ifndef AG_DEFINITIONS_H
#define AG_DEFINITIONS_H

#include <stdbool.h>

#include "format/decode.h"
#include "format/segment.h"
#include "model/answers/collections.h"
#include "model/definitions/call_trees.h"
#include "model/definitions/code_places.h"
#include "model/definitions/stack_nodes.h"
#include "model/profile.h"
#include "table/text_store.h"

enum { AG_MODEL_VIAS = 256 };

struct ag_model_image {
    uint32_t image;
    uint32_t path, base_name; /* texts */
    uint64_t bias, low, high;
    uint8_t build_id[64];
    uint32_t build_id_bytes;
};
struct ag_model_function {            /* of a runtime: a FRAME record */
    uint32_t runtime, function, file; /* texts */
    uint32_t line;
};
struct ag_model_collection {
    struct ag_collection_row row; /* times of the session, cause not resolved yet */
    uint32_t stack, frame, thread_id;
};
struct ag_model_heap {
    uint32_t heap;
    const char *name, *domain, *allocator, *runtime, *kind, *unit;
    bool is_backing;
    bool is_moving; /* its collector moves or promotes what it keeps, and reports it */
};
struct ag_model_memory { /* its times are the session's */
    uint32_t heap;
    struct ag_heap_memory memory;
};
struct ag_model_thread {
    uint32_t stream, thread_id;
    const char *name;
};
struct ag_model_type { /* type of blocks, defined by a program or a runtime */
    uint32_t name;     /* a text */
    const char *runtime;
};
struct ag_model_label { /* the program's current work, as the program set it */
    uint32_t label;
    const char *name;
};
struct ag_model_sample { /* resident size */
    uint64_t time_ns, bytes;
};
struct ag_model_sums { /* of the index, or of a ledger */
    bool has_summary;
    struct ag_summary summary;
    struct ag_stack_sum *stacks;
    struct ag_timeline_point *timeline;
    struct ag_thread_sum *threads;
    struct ag_thread_pair *pairs;
    struct ag_heap_sum *heaps;
    /* of a sampled trace: estimates with variances for each row of these lists; else NULL */
    struct ag_metrics *stack_estimates, *timeline_estimates, *thread_estimates, *pair_estimates,
        *heap_estimates;
    size_t n_stacks, n_timeline, n_threads, n_pairs, n_heaps;
};

struct ag_definitions { /* zero-initialise, then ag_definitions_load, then one that loads stacks */
    struct ag_text_store texts;
    struct ag_stack_nodes nodes;

    bool has_process, has_end;
    uint32_t pid, mode, n_arguments;
    bool is_sampled;
    uint64_t interval_bytes, seed; /* sampled: as asked for */
    const char *filter;            /* NULL: all was recorded */
    const char **undecided;        /* names of heaps whose block types the filter did not know */
    size_t n_undecided;
    const char **arguments;
    const char *exe;
    uint64_t start_ns, start_realtime_ns;
    uint32_t end_how, wait_status, wait_status_known;
    uint64_t end_ns;
    uint64_t lost[AG_LOST_CAUSES];
    struct ag_profile_cost cost;
    struct ag_profile_observed observed;
    struct ag_profile_sampler sampler;

    struct ag_model_image *images;
    struct ag_model_heap *heaps;
    struct ag_model_memory *memory; /* the last record of each heap */
    struct ag_model_thread *threads;
    struct ag_profile_runtime *runtimes;
    struct ag_model_sample *samples; /* rising times */
    struct ag_model_function *functions;
    struct ag_model_type *types;
    struct ag_model_label *labels;
    struct ag_model_collection *collections; /* as the trace has them */
    size_t n_images, n_heaps, n_memory, n_threads, n_runtimes, n_samples, n_functions, n_types,
        n_labels, n_collections;
    /* id -> the newest of images, of threads; the first of functions, of types, of labels */
    struct ag_index_map image_index, stream_index, function_index, type_index, label_index;
    struct ag_index_map heap_index, memory_index; /* by number of the heap */
    struct ag_index_map runtime_index;    /* by name, which is kept once; merged: by all of it */
    struct ag_index_map stack_type_index; /* stack -> type; the first definition counts */
    struct {
        const char *name; /* NULL: not defined */
        uint32_t heap;
    } vias[AG_MODEL_VIAS];

    struct ag_call_trees call_trees;
    struct ag_code_places code;
    struct ag_model_sums index;
    struct ag_decode_error damage; /* the first; code AG_DECODE_OK: none */
    /* Of event chunks, in the pass that met most of it. */
    uint64_t damaged_chunks, damaged_events, damaged_bytes;
};

/* Initializes empty definitions, for callers that do not read a file: ag_definitions_load does it
 * itself. Returns 0 or -ENOMEM; then call ag_definitions_done in either case. */
int ag_definitions_init(struct ag_definitions *definitions);
/* Reads every chunk that holds no events, without what the two below load; before one of the
 * others. Damaged chunks are noted and skipped. 0 or -ENOMEM. */
int ag_definitions_load(struct ag_definitions *definitions, const struct ag_trace_file *file);
/* The nodes of the stacks. Touches nothing but nodes, so that another thread may do it meanwhile
 * (stack_loader.h); *ret_damage is the first of its own, code AG_DECODE_OK: none. 0 or -ENOMEM. */
int ag_definitions_load_stacks(struct ag_definitions *definitions, const struct ag_trace_file *file,
                               struct ag_decode_error *ret_damage);
/* The nodes, and the index' sums per stack. Where these are damaged, index.has_summary is false
 * afterwards. 0 or -ENOMEM. */
int ag_definitions_load_stacks_and_sums(struct ag_definitions *definitions,
                                        const struct ag_trace_file *file);
void ag_definitions_done(struct ag_definitions *definitions);
void ag_definitions_note_damage(struct ag_definitions *definitions,
                                const struct ag_decode_error *error);
void ag_model_sums_done(struct ag_model_sums *sums);
/* The heap that a via belongs to, or NULL when the trace does not define it. */
const struct ag_model_heap *ag_definitions_heap(const struct ag_definitions *definitions,
                                                uint32_t heap);
/* The heap of what this via allocates, or NULL. */
const struct ag_model_heap *ag_definitions_heap_of_via(const struct ag_definitions *definitions,
                                                       uint32_t via);
/* The memory of a heap, with the time since the start of the recording; known 0: not recorded. */
struct ag_heap_memory ag_definitions_memory(const struct ag_definitions *definitions,
                                            uint32_t heap);
/* The type of this number, or NULL when the trace does not define it. */
const struct ag_model_type *ag_definitions_type(const struct ag_definitions *definitions,
                                                uint32_t type);
/* Defines one; a number that is known keeps its first meaning. 0 or -ENOMEM. */
int ag_definitions_add_type(struct ag_definitions *definitions, uint32_t type,
                            const struct ag_model_type *definition);
/* The label's name, or NULL when the trace does not define it. */
const char *ag_definitions_label(const struct ag_definitions *definitions, uint32_t label);
/* As ag_definitions_add_type; name: kept by the definitions' texts. */
int ag_definitions_add_label(struct ag_definitions *definitions, uint32_t label, const char *name);
const char *ag_definitions_thread_name(const struct ag_definitions *definitions, uint32_t stream);

#endif
