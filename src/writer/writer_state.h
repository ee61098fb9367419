/* writer_state.h: the writer's state between two rounds. */
#ifndef AG_WRITER_STATE_H
#define AG_WRITER_STATE_H

#include "budget.h"
#include "process_watch.h"
#include "recording.h"
#include "session_clock.h"
#include "snapshot.h"
#include "strangers.h"
#include "writer.h"

enum ag_phase {
    AG_PHASE_NONE = 0, /* the slot has no known process */
    AG_PHASE_OPEN,     /* its process is being recorded */
    AG_PHASE_RETIRED,  /* its trace is sealed; the slot becomes free in ag_writer_retire */
};
struct ag_watched_slot {
    enum ag_phase phase;
    struct ag_recording *recording; /* in phase OPEN */
    struct ag_process_watch watch;  /* pid 0: its pid in the writer's namespace is unknown */
    uint32_t pid, tree;             /* as reported by the process */
    uint64_t pid_namespace;         /* in which pid counts */
    uint64_t identity, family;      /* 0: it holds no such lock (segment.h, 6) */
    uint64_t program;               /* identifies the file that it executes; 0: unknown */
    uint64_t next_search_ns;        /* for a process whose pid is unknown */
    bool is_first;                  /* the process that `run` started, or a later image of it */
    bool has_ended;                 /* the process has ended; its chunks will not change any more */
    bool has_unread;                /* the last round left chunks of it */
    uint64_t ended_ns;              /* CLOCK_MONOTONIC when its end was seen, or when it retired */
    uint64_t gap_ns; /* CLOCK_MONOTONIC since when a chunk is missing in a stream, 0: none is */
    uint64_t next_rss_ns;
    uint64_t cpu_ns; /* CPU time of the process at the last look */
    struct ag_dump_state dumps;
    /* used within a round: all streams have delivered the events before this time */
    uint64_t advance_ns;
};

struct ag_writer {
    struct ag_session *session;
    struct ag_session_clock clock;
    struct ag_watched_slot *slots; /* session->n_slots */
    struct ag_chunk_ready *ready;  /* used within a round: see controls_examine in chunk_round.c */
    size_t n_ready, n_active, capacity;
    uint64_t pulse; /* changes whenever any stream of the session has moved */
    uint64_t last_pulse, moved_ns;
    uint32_t n_open, n_retired;
    uint32_t n_slots_seen; /* slots [0, this) were used at least once */
    struct ag_budget budget;
    uint64_t n_traces;      /* sealed traces, including missing ones */
    uint64_t n_missing;     /* recordings without a file: none was created, or it was deleted */
    uint32_t missing_error; /* errno of the first of them; 0: it was deleted */
    bool is_frozen;         /* in a snapshot: only what ag_writer_freeze saw is taken */
    /* sealing for a killed writer: the clock does not tick, only dead processes count */
    bool is_offline;
    int epoll_fd;

    struct ag_strangers strangers;
    struct ag_process_watch first_watch; /* of the program that `run` started */
    bool first_has_ended, has_reported;
    bool knows_ends_before_first;   /* processes dead at that moment have been noted */
    uint64_t first_ended_ns;        /* CLOCK_MONOTONIC when it was seen */
    struct ag_writer_report report; /* about its last image */
};

/* Examines every chunk once and takes those that are complete. Returns the number of chunks taken,
 * or -ENOMEM. */
int64_t ag_writer_round(struct ag_writer *writer);

/* In a copy of the writer whose segment is mapped privately: examines every chunk and copies those
 * with data. Later rounds take only these, whatever happens to the segment. -ENOMEM. */
int ag_writer_freeze(struct ag_writer *writer);

/* Ends the windows of resting threads: separates the events before the last round from those after
 * now. A thread that does not rest may have some dozens of events on the wrong side. */
void ag_writer_end_windows(struct ag_writer *writer, uint32_t slot);

int ag_writer_start(struct ag_writer *writer, struct ag_session *session);
/* Starts a writer without a clock, which takes and seals everything that ended processes left in
 * the session. Returns the number of sealed processes, or negative errno. */
int64_t ag_writer_drain(struct ag_writer *writer, struct ag_session *session);
void ag_writer_done(struct ag_writer *writer);
/* Opens the traces of new processes in the first n_slots slots. */
void ag_writer_adopt(struct ag_writer *writer, uint32_t n_slots);
/* Seals ended and drained processes, a bounded number per call. Returns how many. */
uint32_t ag_writer_finish_ended(struct ag_writer *writer, uint64_t now_ns);
void ag_writer_retire(struct ag_writer *writer, uint64_t now_ns, uint64_t after_ns);
/* Does any slot hold a process that is not sealed? */
bool ag_writer_has_live(const struct ag_writer *writer);

#endif
