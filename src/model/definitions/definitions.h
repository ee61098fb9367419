/* definitions.h: everything in a trace except its events: the process, its images, threads, heaps
 * and stacks, the number of lost events, how the process ended, and the sums of the index, if the
 * trace has an index. */
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
#include "schema/resident_mapping.h"
#include "table/text_store.h"

enum { AG_MODEL_VIAS = 256 };

struct ag_model_look {
    struct ag_resident_look look;
    uint64_t time_ns; /* since the start of the session (session time) */
};
struct ag_model_image {
    uint32_t image;
    uint32_t path, base_name; /* ids of texts */
    uint64_t bias, low, high;
    uint8_t build_id[64];
    uint32_t build_id_bytes;
};
/* a function of a runtime, from a FRAME record */
struct ag_model_function {
    uint32_t runtime, function, file; /* ids of texts */
    uint32_t line, column, end_column;
};
struct ag_model_collection {
    /* times in `row` are session times (not relative to the start of the process); row.cause_frame
     * is unknown */
    struct ag_collection_row row;
    uint32_t stack, frame, thread_id;
};
struct ag_model_heap {
    uint32_t heap;
    const char *name, *domain, *allocator, *runtime, *kind, *unit;
    bool is_backing; /* the blocks of this heap contain blocks of other heaps */
    /* the garbage collector of the heap moves or promotes live blocks, and reports each move or
     * promotion */
    bool is_moving;
};
struct ag_model_memory { /* memory.time_ns is a session time */
    uint32_t heap;
    struct ag_heap_memory memory;
};
struct ag_model_thread {
    uint32_t stream, thread_id;
    const char *name;
};
struct ag_model_type { /* type of blocks, defined by a program or a runtime */
    uint32_t name;     /* id of a text */
    const char *runtime;
};
struct ag_model_label { /* a label: a name for a part of the program's work, set by
                         * allogram_label_set */
    uint32_t label;
    const char *name;
};
struct ag_model_sample { /* a sample of the process's resident size; time_ns is a session time */
    uint64_t time_ns, bytes;
};
struct ag_mapped_sum;
struct ag_model_sums { /* read from the index of the trace, or computed from the events */
    bool has_summary;
    struct ag_summary summary;
    struct ag_stack_sum *stacks;
    struct ag_timeline_point *timeline;
    struct ag_thread_sum *threads;
    struct ag_thread_pair *pairs;
    struct ag_heap_sum *heaps;
    /* In a sampled trace: estimates with variances for each element of the lists above. NULL in an
     * exact trace. */
    struct ag_metrics *stack_estimates, *timeline_estimates, *thread_estimates, *pair_estimates,
        *heap_estimates;
    size_t n_stacks, n_timeline, n_threads, n_pairs, n_heaps;
    /* In a profile of mappings: an element for each of `stacks` (pass/mapped_memory.h). NULL: this
     * is a profile of blocks. has_half_way: half_way_bytes is known; has_residency: resident_bytes
     * and untouched_bytes are known. */
    struct ag_mapped_sum *mapped;
    bool has_half_way, has_residency;
};

/* Zero-initialize, then call ag_definitions_load, then ag_definitions_load_stacks or
 * ag_definitions_load_stacks_and_sums. */
struct ag_definitions {
    struct ag_text_store texts;
    struct ag_stack_nodes nodes;

    bool has_process, has_end;
    uint32_t pid, parent_pid, mode, n_arguments;
    uint64_t session; /* the random number of the recording that the trace is a part of */
    /* as in the record PROCESS; 0: unknown; always 0 in traces of older versions */
    uint64_t process_identity, parent_identity;
    uint32_t origin; /* enum ag_process_origin */
    /* of the record TITLE; NULL: not in the trace */
    const char *last_name, *last_command, *user;
    uint32_t user_id;
    uint64_t address_space_limit_bytes; /* UINT64_MAX: none, or unknown */
    bool is_sampled;
    /* of a sampled trace: mean number of bytes between two samples, and seed of the random
     * numbers */
    uint64_t interval_bytes, seed;
    /* expression of the filter that selected the blocks to record; NULL: all blocks were
     * recorded */
    const char *filter;
    /* names of the heaps with blocks for which the filter could not be decided */
    const char **undecided;
    size_t n_undecided;
    uint32_t outside_pid; /* the process' pid in the writer's PID namespace; 0: unknown */
    const char *cgroup;   /* NULL: unknown */
    const char **arguments;
    const char *exe, *host;
    uint64_t start_ns, start_realtime_ns; /* start_ns and end_ns are session times */
    uint32_t end_how, wait_status, wait_status_known;
    uint64_t end_ns;
    /* its members `last` and growth_... are set after all records are read */
    struct ag_profile_kill kernel_kill;
    struct ag_memory_sample *memory_samples; /* sorted by time, which is that of the session */
    uint64_t lost[AG_LOST_CAUSES];
    /* What the resident memory consisted of: the look with the most resident memory, and the latest
     * look. Without mappings: not in the trace. If both looks were at the same time, last_look has
     * no mappings. */
    struct ag_model_look peak_look, last_look;
    struct ag_model_look new_look; /* the look whose mappings are being read */
    struct ag_profile_cost cost;
    struct ag_profile_observed observed;
    struct ag_profile_sampler sampler;

