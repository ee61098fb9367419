/* writer_state.h: what the writer knows between two rounds. */
#ifndef AG_WRITER_STATE_H
#define AG_WRITER_STATE_H

#include <sys/types.h>

#include "budget.h"
#include "process_watch.h"
#include "recording.h"
#include "session_clock.h"
#include "strangers.h"

enum ag_phase {
    AG_PHASE_NONE = 0, /* nobody is in this slot, as far as we know */
    AG_PHASE_OPEN,     /* its process is being recorded */
    AG_PHASE_RETIRED,  /* its trace is sealed; the slot is not free yet, see retire_slots */
};
struct ag_dump_state {                /* snapshot.c */
    uint64_t told[AG_DUMPS_MOST];     /* what each condition has come to */
    uint32_t number;                  /* of the last one */
    uint32_t signals;                 /* of the desk, answered */
    pid_t writer;                     /* 0: none is being written */
    bool is_for_desk, is_for_control; /* somebody waits for it */
};
struct ag_watched_slot {
    enum ag_phase phase;
    struct ag_recording *recording; /* of an OPEN slot */
    struct ag_process_watch watch;  /* pid 0: which of our numbers it has is not known */
    uint32_t pid, tree;             /* as the process says */
    uint64_t pid_namespace;         /* in which pid counts */
    uint64_t identity, family;      /* 0: it has no such lock (segment.h, 6) */
    uint64_t program;               /* which file it executes; 0: unknown */
    uint64_t next_search_ns;        /* of a process whose number is not known */
    bool is_first;                  /* what `run` started, or an image after it */
    bool has_ended;                 /* the process; its chunks will not change any more */
    bool has_unread;                /* the last round left chunks of it */
    uint64_t ended_ns;              /* CLOCK_MONOTONIC when we saw it, or when it retired */
    uint64_t gap_ns; /* CLOCK_MONOTONIC since when a chunk is missing in a stream, 0: none is */
    uint64_t next_rss_ns;
    uint64_t cpu_ns; /* of the process, when last looked at */
    struct ag_dump_state dumps;
    uint64_t advance_ns; /* scratch of a round: all streams have delivered what happened before */
};

struct ag_writer {
    struct ag_session *session;
    struct ag_session_clock clock;
    struct ag_watched_slot *slots; /* session->n_slots */
    struct ag_chunk_ready
        *ready; /* scratch of a round: chunks that will not change, then those that may */
    size_t n_ready, n_active, capacity;
    uint64_t pulse; /* changes whenever any stream of the session has moved */
    uint64_t last_pulse, moved_ns;
    uint32_t n_open, n_retired;
    uint32_t n_slots_seen; /* [0, this) were taken at least once */
    struct ag_budget budget;
    uint64_t n_traces;      /* sealed, those that are missing too */
    uint64_t n_missing;     /* recordings that are no file: none was made, or it was deleted */
    uint32_t missing_error; /* errno that the first of them met; 0: it was deleted */
    bool is_frozen;         /* a snapshot: of what ag_writer_freeze saw, and no more */
    bool is_offline; /* sealing what others left: nobody's clock ticks, only dead processes count */
    int epoll_fd;

    struct ag_strangers strangers;
    struct ag_process_watch first_watch; /* of the program that `run` started */
    bool first_has_ended, has_reported;
    bool knows_ends_before_first;   /* who was dead then has been noted */
    uint64_t first_ended_ns;        /* CLOCK_MONOTONIC when we saw it */
    struct ag_writer_report report; /* of its last image */
};

/* Looks at every chunk once, takes what is complete. Returns the number of chunks taken, or
 * -ENOMEM. */
int64_t ag_writer_round(struct ag_writer *writer);

/* In a copy of the writer, whose segment is mapped privately: looks at every chunk, and copies
 * what there is. Later rounds are about that and nothing else, whatever happens to the segment.
 * -ENOMEM. */
int ag_writer_freeze(struct ag_writer *writer);

/* A line between what its threads did before the last round and what they do from now on, as far as
 * they rest: some dozens of events of one that does not stand on both sides. */
void ag_writer_end_windows(struct ag_writer *writer, uint32_t slot);

int ag_writer_start(struct ag_writer *writer, struct ag_session *session);
void ag_writer_done(struct ag_writer *writer);
/* Opens the traces of new processes in the first n_slots slots. */
void ag_writer_adopt(struct ag_writer *writer, uint32_t n_slots);
/* Seals what has ended and is drained, some of it if it is much. Returns how many. */
uint32_t ag_writer_finish_ended(struct ag_writer *writer, uint64_t now_ns);
void ag_writer_retire(struct ag_writer *writer, uint64_t now_ns, uint64_t after_ns);
/* Does any slot hold a process that is not sealed? */
bool ag_writer_has_live(const struct ag_writer *writer);

#endif
