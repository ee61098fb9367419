/* observation_state.h: the parts of an observation, for the files of src/observe/ only. An
 * inspector is the code for one runtime (virtual machine) that reads a process of this runtime from
 * outside. A node is a frame and the node of its caller; a stack is identified by its innermost
 * node. */
#ifndef AG_OBSERVATION_STATE_H
#define AG_OBSERVATION_STATE_H

#include <limits.h>
#include <pthread.h>

#include "base/compiler.h"
#include "frame_walk.h"
#include "generated_code.h"
#include "mapping_ledger.h"
#include "observation.h"
#include "observed_images.h"
#include "perf_watch.h"
#include "remote/remote_memory.h"
#include "symbol/symbol.h"
#include "writer/cgroup_memory.h"

enum { AG_WALK_FRAMES = 512, AG_INSPECTORS_MOST = 16, AG_NOTES_MOST = 64 };

struct allogram_target { /* the target as inspectors see it */
    struct ag_remote_process *process;
    struct ag_observed_images *images;
    struct allogram_target_mapping *mappings; /* copies of images->maps */
    /* address of __jit_debug_descriptor; 0: not searched yet; UINT64_MAX: none */
    uint64_t code_list;
    /* The list at code_list is not read again before code_list_rest_ns. code_list_stamp: result of
     * allogram_target_code_stamp (allogram/inspector.h) when the list was read. */
    uint64_t code_list_rest_ns, code_list_stamp;
    bool (*is_stopped)(void); /* copy of options.is_stopped; may be NULL */
};

struct ag_inspection { /* an inspector that recognized the target */
    const struct allogram_inspector *inspector;
    void *state;
    /* readable when there are collections; -1: the inspector does not watch collections */
    int collections_fd;
    /* descriptor of the BPF program that copies data at each sample; -1: the data is read later */
    int capture_program;
    uint32_t runtime; /* number of the runtime's name in seen.texts */
};

struct allogram_stack { /* a stack being reported: frames innermost first */
    struct ag_observation *observation;
    const struct allogram_sample *sample;
    uint32_t runtime;
    uint32_t frames[AG_WALK_FRAMES * 4];
    size_t n;
    bool is_cut, is_incomplete;
};
/* The object through which an inspector reports processes, allocators and collections. */
struct allogram_answers {
    struct ag_observation *observation;
    struct allogram_stack stack;
};

/* a sample for the trace; the samples are kept in the order in which they were read */
struct ag_raw_sample {
    uint64_t time_ns, weight; /* weight: ns of CPU time, or bytes of page faults */
    uint32_t node, thread, source;
};
/* A word of a heap that was written while it was watched. time_ns: the time of the write. node: the
 * stack that wrote; in the list word_ends, the stack that caused the next collection of the same
 * process. */
struct ag_seen_word {
    uint64_t time_ns, delay_ns; /* delay_ns: from the moment at which the word was first watched */
    uint32_t node;
};
struct ag_thread_label {
    uint32_t thread;
    char name[32];
};
struct ag_named_stack { /* the named frames of a node, made on request */
    struct ag_observed_frame *frames;
    size_t n;
};

/* A native frame that the thread of ag_observation_find_names looks up. */
struct ag_frame_to_name {
    uint32_t frame, image;
    uint64_t pc;
    bool is_exact;
    /* the results: symbols is valid until the symbolizer is freed */
    const struct ag_symbol_frame *symbols;
    size_t n_symbols;
};