    struct ag_model_image *images;
    struct ag_model_heap *heaps;
    struct ag_model_memory *memory; /* the newest record of each heap */
    struct ag_model_thread *threads;
    struct ag_profile_runtime *runtimes;
    struct ag_model_sample *samples; /* sorted by time */
    struct ag_model_function *functions;
    struct ag_model_type *types;
    struct ag_model_label *labels;
    struct ag_model_collection *collections; /* in the order of the trace */
    size_t n_images, n_heaps, n_memory, n_threads, n_runtimes, n_samples, n_memory_samples,
        n_functions, n_types, n_labels, n_collections;
    /* id -> index in images, threads (the id is the stream), functions, types, labels. If an id is
     * defined again, the first definition is kept; for a thread, the last. */
    struct ag_index_map image_index, stream_index, function_index, type_index, label_index;
    /* number of a heap -> index in `heaps`, in `memory` */
    struct ag_index_map heap_index, memory_index;
    /* address of the runtime's name (equal names have one address) -> index in `runtimes`. In a
     * merged profile the key is a hash of name, version, note and `hooked`. */
    struct ag_index_map runtime_index;
    /* stack -> type; if a stack has several definitions, the first is kept */
    struct ag_index_map stack_type_index;
    struct {
        const char *name; /* NULL: not defined */
        uint32_t heap;
    } vias[AG_MODEL_VIAS];

    struct ag_call_trees call_trees;
    struct ag_code_places code;
    struct ag_model_sums index;
    struct ag_decode_error damage; /* the first damage found; code AG_DECODE_OK: none */
    /* Damage in event chunks. ag_definitions_load checks these chunks, and later passes over the
     * events may check them again. The counts are those of the check that found the most damaged
     * chunks. */
    struct ag_damaged_chunks {
        uint64_t chunks, events, bytes;
    } damaged;
    struct ag_damaged_chunks damaged_others; /* the same for chunks without events */
};

/* Initializes empty definitions, for callers that do not read a file. (ag_definitions_load also
 * calls this function.) Returns 0 or -ENOMEM; in either case the caller calls ag_definitions_done
 * later. */
int ag_definitions_init(struct ag_definitions *definitions);
/* Reads every chunk (a compressed piece of the trace) without events, except the nodes of stacks
 * and the sums of each stack, which one of the next two functions loads. Checks the checksums of
 * the chunks with events, so that every report on the trace can say what is missing, even if the
 * report is made from the sums of the index. Damaged chunks are skipped; the first damage is stored
 * in `damage`. Returns 0 or -ENOMEM. */
int ag_definitions_load(struct ag_definitions *definitions, const struct ag_trace_file *file);
/* Loads the nodes of the stacks. The function changes no other member than `nodes`, so it may run
 * while another thread uses the other members (see profile.c). *ret_damage: the first damage found;
 * code AG_DECODE_OK: none. Returns 0 or -ENOMEM. */
int ag_definitions_load_stacks(struct ag_definitions *definitions, const struct ag_trace_file *file,
                               struct ag_decode_error *ret_damage);
/* Loads the nodes of the stacks, and the index's sums of each stack. If a chunk of the index is
 * damaged, sets index.has_summary to false. 0 or -ENOMEM. */
int ag_definitions_load_stacks_and_sums(struct ag_definitions *definitions,
                                        const struct ag_trace_file *file);
void ag_definitions_done(struct ag_definitions *definitions);
void ag_definitions_note_damage(struct ag_definitions *definitions,
                                const struct ag_decode_error *error);
void ag_model_sums_done(struct ag_model_sums *sums);
/* Returns the heap with number HEAP, or NULL if the trace does not define it. */
const struct ag_model_heap *ag_definitions_heap(const struct ag_definitions *definitions,
                                                uint32_t heap);
/* Returns the heap in which the allocation function VIA allocates, or NULL if the trace does not
 * define it. */
const struct ag_model_heap *ag_definitions_heap_of_via(const struct ag_definitions *definitions,
                                                       uint32_t via);
/* Returns the memory of a heap. Its time_ns is the time since the start of the recording. Its
 * `known` is 0 if the memory of the heap was not recorded. */
struct ag_heap_memory ag_definitions_memory(const struct ag_definitions *definitions,
                                            uint32_t heap);
/* Returns the type with number TYPE, or NULL if the trace does not define it. */
const struct ag_model_type *ag_definitions_type(const struct ag_definitions *definitions,
                                                uint32_t type);
/* Defines the type number TYPE; if TYPE is defined already, keeps the first definition. Returns 0
 * or -ENOMEM. */
int ag_definitions_add_type(struct ag_definitions *definitions, uint32_t type,
                            const struct ag_model_type *definition);
/* Returns the name of the label with number LABEL, or NULL if the trace does not define it. */
const char *ag_definitions_label(const struct ag_definitions *definitions, uint32_t label);
/* Defines the label number LABEL; if LABEL is defined already, keeps the first definition. NAME is
 * not copied, so it must be a text of definitions->texts. Returns 0 or -ENOMEM. */
int ag_definitions_add_label(struct ag_definitions *definitions, uint32_t label, const char *name);
const char *ag_definitions_thread_name(const struct ag_definitions *definitions, uint32_t stream);

#endif
