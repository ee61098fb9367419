/* recording.h: writes the trace of one process of the session.
 *
 * The recorder (allogram's code in the process) writes the events of each thread into chunks of the
 * live segment, the memory that it shares with the writer (segment.h). A recording takes these
 * chunks, encodes their events for the trace file, adds the events to the totals (running sums,
 * kept by a ledger), and returns the chunks to the recorder. When the process has ended, the
 * recording seals the trace: it writes the end, the sums and the index. Each recording is used by
 * one thread. */
#ifndef AG_RECORDING_H
#define AG_RECORDING_H

#include <stdbool.h>
#include <stdint.h>

#include "format/encode.h"
#include "ledger/merge.h"
#include "one_pass.h"
#include "process_title.h"
#include "recording_file.h"
#include "session.h"
#include "stack_harvest.h"
#include "trace_index.h"

struct ag_stream; /* see recording.c */

/* number of memory samples that are kept in case the process is killed for lack of memory; they
 * cover at least 6 s */
enum { AG_MEMORY_SAMPLES = 64 };
enum { AG_ENDED_STREAMS = 64 }; /* streams of ended threads that are written together */

/* The recorded process that forked, executed or spawned a process; origin AG_ORIGIN_UNKNOWN: no
 * such process is known. */
struct ag_process_parent {
    uint64_t identity;
    uint32_t origin; /* enum ag_process_origin */
};

struct ag_recording {
    struct ag_session *session;
    /* slot: index of the process' slot (entry) in the live segment; generation: number of this use
     * of the slot */
    uint32_t slot, generation;
    uint32_t number; /* generation * n_slots + slot; also in the file's header */
    /* the pid that the process reported, which is that in its own PID namespace */
    uint32_t pid;
    struct ag_process_parent parent;
    uint32_t tree;         /* index of the process' stack tree in the segment */
    bool is_first;         /* the process that `run` started or `attach` records */
    uint32_t found_pid;    /* the process' pid in the writer's PID namespace; 0: unknown */
    bool shares_namespace; /* the process is in the writer's PID namespace */
    uint64_t start_ns;     /* when the process began, in ns since the session began */
    char program[16];      /* the start of the file name of the process' executable; "": unknown */

    struct ag_trace_writer *writer; /* NULL: there is no file, or a previous writer sealed it */
    int trace_fd;                   /* a second descriptor of the file; -1: there is no file */
    char path[4096];
    struct ag_trace_room room;
    bool was_finished; /* a previous writer sealed the trace and died before it could note that */
    bool is_cut;       /* only the end of the trace is still written; events are counted as lost */
    /* why the trace was cut: negative errno, 0 when the requested size was reached */
    int error;

    struct ag_stack_harvest stacks;
    struct ag_one_pass one_pass;
    struct ag_blob records; /* definitions, to be written before the next events */
    /* peak_look: records of the last look at the resident memory while it was near its largest
     * size; last_look: those of the last look, empty if both are the same look */
    struct ag_blob peak_look, last_look;
    /* when the next look may be taken, when the last one was taken (CLOCK_MONOTONIC), and the most
     * resident memory of all looks; used by writer.c */
    uint64_t next_look_ns, looked_ns, looked_bytes;
    struct ag_blob samples;        /* records of the resident size, and samples of the memory; their
                             * position among the events does not matter */
    struct ag_process_title title; /* what the process was called when its title was last read */
    /* the last samples of the memory, as a ring */
    struct ag_memory_sample memory[AG_MEMORY_SAMPLES];
    size_t n_memory; /* number of all samples; only the last AG_MEMORY_SAMPLES are kept */
    /* time of the last sample that is in the trace, and the resident memory when urgent samples
     * were last written */
    uint64_t memory_written_ns, memory_written_bytes;
    struct ag_blob counters;               /* function counters at the end (counter_harvest.c) */
    bool has_counters;                     /* the function counters have been taken */
    bool has_counts;                       /* calls of functions were counted */
    struct ag_stream **stream_pages[4096]; /* pages of 4096 streams; NULL: no such stream exists */
    /* streams that have data to be written and whose threads have ended */
    uint32_t ended_streams[AG_ENDED_STREAMS];
    uint32_t n_ended_streams;
    /* encoders that no stream uses; as many as become free when the ended streams are written */
    struct ag_event_encoder *spare_encoders[AG_ENDED_STREAMS];
    uint32_t n_spare;
    uint8_t heap_of_via[256]; /* the heap of each allocation function */

