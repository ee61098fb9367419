/* session.h: a session as the writer sees it: the mapped live segment, and a copy of its header
 * that was checked once. The live segment is the content of the live file. It has slots (one for
 * each recorded process), stack trees, and chunks for events, each chunk with a control
 * (format/segment.h).
 *
 * The program may change the header at any time, but not the copy in struct ag_session. So
 * addresses are computed from that copy, never from the header. */
#ifndef AG_SESSION_H
#define AG_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "format/segment.h"
#include "live_session.h"
#include "trace_file.h"

struct ag_session {
    int fd;          /* descriptor of the live file */
    bool is_private; /* mapped with MAP_PRIVATE, from a descriptor that cannot write */
    uint8_t *base;
    uint64_t file_bytes;
    struct ag_segment_header *header; /* == base */
    uint64_t id;                      /* header.session */
    uint32_t n_slots, n_trees, n_chunks;
    uint64_t slots_offset, controls_offset, trees_offset, chunks_offset, tree_bytes;
    uint32_t mode, depth; /* enum ag_mode; maximum number of frames of a stack */
    bool has_locks;       /* processes hold locks while they live: segment.h, section 6 */
    /* the event of a free has the stack of its caller. Then one_pass.c is not used, because it
     * would be no faster. */
    bool has_free_stacks;
    uint64_t interval_bytes, seed;                      /* mode SAMPLE: as requested */
    uint64_t least_interval_bytes, most_interval_bytes; /* the range of intervals so far */
    double budget_percent; /* limit for allogram's share of the processes' CPU time, in percent;
                            * 0: the interval is fixed */
    uint32_t clock_kind;
    uint64_t clock_origin, clock_origin_realtime_ns;
    /* CLOCK_MONOTONIC at clock_origin. 0: this process has opened a session that another process
     * created; then this process does not refit the clock factor (session_clock.c). */
    uint64_t clock_origin_monotonic_ns;
    uint64_t max_trace_bytes;                /* 0: no limit */
    char trace_pattern[1024];                /* absolute, NUL-terminated */
    char path[4096];                         /* of the live file */
    char filter[AG_BLOCK_FILTER_TEXT_BYTES]; /* "": all blocks are recorded */

    struct ag_dump_when dumps[AG_DUMPS_MOST];
    size_t n_dumps;
    /* a dump (a trace of the recording so far) depends on the bytes in use, the allocated bytes or
     * the collections, so the writer's running sums must be current */
    bool follows_bytes;
    struct ag_snapshot_requests *requests; /* shared with forked children; NULL: none */

    /* lower limit of the start time of every process of the session, in the unit of
     * ag_process_boot_ticks (process_watch.h); 0: unknown */
    uint64_t begun_ticks;
    uint64_t pid_namespace; /* PID namespace of the process that made the session; 0: unknown */
    bool is_attached;       /* the first process continues after it has left the session */
    int stop_error;         /* negative errno that ended the recording of all processes */
    /* The first process: the program that `run` starts or `attach` records. */
    uint32_t first_pid; /* in pid_namespace; 0: unknown */
    /* pid in the first process' own PID namespace, which differs in a container */
    uint32_t first_own_pid;
    uint64_t first_namespace; /* the first process' own PID namespace; 0: unknown */
    /* Descriptor of the trace of the first process, which is created before the process is
     * recorded. In a private session (ag_session_open_private), descriptor of the copy of a trace
     * that a reader completes. -1: there is no such file, or the recording has taken the
     * descriptor. */
    int first_trace_fd;
    char first_trace_path[4096];

    /* Raw clock value when this writer took the lock; 0: unknown. Only this writer can have created
     * the trace of a process that started after this time. */
    uint64_t locked_since_raw;
    struct ag_trace_numbers numbers; /* name and number of the last trace of this writer; the
                                      * search for a free number begins there */
};

static inline struct ag_process_slot *ag_session_slot(const struct ag_session *session,
                                                      uint32_t slot) {
    return (struct ag_process_slot *)(void *)(session->base + session->slots_offset +
                                              (uint64_t)slot * AG_SLOT_BYTES);
}

/* Returns n: the slots [0, n) have been used at least once; the other slots have no memory yet. */
static inline uint32_t ag_session_slots_used(const struct ag_session *session) {
    /* acquire: pairs with the release of a process that raises n_slots_used before it takes a
     * slot */
    const uint32_t used =
        atomic_load_explicit(&session->header->n_slots_used, memory_order_acquire);
    return used < session->n_slots ? used : session->n_slots;
}

