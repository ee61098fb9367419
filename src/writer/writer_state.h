/* writer_state.h: the writer's state, and the functions that its files share. In a round, the
 * writer examines all chunks of the live segment, the memory with the program's events, and takes
 * the complete ones. A recorder is the code that records inside a program. */
#ifndef AG_WRITER_STATE_H
#define AG_WRITER_STATE_H

#include "budget.h"
#include "memory_kill.h"
#include "process_watch.h"
#include "recording.h"
#include "session_clock.h"
#include "snapshot.h"
#include "strangers.h"
#include "writer.h"

enum ag_phase {        // writer.c, section 2
    AG_PHASE_NONE = 0, /* the slot has no known process */
    AG_PHASE_OPEN,     /* the slot's process is being recorded */
    AG_PHASE_RETIRED,  /* the process' trace is complete; ag_writer_retire frees the slot */
};
struct ag_watched_slot { /* a slot of the segment and its process */
    enum ag_phase phase;
    struct ag_recording *recording; /* NULL except in phase OPEN */
    struct ag_process_watch watch;  /* pid 0: the process' pid in the writer's namespace is
                                     * unknown */
    struct ag_process_ids ids;      /* the ids of the process when it was adopted
                                     * (ag_writer_adopt) */
    uint64_t process;               /* identity of the process; 0: the slot never had one */
    uint64_t start_raw;             /* as in the slot */
    bool has_exited;   /* the trace is complete, and the exit of the process was seen */
    uint32_t tree;     /* index of the process' stack tree */
    uint32_t n_joined; /* recorders that joined in programs that the process executed or started */
    /* more recorders were attributed to the process than it counted executions: the process
     * executes programs by system calls of its own (strangers.c, section 2) */
    bool executes_itself;
    /* numbers of the process' own lock and of the lock of its family (the process and those forked
     * from it); 0: the process holds no such lock (segment.h, section 6) */
    uint64_t identity, family;
    uint64_t program;        /* identifies the file that the process executes; 0: unknown */
    uint64_t next_search_ns; /* CLOCK_MONOTONIC of the next search for an unknown pid */
    bool is_first;           /* the process that `run` started, even after it called exec, or that
                              * `attach` records */
    bool lives_on;           /* the process lives, so this writer, which is offline, does not
                              * complete its trace */
    bool has_ended;          /* the process has ended; its chunks will not change any more */
    bool has_unread;         /* the last round left chunks of the process unread */
    /* CLOCK_MONOTONIC when the process' end was seen, or when the slot retired */
    uint64_t ended_ns;
    /* CLOCK_MONOTONIC when a missing chunk in the stream of a thread was first noticed; 0: none is
     * missing */
    uint64_t gap_ns;
    uint64_t next_rss_ns;   /* CLOCK_MONOTONIC of the next measurement of its resident memory */
    uint64_t next_title_ns; /* CLOCK_MONOTONIC of the next reading of its title */
    uint64_t cpu_ns;        /* CPU time of the process when its end was noted */
    struct ag_memory_watch memory;
    struct ag_dump_state dumps;
    /* the time to which the running sums of the process may advance in this round, since the
     * session (the recording) began */
    uint64_t advance_ns;
};

struct ag_writer {
    struct ag_session *session;
    struct ag_session_clock clock;
    struct ag_watched_slot *slots; /* array of session->n_slots */
    struct ag_chunk_ready *ready;  /* used within a round: see controls_examine in chunk_round.c */
    size_t n_ready, n_active, capacity;
    uint64_t pulse; /* a sum over all chunks in use, which changes when any thread has recorded an
                     * event */
    uint64_t last_pulse;        /* value of pulse at moved_ns */
    uint64_t moved_ns;          /* CLOCK_MONOTONIC when the pulse last changed */
    uint32_t n_open, n_retired; /* number of slots in phase OPEN; in phase RETIRED */
    uint32_t n_slots_seen;      /* slots [0, n_slots_seen) had a process at least once */
    struct ag_budget budget;
    uint64_t n_traces;  /* sealed (completed) traces, including missing ones */
    uint64_t n_missing; /* recordings without a file: none was created, or it was deleted */
    uint32_t n_killed;  /* processes that the kernel certainly killed for lack of memory */
    char killed[AG_STRANGERS_NAMES_BYTES]; /* names of their programs */
    uint32_t missing_error; /* errno of the first missing trace; 0: the trace was deleted */
    bool is_frozen;         /* in a snapshot: only the chunks of ag_writer_freeze are taken */
    bool is_offline;        /* in ag_writer_drain: there is no clock, and only the processes that
                             * have ended are handled */
    int epoll_fd;

    struct ag_strangers strangers;
    struct ag_memory_kills kills;
    struct ag_process_watch first_watch; /* the watch of the first process */
    bool first_has_ended, has_reported;
    bool knows_ends_before_first;   /* note_ends_before_first (writer.c) was called */
    uint64_t first_ended_ns;        /* CLOCK_MONOTONIC when the end of the first process was seen */
    struct ag_writer_report report; /* the report on the last program that the first process
                                     * executed */
    /* about the other trace that may become the main trace; path "": there is none */
    struct ag_writer_report other;
};

/* Performs a round. Returns the number of chunks taken, or -ENOMEM. */
int64_t ag_writer_round(struct ag_writer *writer);

/* For a copy of the writer whose segment is mapped privately: examines all chunks and copies those
 * with events. Later rounds take only these chunks, whatever happens to the segment. 0 or
 * -ENOMEM. */
int ag_writer_freeze(struct ag_writer *writer);

/* Ends the windows (a window is the time between two stamps, which are clock values; recording.c,
 * section 3) of the process' threads now, so that the stamps separate the events before a snapshot
 * from later events. If a thread records events meanwhile, some dozens of its events may be on the
 * wrong side of the snapshot. */
void ag_writer_end_windows(struct ag_writer *writer, uint32_t slot);

int ag_writer_start(struct ag_writer *writer, struct ag_session *session);
/* Starts a writer without a clock, which takes all events of the session's ended processes, and
 * seals their traces. Returns the number of sealed traces, or negative errno. */
int64_t ag_writer_drain(struct ag_writer *writer, struct ag_session *session);
void ag_writer_done(struct ag_writer *writer);
/* Adopts the new processes: opens their traces and watches them. */
void ag_writer_adopt(struct ag_writer *writer);
/* Seals the traces of ended processes without unread chunks, a bounded number per call. Returns the
 * number of sealed traces. */
uint32_t ag_writer_finish_ended(struct ag_writer *writer, uint64_t now_ns);
/* Frees the slots that have been retired for AFTER_NS or longer. */
void ag_writer_retire(struct ag_writer *writer, uint64_t now_ns, uint64_t after_ns);
/* Does any slot have a process whose trace is not sealed? */
bool ag_writer_has_live(const struct ag_writer *writer);

#endif