    /* Keeps the totals. NULL: memory was short, or a previous writer took some of the events. Then
     * the sums are computed from the file at the end. */
    struct ag_ledger *ledger;
    struct ag_merge *merge; /* brings the events of several threads into one order for `ledger`;
                             * made and freed together with it */
    bool has_threads;       /* the process has had a second thread: the ledger gets the events from
                             * `merge` */

    struct { /* the process' runtimes (languages' virtual machines), as last reported */
        char name[24];
        bool is_unseen; /* the runtime's allocations are not recorded */
    } runtimes[8];
    uint32_t n_runtimes;
    /* events that the writer lost; the slot counts those that the recorder lost */
    uint64_t lost[AG_LOST_CAUSES];
    uint64_t n_collections; /* number of collections by the program's garbage collectors */
    uint64_t last_event_ns, rss_peak_bytes;
    uint64_t reset_ns;         /* time of the last reset event, at which reports begin; 0: none */
    struct ag_index_sums sums; /* set by ag_recording_finish */
};

/* Opens the trace of the process in SLOT, which PARENT has started: a new file, or the file that a
 * previous writer began. NULL: no memory. When the trace cannot be created, the recording is cut
 * from the start. */
struct ag_recording *ag_recording_begin(struct ag_session *session, uint32_t slot, bool is_first,
                                        const struct ag_process_parent *parent);
struct ag_recording *ag_recording_free(struct ag_recording *recording);

struct ag_chunk_ready { /* a copy of a chunk's control (segment.h) */
    uint32_t chunk, slot, stream, thread_id, used_words;
    bool is_full;
    uint64_t sequence; /* sequence number of the chunk in its stream */
    /* raw clock value of the chunk's first stamp, a clock value among its events */
    uint64_t first_raw;
};
/* Takes a chunk that will not change any more, because it is full or its process has ended. The
 * chunks of a stream are taken in order of their sequence: if earlier chunks of the stream are
 * missing, nothing is taken and the result is false. With `skip_gap`, the missing chunks are
 * counted as lost instead. The chunk is returned to the recorder when its events are in the
 * trace. */
bool ag_recording_take(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                       bool skip_gap);
/* Sets the pid of the process in the writer's PID namespace; 0: unknown. */
void ag_recording_set_pid(struct ag_recording *recording, uint32_t pid);
/* Asks the kernel for the name of a stream's thread, unless it was asked a short time ago
 * (recording.c, section 5). */
void ag_recording_look_for_name(struct ag_recording *recording, uint32_t stream, uint32_t thread_id,
                                uint64_t now_ns);
/* Has the process had a second thread? From then on the totals need the events of all threads. */
bool ag_recording_has_threads(struct ag_recording *recording);
/* Adds the events so far of an ACTIVE chunk, which its thread still fills, to the totals; the trace
 * gets them when the chunk is taken. Returns true if the totals include all of these events, or if
 * there are no totals. */
