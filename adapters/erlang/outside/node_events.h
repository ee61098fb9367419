/* node_events.h: data that the kernel half (node.bpf.c) shares with the half in allogram
 * (node_kernel.c): the settings, and the records in the ring buffer. The types have a fixed size,
 * because this file is compiled for two machines: BPF and the CPU. */
#ifndef AG_NODE_EVENTS_H
#define AG_NODE_EVENTS_H

#include <linux/types.h>

#include "node_pace.h"

enum {
    NODE_EVENT_WORDS = 8192,    /* maximum number of words of a stack, from its top on: 64 KiB, the
                              * words of some 2,000 frames, more than the observer keeps */
    NODE_EVENT_FEW_WORDS = 512, /* copied if the stack's end is unknown, or more cannot be read */
    NODE_EVENT_MARGIN = 16, /* words beyond the saved top of the stack that are captured too: the
                             * saved top may be older than the stack's last growth */
    NODE_CODE_AREAS = 8,
    NODE_WRITES = 8, /* maximum number of writes to watched words that are kept for a process; a
                      * power of two */
    NODE_FRESH_BYTES = 4096,  /* a new word is at most this far below the top of the heap */
    NODE_PROCESS_WORDS = 128, /* words of struct process, from its start on, that are read */
};

/* Offsets in struct process, and the ranges of generated code; written before the kernel half is
 * attached to events, and again when code is added or the period changes. */
struct node_bpf_settings {
    __u32 heap_top, stack_top, heap, heap_end, instruction, high_water, old_heap, old_top,
        minor_count, abandoned_heap, fragment_words, state;
    __u32 n_areas;
    __u32 process_bytes; /* number of bytes of struct process to be read, up to the last of these
                          * fields: below 8 * NODE_PROCESS_WORDS */
    __u64 period_bytes;  /* of allocation per reported collection; 0: all are reported */
    struct {
        __u64 low, high;
    } areas[NODE_CODE_AREAS];
};

enum node_event_kind {
    NODE_EVENT_SAMPLE = 1,
    NODE_EVENT_COLLECTION = 2,
};
struct node_heap_state {
    __u64 heap, heap_top, stack_top, heap_end, high_water, old_heap, old_top, abandoned_heap,
        fragment_words;
    __u64 minor_count; /* low 16 bits */
};
struct node_event {
    __u32 kind, thread;
    __u64 start_ns, end_ns;         /* CLOCK_MONOTONIC; a sample: both the same */
    __u64 process, id, instruction; /* address and identifier of the process; where it continues */
    __u64 needed_words;             /* requested words that caused the collection; 0: unknown */
    __u64 weight_bytes; /* of a collection: allocated bytes that it stands for (node_pace.h); 0: an
                         * earlier call began this collection, or it is reported only because of
                         * a write to a watched word */
    __u64 state;        /* low 32 bits: flags */
    __u64 n_written;    /* of a collection: number of the process's writes to watched words since
                         * its previous collection */
    __u64 written_ns[NODE_WRITES];        /* their times */
    struct node_heap_state before, after; /* a sample has only before */
    __u64 top, n_words;                   /* address of words[0]; number of words */
    __u64 words[NODE_EVENT_WORDS];
};
struct node_written { /* writes to watched words; used only in the kernel */
    __u64 id;         /* of the process that wrote: another process may get its address */
    __u64 n, ns[NODE_WRITES];
};
struct node_process_copy {
    __u64 words[NODE_PROCESS_WORDS];
};
struct node_watched { /* a thread that collects; node_kernel.c reads only n_seen */
    struct node_pace pace;
    __u64 n_seen;                          /* collections, reported or not */
    __u64 depth;                           /* number of nested calls of the collector since the
                                            * reported collection began; 0: none is running */
    __u64 id, heap, heap_top, minor_count; /* of the process of the thread's last call */
    struct node_process_copy copy;
    struct node_event event;
};

#endif
