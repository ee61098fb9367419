/* recording.h: one process of the session on the way into its trace file. */
#ifndef AG_RECORDING_H
#define AG_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "format/encode.h"
#include "ledger/merge.h"
#include "one_pass.h"
#include "recording_file.h"
#include "session.h"
#include "stack_harvest.h"
#include "trace_index.h"

struct ag_stream; /* see recording.c */

struct ag_recording {
    struct ag_session *session;
    uint32_t slot, generation;
    /* of the process in the session: slot and generation combined; stored in the file's header */
    uint32_t number;
    uint32_t pid, tree;
    bool is_first;      /* the process that `run` started */
    uint32_t found_pid; /* pid in the writer's PID namespace; 0: unknown */
    /* the process is in the writer's PID namespace: /proc lists it and its threads by its own
     * numbers */
    bool shares_namespace;
    uint64_t start_ns; /* since the session began */

    struct ag_trace_writer *writer; /* NULL: the trace could not be created, or is sealed */
    int trace_fd;                   /* a descriptor beside the writer's; -1: there is no file */
    char path[4096];
    struct ag_trace_room room;
    bool was_finished; /* a previous writer sealed the trace and died before it could note that */
    bool is_cut;       /* only the end is written from here on */
    int error;         /* why it was cut: negative errno, 0 when the requested size was reached */

    struct ag_stack_harvest stacks;
    struct ag_one_pass one_pass;
    struct ag_blob records; /* definitions, to be written before the next events */
    struct ag_blob samples; /* records that need not precede events */
    struct ag_stream **stream_pages[4096];
    /* streams that have data to be written and whose threads have ended */
    uint32_t ended_streams[64];
    uint32_t n_ended_streams;
    struct ag_event_encoder *spare_encoders[8];
    uint32_t n_spare;
    uint8_t heap_of_via[256];

    /* NULL: a previous writer took events, or no memory; the sums come from the file */
    struct ag_ledger *ledger;
    struct ag_merge *merge; /* exists when the ledger does */
    bool has_threads;       /* events go through the merge */

    struct { /* runtimes, by their last report */
        char name[24];
        bool is_unseen; /* its allocations are not recorded */
    } runtimes[8];
    uint32_t n_runtimes;
    uint64_t lost[AG_LOST_CAUSES]; /* counted by the writer; those of the slot are added */
    uint64_t n_collections;        /* reported by the program */
    uint64_t last_event_ns, end_ns, rss_peak_bytes;
    uint64_t reset_ns;         /* reports begin here, set by the last reset event; 0: none */
    struct ag_index_sums sums; /* filled by the end */
};

/* Opens the trace of the process in SLOT: a new file, or the one that a previous writer began.
 * NULL: no memory. When the trace cannot be created, the recording is cut from the start. */
struct ag_recording *ag_recording_begin(struct ag_session *session, uint32_t slot, bool is_first);
struct ag_recording *ag_recording_free(struct ag_recording *recording);

struct ag_chunk_ready { /* a copy of a chunk's control */
    uint32_t chunk, slot, stream, thread_id, used_words;
    bool is_full;
    uint64_t sequence, first_raw; /* of the chunk's first stamp */
};
enum ag_taken { AG_TAKEN_NOT_YET, AG_TAKEN, AG_TAKEN_RELEASED };
/* Takes a chunk that will not change any more. Only the next one in its stream's order is taken;
 * `skip_gap` gives up chunks that are missing before it. The chunk is returned to the recorder as
 * soon as the trace holds it. */
enum ag_taken ag_recording_take(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                                bool skip_gap);
/* Sets the pid of the process in the writer's PID namespace; 0: unknown. */
void ag_recording_set_pid(struct ag_recording *recording, uint32_t pid);
/* Asks the kernel for the name of a stream's thread, when that is due (recording.c, 5). */
void ag_recording_look_for_name(struct ag_recording *recording, uint32_t stream, uint32_t thread_id,
                                uint64_t now_ns);
/* Is there a second thread by now? From then on the totals need the events of all threads. */
bool ag_recording_has_threads(struct ag_recording *recording);
/* Adds the events that an ACTIVE chunk holds so far to the totals; the trace gets them later. true:
 * the totals include all its events. */
bool ag_recording_peek(struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Have all calls in the last millisecond or more seen this number of words in the chunk? */
bool ag_recording_rests(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                        uint64_t now_ns);
/* Ends the window of the thread's last events now. The thread must rest, and the totals must
 * include all its events. */
void ag_recording_end_window(struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Has this chunk been taken, and does it wait to be written? */
bool ag_recording_has(const struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Time up to which the totals include this stream, ns; 0: none of it. */
uint64_t ag_recording_totaled_ns(const struct ag_recording *recording, uint32_t stream);
/* All streams have delivered the events before this time: the totals may advance. */
void ag_recording_advance(struct ag_recording *recording, uint64_t time_ns);

/* Writes the data that streams hold since before OLDER_THAN_NS (session time; UINT64_MAX: all). */
void ag_recording_flush(struct ag_recording *recording, uint64_t older_than_ns);
void ag_recording_resident(struct ag_recording *recording, uint64_t time_ns, uint64_t rss_bytes);
struct ag_recording_end {
    uint32_t how; /* enum ag_slot_end */
    uint64_t time_ns;
    uint64_t profiler_rss_bytes, profiler_cpu_ns, target_cpu_ns;
};
/* Seals the trace: writes the remaining data, the end, the sums and the index. */
void ag_recording_finish(struct ag_recording *recording, const struct ag_recording_end *end);
uint64_t ag_recording_bytes(const struct ag_recording *recording);
/* Is there a file? false when none could be created, or when it has been unlinked. */
bool ag_recording_has_trace(const struct ag_recording *recording);
/* events lost: the slot's counts plus the writer's */
uint64_t ag_recording_lost(const struct ag_recording *recording);

/* ---- shared by the files that implement a recording ---- */

/* Ends the recording here. error: negative errno, or 0 when the requested size is reached. Data
 * that is not written yet is counted as lost. */
void ag_recording_cut(struct ag_recording *recording, int error);
/* Adds a record that must be written before the next events. */
void ag_recording_define(struct ag_recording *recording, const struct ag_record *record);
void ag_recording_write_definitions(struct ag_recording *recording);
void ag_recording_write_records(struct ag_recording *recording, struct ag_blob *blob);

#endif
