/* session.h: the live segment as the writer sees it: mapped, with its geometry checked once and
 * copied.
 *
 * Data in the mapping may change at any time; fields of struct ag_session do not. So addresses are
 * computed from the session, never from the header. */
#ifndef AG_SESSION_H
#define AG_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "format/segment.h"
#include "live_session.h"
#include "trace_file.h"

struct ag_session {
    int fd;
    bool is_private; /* mapped privately, from a descriptor that cannot write */
    uint8_t *base;
    uint64_t file_bytes;
    struct ag_segment_header *header; /* == base */
    uint64_t id;                      /* header.session */
    uint32_t n_slots, n_trees, n_chunks;
    uint64_t slots_offset, controls_offset, trees_offset, chunks_offset, tree_bytes;
    uint32_t mode, depth;
    bool has_locks; /* processes hold locks while they live: segment.h, 6 */
    /* frees carry stacks: then one_pass.c is not used, because it would be no faster */
    bool has_free_stacks;
    uint64_t interval_bytes, seed;                      /* mode SAMPLE: as requested */
    uint64_t least_interval_bytes, most_interval_bytes; /* range used so far */
    double budget_percent; /* of the processes' CPU time, for allogram; 0: the interval is fixed */
    uint32_t clock_kind;
    uint64_t clock_origin, clock_origin_realtime_ns;
    /* known to the process that made the session and its forks; 0: the clock factor is not refitted
     */
    uint64_t clock_origin_monotonic_ns;
    uint64_t max_trace_bytes;                /* 0: no limit */
    char trace_pattern[1024];                /* absolute, NUL-terminated */
    char path[4096];                         /* of the live file */
    char filter[AG_BLOCK_FILTER_TEXT_BYTES]; /* "": all blocks are recorded */

    struct ag_dump_when dumps[AG_DUMPS_MOST];
    size_t n_dumps;
    /* a dump depends on the byte counts: the totals must be current */
    bool follows_bytes;
    struct ag_snapshot_requests *requests; /* shared with forked children; NULL: none */

    /* start time of the oldest possible process of it (ag_process_boot_ticks); 0: unknown */
    uint64_t begun_ticks;
    /* of the process that made the session: first_pid counts there; 0: unknown */
    uint64_t pid_namespace;
    bool is_attached;         /* the first process continues after it has left the session */
    int stop_error;           /* negative errno that ended the recording of all processes */
    uint32_t first_pid;       /* of the program that `run` starts or `attach` records, 0: unknown */
    uint32_t first_own_pid;   /* first_pid in the namespace of the process ... */
    uint64_t first_namespace; /* ... which differs in a container; 0: unknown */
    /* its trace, created before it was recorded; of a private session: the copy of the trace that a
     * reader completes. -1: none, or used */
    int first_trace_fd;
    char first_trace_path[4096];

    /* clock when this writer took the lock: no other writer has created files for processes that
     * began later; 0: unknown */
    uint64_t locked_since_raw;
    struct ag_trace_numbers numbers;
};

static inline struct ag_process_slot *ag_session_slot(const struct ag_session *session,
                                                      uint32_t slot) {
    return (struct ag_process_slot *)(void *)(session->base + session->slots_offset +
                                              (uint64_t)slot * AG_SLOT_BYTES);
}

/* Slots [0, this) have been used at least once; the others have no memory yet. */
static inline uint32_t ag_session_slots_used(const struct ag_session *session) {
    /* acquire: pairs with the release of the process that announces a slot; a taken slot is below
     * this */
    const uint32_t used =
        atomic_load_explicit(&session->header->n_slots_used, memory_order_acquire);
    return used < session->n_slots ? used : session->n_slots;
}

/* Populates some chunks that no recorder has taken yet: twice as many as were taken, within a
 * limit. A thread that takes one then needs no system call, which a sandbox might forbid. Failures
 * are retried at the next call. */
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

/* Does the slot belong to the process that knows itself as PID in NAMESPACE? An unknown namespace
 * (0) matches any. */
static inline bool ag_session_slot_is(const struct ag_process_slot *slot, uint32_t pid,
                                      uint64_t namespace) {
    return slot->pid == pid &&
           (slot->pid_namespace == namespace || slot->pid_namespace == 0 || namespace == 0);
}

/* Is the process that knows itself as PID in NAMESPACE the one that `run` started or `attach`
 * records? */
static inline bool ag_session_is_first(const struct ag_session *session, uint32_t pid,
                                       uint64_t namespace) {
    return pid == session->first_own_pid && (namespace == session->first_namespace ||
                                             namespace == 0 || session->first_namespace == 0);
}

/* Zeroes a tree whose last process has ended and frees its memory. */
void ag_session_clear_tree(struct ag_session *session, uint32_t tree);

/* Returns a chunk to the recorders: the last operation on it. */
void ag_session_release_chunk(struct ag_session *session, uint32_t chunk);

/* Takes the session's writer lock: there is one writer per session, and the lock ends with its
 * process. wait: until another writer has ended. 0, -EWOULDBLOCK, ... */
int ag_session_lock(struct ag_session *session, bool wait);

/* Finds the live file of session ID below FOLDER, if OWNER owns both. false: there is none. */
bool ag_session_find_live(const char *folder, uint64_t id, uint32_t owner, char ret_path[4096]);
/* Removes the live folder of session ID below FOLDER if it is empty: its writer was killed after
 * removing the file and before removing the folder. */
void ag_session_remove_empty_folder(const char *folder, uint64_t id, uint32_t owner);
/* Opens the live file at PATH for a reader: nothing that is done with this session has an effect on
 * the file or on anyone else who has it mapped. */
int ag_session_open_private(const char *path, struct ag_session **ret_session,
                            char ret_message[512]);
/* Keeps a writer away as long as this session is open, so that the data does not change while a
 * reader copies it. false: a writer is at work. */
bool ag_session_lock_out_writer(const struct ag_session *session);

/* Does any process hold this identity's lock? true where the kernel cannot say. */
bool ag_session_is_locked(const struct ag_session *session, uint64_t identity,
                          enum ag_life_lock which);

#endif