/* Returns n: the chunks [0, n) have been used at least once. */
static inline uint32_t ag_session_chunks_touched(const struct ag_session *session) {
    /* acquire: pairs with the release of the recorder that populated the chunk's control */
    const uint32_t touched =
        atomic_load_explicit(&session->header->n_chunks_touched, memory_order_acquire);
    return touched < session->n_chunks ? touched : session->n_chunks;
}

/* Populates (allocates memory for) chunks that no recorder has taken yet. Afterwards their number
 * is that of the taken chunks plus 2, but at most 32. A thread that takes one of these chunks needs
 * no system call, which a sandbox might forbid. What fails is tried again by the next call. */
void ag_session_prepare_chunks(const struct ag_session *session);

static inline struct ag_chunk_control *ag_session_control(const struct ag_session *session,
                                                          uint32_t chunk) {
    return (struct ag_chunk_control *)(void *)(session->base + session->controls_offset) + chunk;
}

static inline const uint64_t *ag_session_chunk_words(const struct ag_session *session,
                                                     uint32_t chunk) {
    return (const uint64_t *)(const void *)(session->base + session->chunks_offset +
                                            (uint64_t)chunk * AG_CHUNK_BYTES);
}

static inline const uint8_t *ag_session_tree(const struct ag_session *session, uint32_t tree) {
    return session->base + session->trees_offset + (uint64_t)tree * session->tree_bytes;
}

/* Does the slot belong to the process that has the pid PID in NAMESPACE, its own PID namespace? An
 * unknown namespace (0) matches any. */
static inline bool ag_session_slot_is(const struct ag_process_slot *slot, uint32_t pid,
                                      uint64_t namespace) {
    return slot->pid == pid && pid != 0 &&
           (slot->pid_namespace == namespace || slot->pid_namespace == 0 || namespace == 0);
}

/* Is the process with the pid PID in NAMESPACE the first process, which `run` started or `attach`
 * records? */
static inline bool ag_session_is_first(const struct ag_session *session, uint32_t pid,
                                       uint64_t namespace) {
    return pid == session->first_own_pid && (namespace == session->first_namespace ||
                                             namespace == 0 || session->first_namespace == 0);
}

/* Zeroes a stack tree whose last process has ended, and frees its memory. */
void ag_session_clear_tree(struct ag_session *session, uint32_t tree);

/* Frees a chunk, so that a recorder (allogram's code in a recorded process) can take it. The caller
 * must not use the chunk any more. */
void ag_session_release_chunk(struct ag_session *session, uint32_t chunk);

/* Takes the session's writer lock: there is one writer per session, and the lock ends with the
 * writer's process. WAIT: waits until another writer has ended. Returns 0, -EWOULDBLOCK if another
 * writer has the lock, or another negative errno. */
int ag_session_lock(struct ag_session *session, bool wait);

/* Finds the live file of session ID below FOLDER. OWNER must own the live file and its live folder.
 * Returns false if there is no such file. */
bool ag_session_find_live(const char *folder, uint64_t id, uint32_t owner, char ret_path[4096]);
/* Removes the live folder of session ID below FOLDER if it is empty, because the writer was killed
 * between removing the file and removing the folder. */
void ag_session_remove_empty_folder(const char *folder, uint64_t id, uint32_t owner);
/* Opens the live file at PATH for a reader. Changes through this session have no effect on the file
 * or on other processes that have it mapped. */
int ag_session_open_private(const char *path, struct ag_session **ret_session,
                            char ret_message[512]);
/* Keeps writers away as long as this session is open, so that the data does not change while a
 * reader copies it. false: a writer is at work. */
bool ag_session_lock_out_writer(const struct ag_session *session);

/* Returns whether any process holds the lock of a family. A process holds such a lock if it has
 * joined the session and executed no other program since, or if it was forked from such a process.
 * true: also if that is unknown. */
bool ag_session_has_families(const struct ag_session *session);
/* Returns whether a process holds a lock of the process with the random number IDENTITY. WHICH: the
 * lock of this process alone, or the lock that it shares with the processes that were forked from
 * it, its family (segment.h, section 6). true: also if that is unknown. */
bool ag_session_is_locked(const struct ag_session *session, uint64_t identity,
                          enum ag_life_lock which);

#endif