bool ag_recording_peek(struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Whether the thread rests: the chunk has had the same number of words in all calls for a
 * millisecond or longer. */
bool ag_recording_rests(struct ag_recording *recording, const struct ag_chunk_ready *ready,
                        uint64_t now_ns);
/* Ends the last window (a window is the time between two stamps) of a thread that rests
 * (recording.c, section 3). The totals must include all events of the chunk. */
void ag_recording_end_window(struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* Whether this chunk has been taken and its events wait to be written. */
bool ag_recording_has(const struct ag_recording *recording, const struct ag_chunk_ready *ready);
/* The session time of the stream's last stamp that the totals include; 0: none. */
uint64_t ag_recording_totaled_ns(const struct ag_recording *recording, uint32_t stream);
/* Advances the totals to TIME_NS. All streams must have delivered their events from before that
 * time. */
void ag_recording_advance(struct ag_recording *recording, uint64_t time_ns);

/* Writes the waiting events of each stream whose first waiting event is from before OLDER_THAN_NS
 * (session time; UINT64_MAX: all) to the trace. Also writes `samples` if they are many. */
void ag_recording_flush(struct ag_recording *recording, uint64_t older_than_ns);
/* Records the resident memory of the process. */
void ag_recording_resident(struct ag_recording *recording, uint64_t time_ns, uint64_t rss_bytes);
/* Keeps a sample of the memory; the trace gets the last ones if the process is killed. IS_URGENT:
 * the writer may be killed soon, too, so the samples are written twice a second while the memory
 * changes. */
void ag_recording_memory(struct ag_recording *recording, const struct ag_memory_sample *sample,
                         bool is_urgent);
/* Keeps whether the allocations of the runtime in RECORD (AG_RECORD_RUNTIME) are recorded. */
void ag_recording_note_runtime(struct ag_recording *recording, const struct ag_record *record);
struct ag_resident_look;
enum ag_look_kind { AG_LOOK_NEAR_PEAK, AG_LOOK_BELOW_PEAK };
/* Keeps what the resident memory consisted of at TIME_NS, in place of an earlier look.
 * AG_LOOK_NEAR_PEAK: the memory is nearly as large as it ever was. The last look, and the last look
 * near the peak, are written when the trace is sealed. */
void ag_recording_look(struct ag_recording *recording, uint64_t time_ns, enum ag_look_kind kind,
                       const struct ag_resident_look *look);
struct ag_recording_end {
    uint32_t how; /* enum ag_slot_end */
    uint64_t time_ns;
    uint64_t profiler_rss_bytes, profiler_cpu_ns; /* resident memory and CPU time of the writer
                                                   * process */
    uint64_t target_cpu_ns;                       /* CPU time of the recorded process */
    bool may_be_killed; /* the process was killed, or it is not known how it ended */
    /* how the kernel killed the process for lack of memory; NULL: it did not, or that is not
     * known */
    const struct ag_kernel_kill_record *kill;
};
/* Seals the trace: writes the remaining data, the end, the sums and the index. */
void ag_recording_finish(struct ag_recording *recording, const struct ag_recording_end *end);
uint64_t ag_recording_bytes(const struct ag_recording *recording);
/* Is there a file? false when no file could be created, or when the file has been unlinked. */
bool ag_recording_has_trace(const struct ag_recording *recording);
/* The number of lost events: the slot's counts plus the writer's. */
uint64_t ag_recording_lost(const struct ag_recording *recording);

/* ---- shared by the files that implement a recording ---- */

/* Cuts the trace: from now on, only its end is written, and events are counted as lost, including
 * those that wait to be written. ERROR: negative errno, or 0 when the requested size is reached. */
void ag_recording_cut(struct ag_recording *recording, int error);
/* Adds the kept samples of the memory to the records that wait, unless they are there already. */
void ag_recording_add_memory(struct ag_recording *recording);
/* Adds a record that must be written before the next events. */
void ag_recording_define(struct ag_recording *recording, const struct ag_record *record);
/* ag_recording_write_records writes the records in BLOB and empties it.
 * ag_recording_write_definitions does this for the new nodes of stacks and for the definitions that
 * wait. */
void ag_recording_write_definitions(struct ag_recording *recording);
void ag_recording_write_records(struct ag_recording *recording, struct ag_blob *blob);

#endif
