/* session.h: the live segment as the writer's side sees it: mapped, its geometry checked once
 * and kept in our memory.
 *
 * Whatever stands in the mapping may change under our eyes; whatever stands in struct ag_session
 * may not. So places are computed from the session, never from the header. */
#ifndef AG_SESSION_H
#define AG_SESSION_H

#include <stdbool.h>
#include <stdint.h>

#include "format/segment.h"
#include "trace_name.h"
#include "writer.h"

struct ag_session {
    int fd;
    uint8_t *base;
    uint64_t file_bytes;
    struct ag_segment_header *header; /* == base */
    uint64_t id;                      /* header.session */
    uint32_t n_slots, n_trees, n_chunks;
    uint64_t slots_offset, controls_offset, trees_offset, chunks_offset, tree_bytes;
    uint32_t mode, depth;
    bool has_locks;                /* processes say by locks that they live: segment.h, 6 */
    bool has_free_stacks;          /* frees carry stacks: then one pass is no faster (one_pass.c) */
    uint64_t interval_bytes, seed; /* mode SAMPLE: asked for */
    uint64_t least_interval_bytes, most_interval_bytes; /* so far */
    double budget_percent; /* of the processes' CPU, for allogram; 0: the interval stays */
    uint32_t clock_kind;
    uint64_t clock_origin, clock_origin_realtime_ns;
    uint64_t clock_origin_monotonic_ns; /* known to who made the session and its forks; 0: no refit
                                           of the clock */
    uint64_t max_trace_bytes;           /* 0: no bound */
    char trace_pattern[1024];           /* absolute, NUL-terminated */
    char path[4096];                    /* of the live file */
    char filter[AG_BLOCK_FILTER_TEXT_BYTES]; /* "": all is recorded */

    struct ag_dump_when dumps[AG_DUMPS_MOST];
    size_t n_dumps;
    bool follows_bytes;            /* a dump depends on them: the books must know now */
    struct ag_snapshot_desk *desk; /* shared with our forks; NULL: none */

    uint64_t begun_ticks;     /* no process of it is older (ag_process_boot_ticks); 0: unknown */
    uint64_t pid_namespace;   /* of who made the session: first_pid counts there; 0: unknown */
    bool is_attached;         /* the first process lives on when it has left the session */
    int stop_error;           /* negative errno that ended the recording of all its processes */
    uint32_t first_pid;       /* of the program that `run` starts or `attach` records, 0: unknown */
    uint32_t first_own_pid;   /* by which it knows itself ... */
    uint64_t first_namespace; /* ... there: a container's is another; 0: unknown */
    int first_trace_fd;       /* its trace, made before it was recorded; -1: none or used up */
    char first_trace_path[4096];

    uint64_t collected_since_raw; /* processes that began later are ours alone; 0: none are */
    struct ag_trace_numbers numbers;
};

static inline struct ag_process_slot *ag_session_slot(const struct ag_session *session,
                                                      uint32_t slot) {
    return (struct ag_process_slot *)(void *)(session->base + session->slots_offset +
                                              (uint64_t)slot * AG_SLOT_BYTES);
}

/* Slots [0, this) have been taken at least once; the others have no memory yet. */
static inline uint32_t ag_session_slots_used(const struct ag_session *session) {
    /* acquire: pairs with the release of who announces; a slot that is taken is below */
    const uint32_t used =
        atomic_load_explicit(&session->header->n_slots_used, memory_order_acquire);
    return used < session->n_slots ? used : session->n_slots;
}

/* Some chunks that no recorder has taken yet get their memory, twice as many as were taken and few:
 * a thread that takes one then needs no system call, which a sandbox might forbid. What cannot be
 * had now is tried again at the next call. */
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

/* Is the slot's the process that knows itself as PID in NAMESPACE? A namespace that could not be
 * learned (0) is taken for the other's. */
static inline bool ag_session_slot_is(const struct ag_process_slot *slot, uint32_t pid,
                                      uint64_t namespace) {
    return slot->pid == pid &&
           (slot->pid_namespace == namespace || slot->pid_namespace == 0 || namespace == 0);
}

/* Is the process that knows itself as PID in NAMESPACE the one that `run` started, or `attach`
 * records? */
static inline bool ag_session_is_first(const struct ag_session *session, uint32_t pid,
                                       uint64_t namespace) {
    return pid == session->first_own_pid && (namespace == session->first_namespace ||
                                             namespace == 0 || session->first_namespace == 0);
}

/* Zeroes a tree whose last process has ended and gives its memory back. */
void ag_session_clear_tree(struct ag_session *session, uint32_t tree);

/* Gives a chunk back: the last thing done with it. */
void ag_session_release_chunk(struct ag_session *session, uint32_t chunk);

/* One writer per session: the lock ends with the process that took it. wait: for another's end.
 * 0, -EWOULDBLOCK, ... */
int ag_session_lock(struct ag_session *session, bool wait);

/* The live file of session ID below FOLDER, as far as OWNER made both. false: there is none. */
bool ag_session_find_live(const char *folder, uint64_t id, uint32_t owner, char ret_path[4096]);

/* Does anybody hold this process' lock? Where the kernel cannot say: yes. */
bool ag_session_is_locked(const struct ag_session *session, uint64_t identity,
                          enum ag_life_lock which);

#endif
