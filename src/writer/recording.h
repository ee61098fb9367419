/* recording.h: one process of the session on its way into its trace file. */
#ifndef AG_RECORDING_H
#define AG_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "format/encode.h"
#include "ledger/merge.h"
#include "one_pass.h"
#include "session.h"
#include "stack_harvest.h"
#include "trace_room.h"

struct ag_stream; /* see recording.c */

struct ag_recording {
    struct ag_session *session;
    uint32_t slot, generation;
    uint32_t number; /* of the process in the session: slot and generation in one; stands in the
                        file's header */
    uint32_t pid, tree;
    bool is_first;        /* the process that `run` started */
    uint32_t found_pid;   /* our number of it; 0: not known */
    bool has_our_numbers; /* it is in our pid namespace: /proc knows it and its threads by them */
    uint64_t start_ns;    /* since the session began */

    struct ag_trace_writer *writer; /* NULL: the trace could not be made, or is sealed already */
    int trace_fd;                   /* ours beside the writer's; -1: there is no file */
    char path[4096];
    struct ag_trace_room room;
    bool was_finished; /* by a writer that died before it could say so */
    bool is_cut;       /* nothing more is written but the end */
    int error;         /* what cut it: negative errno, 0 when it was the size asked for */

    struct ag_stack_harvest stacks;
    struct ag_one_pass one_pass;
    struct ag_blob records; /* definitions that must stand before the next events */
    struct ag_blob samples; /* that need not */
    struct ag_stream **stream_pages[4096];
    uint32_t n_streams; /* that delivered something */
    uint32_t ended[64]; /* streams whose threads are gone and that have something to be written */
    uint32_t n_ended;
    struct ag_event_encoder *spare_encoders[8];
    uint32_t n_spare;
    uint8_t heap_of_via[256];

    struct ag_ledger
        *ledger; /* NULL: events were recorded before us; sums are made by reading back */
    struct ag_merge *merge; /* beside the ledger */
    bool has_threads;       /* events go through the merge */

    struct { /* runtimes, as the process said last */
        char name[24];
        bool is_unseen; /* its allocations are not recorded */
    } runtimes[8];
    uint32_t n_runtimes;
    uint64_t lost[AG_LOST_CAUSES]; /* found here; the slot's own come on top */
    uint64_t n_collections;        /* that the program told */
    uint64_t last_event_ns, end_ns, rss_peak_bytes;
    uint64_t reset_ns;         /* reports begin here, as far as an event said so; 0: none did */
    struct ag_summary summary; /* after the end */
};

/* Opens the trace of the process in SLOT, which is the session's first or is not: a new file, or
 * the one that a writer before us began.
 * NULL: no memory. A trace that cannot be made gives a recording that is cut from the start. */
struct ag_recording *ag_recording_begin(struct ag_session *session, uint32_t slot, bool is_first);
struct ag_recording *ag_recording_free(struct ag_recording *recording);

struct ag_chunk_ready { /* a copy of a chunk's control */
    uint32_t chunk, slot, stream, thread_id, used_words;
    bool is_full;
    uint64_t sequence, first_raw; /* of its first stamp */
};
enum ag_taken { AG_TAKEN_NOT_YET, AG_TAKEN, AG_TAKEN_RELEASED };
/* A chunk that will not change any more. Only the next one in its stream's order is taken;
 * `skip_gap` gives up what is missing before it. It is given back to the recorder as soon as the
 * trace holds it. */
enum ag_taken ag_recording_take(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                                bool skip_gap);
/* By which of our numbers /proc knows the process; 0: none. */
void ag_recording_found(struct ag_recording *recording, uint32_t pid);
/* Asks the kernel for the name of a stream's thread, where it is time to (recording.c, 5). */
void ag_recording_look_for_name(struct ag_recording *recording, uint32_t stream, uint32_t thread_id,
                                uint64_t now_ns);
/* The record that defines a stream's thread comes now: the name that is known of it, if any, goes
 * into it. ret_name: what the record points to. */
void ag_recording_name_thread(struct ag_recording *recording, struct ag_record *record,
                              char ret_name[16]);
/* Is there a second thread by now? From then on the books want to be told of all of them. */
bool ag_recording_has_threads(struct ag_recording *recording);
/* Tells the books what an ACTIVE chunk holds already; the trace takes it later. true: they know all
 * that it held. */
bool ag_recording_peek(struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Has this chunk as many words as when it was last asked for, a millisecond ago or more? */
bool ag_recording_rests(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                        uint64_t now_ns);
/* Its thread rests, and the books know all of it: the window of its last events ends now. */
void ag_recording_end_window(struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Is this chunk taken already and waiting to be written? */
bool ag_recording_has(const struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Up to where the books know this stream, ns; 0: not at all. */
uint64_t ag_recording_booked_ns(const struct ag_recording *recording, uint32_t stream);
/* All streams have delivered what happened before: for the books. */
void ag_recording_advance(struct ag_recording *recording, uint64_t time_ns);

/* Writes what streams hold that began before OLDER_THAN_NS (session time; UINT64_MAX: all). */
void ag_recording_flush(struct ag_recording *recording, uint64_t older_than_ns);
void ag_recording_resident(struct ag_recording *recording, uint64_t time_ns, uint64_t rss_bytes);
struct ag_recording_end {
    uint32_t how; /* enum ag_slot_end */
    uint64_t time_ns;
    uint64_t profiler_rss_bytes, profiler_cpu_ns, target_cpu_ns;
};
/* Seals the trace: everything taken, the end, the sums, the index. */
void ag_recording_finish(struct ag_recording *recording, const struct ag_recording_end *end);
uint64_t ag_recording_bytes(const struct ag_recording *recording);
/* Is there a file? Not when none could be made, and not when it has lost its name since. */
bool ag_recording_has_trace(const struct ag_recording *recording);
uint64_t ag_recording_lost(const struct ag_recording *recording); /* the slot's causes and ours */

/* ---- between the files of a recording ---- */

/* Ends the recording here. error: negative errno, or 0 when the size asked for is reached. What is
 * not written yet is counted as lost. */
void ag_recording_cut(struct ag_recording *recording, int error);
/* A record that must stand before the next events. */
void ag_recording_define(struct ag_recording *recording, const struct ag_record *record);
void ag_recording_write_definitions(struct ag_recording *recording);
void ag_recording_write_records(struct ag_recording *recording, struct ag_blob *blob);
int ag_recording_open_trace(struct ag_recording *recording, const struct ag_process_slot *copy);
int ag_recording_resume_writer(struct ag_recording *recording);

#endif