struct ag_observation {
    struct ag_observe_options options;
    struct ag_remote_process process;
    char exe[PATH_MAX]; /* the program when the observation began; "": not readable */
    char cgroup[AG_CGROUP_PATH_BYTES]; /* "": unknown */
    struct ag_observed_images images;
    struct ag_frame_walker walker;
    struct ag_perf_watch *watch;
    size_t n_sources;
    enum ag_seen_source source_kinds[AG_PERF_SOURCES];
    /* by index of a source whose kind is AG_SEEN_MAP: its enum ag_mapping_call */
    uint32_t source_calls[AG_PERF_SOURCES];
    struct allogram_target target;
    struct ag_inspection inspections[AG_INSPECTORS_MOST];
    size_t n_inspections;
    struct allogram_answers answers;
    struct ag_generated_code generated;
    struct ag_seen_stacks seen;
    struct ag_mapping_ledger mappings;
    struct {                         /* the word of a heap that is watched; see watch_word */
        int source;                  /* index in source_kinds; -1: no words are watched */
        uint64_t address;            /* 0: none */
        uint64_t least_ns, until_ns; /* the next word is watched at least_ns if this one was
                                      * written by then, otherwise when it is written, and at
                                      * until_ns at the latest */
        uint64_t random;
    } word;
    struct ag_observation_facts facts;
    bool images_changed; /* a file with code was mapped since the last refresh of `images` */
    uint64_t last_refresh_ns;
    struct ag_raw_sample *raw;
    size_t n_raw;
    struct ag_thread_label *threads;
    size_t n_threads;
    struct ag_symbolizer *symbolizer;
    size_t n_symbolized_images;
    struct ag_named_stack *named; /* by node */
    size_t n_named;
    /* by frame id: an array that ends with a frame without function */
    struct ag_observed_frame **named_frames;
    size_t n_named_frames;
    struct {
        pthread_t thread;
        /* While this is set, only the thread may use the symbolizer and the items. */
        bool is_running;
        struct ag_frame_to_name *items;
        size_t n;
        uint32_t n_frames; /* frames with smaller ids were given to the thread */
    } naming;
    const char *notes[AG_NOTES_MOST];
    size_t n_notes;
    struct ag_reported_process *processes;
    struct ag_reported_allocator *allocators;
    struct ag_reported_collection *collections;
    size_t n_processes, n_allocators, n_collections;
    struct ag_seen_word *words, *word_ends;
    size_t n_words, n_word_ends;
    /* CPU times when the observation began, in ns: of the target, and of this process */
    uint64_t cpu_before_ns, own_before_ns;
    uint64_t reported_lost; /* events that inspectors could not report, or that found no memory */
    struct allogram_native_frame frames[AG_WALK_FRAMES];
};

/* Adds a line to the notes, unless it is there already. */
void ag_observation_note(struct ag_observation *observation, const char *format, ...)
    AG_PRINTF(2, 3);

/* ---- inspections.c ---- */
void ag_inspections_open(struct ag_observation *observation);
void ag_inspections_refresh(struct ag_observation *observation);
void ag_inspections_close(struct ag_observation *observation);
/* Whether pc is in code of a runtime that has an inspector. */
bool ag_inspections_own(void *observation, uint64_t pc);
/* Finds the node of a sample's stack. Returns false if the stack is stale: it was read so late that
 * it may belong to a later moment than the sample. */
bool ag_inspections_stack(struct ag_observation *observation, const struct allogram_sample *sample,
                          uint32_t *ret_node);

/* Whether the write to ADDRESS, after which the sample was taken, wrote a new object. */
bool ag_inspections_is_new_word(struct ag_observation *observation,
                                const struct allogram_sample *sample, uint64_t address);
/* Chooses a word of a heap to be watched. Returns false if no inspector knows one. */
bool ag_inspections_choose_word(struct ag_observation *observation, uint64_t *ret_address);

/* ---- observed_names.c ---- */
/* Adds new images (mapped files with code) to the symbolizer. Opens those images at once whose
 * files cannot be opened after the target has ended. Does nothing while the thread of
 * ag_observation_find_names uses the symbolizer. */
void ag_observed_names_prepare(struct ag_observation *observation);
/* Returns an array with the frames of the frame id FRAME; there are several if functions were
 * inlined. A frame without function ends the array. NULL: out of memory. */
const struct ag_observed_frame *ag_observed_names_of(struct ag_observation *observation,
                                                     uint32_t frame);
void ag_observed_names_done(struct ag_observation *observation);

/* ---- sample_cost.c ---- */
/* Returns what a sample that copies STACK_BYTES costs the interrupted thread, in ns; 0: unknown. */
double ag_sample_cost_measure(uint32_t stack_bytes);
/* Returns what recording one page fault with STACK_BYTES of the stack costs the thread, in ns; 0:
 * unknown. */
double ag_record_cost_measure(uint32_t stack_bytes);

#endif
