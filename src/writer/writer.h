/* writer.h: the process beside the program: drains the live segment into trace files.
 *
 * The segment is another party's memory: everything is copied, then checked, then used. The
 * writer's durable state is the trace files themselves (which chunk of which stream they hold),
 * so one that dies is replaced by another that goes on, and `ag_writer_seal` finishes what both
 * left. */
#ifndef AG_WRITER_H
#define AG_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/segment.h"

/* When a snapshot of each recording is put beside its trace (TRACE.dump1.allogram ...). */
enum ag_dump_kind {
    AG_DUMP_GC,     /* a writer ran, any of the program's */
    AG_DUMP_PEAK,   /* in use: a tenth and a MiB above the last one */
    AG_DUMP_BYTES,  /* every so many bytes allocated */
    AG_DUMP_TIME,   /* every so many ns */
    AG_DUMP_SIGNAL, /* `run` was sent one */
};
struct ag_dump_when {
    enum ag_dump_kind kind;
    uint64_t every; /* bytes or ns; the signal's number */
};
enum { AG_DUMPS_MOST = 8 };

/* Shared by `run`, its writer and its endpoint. Only one party asks for a trace at a time. */
struct ag_snapshot_desk {
    _Atomic uint32_t n_signals; /* that came, each asks for a dump of the first process */
    _Atomic uint32_t n_asked;   /* traces of the first process; path is written before */
    uint32_t n_begun;           /* the writer's */
    _Atomic uint32_t n_done;    /* n_asked again; there is a whole trace, or no file */
    uint64_t until_ns;          /* of the trace that is done: it holds what happened until then */
    char path[4096];
};

struct ag_session_options { /* what `run` sets up; size first, zero means default */
    size_t size;
    const char *output_pattern; /* made absolute; NULL: allogram.%e.%p.allogram here */
    const char *live_directory; /* NULL: /dev/shm where there is room, else the output's folder */
    const char *filter;         /* which blocks are recorded (base/block_filter.h); NULL: all */
    uint32_t depth;             /* 0: 256 */
    uint32_t stamp_every;       /* 0: 64 */
    uint64_t max_bytes;         /* of each trace, 0: none */
    enum ag_keeper keeper;      /* who makes it */
    bool no_children;
    bool is_attached;     /* the first process runs already, and ends its part by leaving */
    bool has_free_stacks; /* a free carries the stack of who freed */
    bool is_sampling;
    uint64_t interval_bytes; /* mean bytes between samples; 0: 512 KiB */
    uint64_t seed;
    bool has_seed; /* false: random */
    double
        budget_percent; /* of the processes' CPU, for allogram: the interval moves; 0: it stays */
    struct ag_dump_when dumps[AG_DUMPS_MOST];
    size_t n_dumps;
    bool has_desk; /* somebody asks for snapshots: ag_session_desk */
};

struct ag_session; /* a mapped segment, as its maker sees it */
/* Makes the live segment. 0 or negative errno with one line in ret_message (for the user, without
 * "allogram: "). */
int ag_session_create(const struct ag_session_options *options, struct ag_session **ret_session,
                      char ret_message[512]);
/* Of the live file: goes to the agent as ALLOGRAM_SESSION. */
const char *ag_session_path(const struct ag_session *session);
/* Is the live file still there by its name? If not, processes that have it mapped, and what they
 * fork, are recorded further; programs that are executed are not. */
bool ag_session_can_be_joined(const struct ag_session *session);
int ag_session_open(const char *path, struct ag_session **ret_session, char ret_message[512]);
struct ag_session *ag_session_close(struct ag_session *session); /* unmaps; the file stays */
void ag_session_remove(struct ag_session *session);              /* removes the file too */
/* The same by its ag_session_path, for who may not touch the session. */
void ag_session_remove_path(const char *path);

/* Creates the trace file of the first process before it runs, so that a bad folder is known at
 * once. */
int ag_session_first_trace(struct ag_session *session, uint32_t pid, const char *program,
                           char ret_path[4096], char ret_message[512]);
enum { AG_SESSION_EMPTY_TRACE_BYTES = 64 }; /* of one that has its header and nothing else */

/* The first process is gone in a way that it could not tell: it executed another program, or goes
 * on and is recorded no more, though nobody could make it leave. */
enum ag_gone { AG_GONE_BY_EXEC, AG_GONE_LEFT_ALONE };
void ag_session_first_is_gone(struct ag_session *session, enum ag_gone gone);
/* All is sealed: gives the memory of the live file back, though a process that has left has it
 * mapped still. */
void ag_session_free_memory(const struct ag_session *session);

/* Descriptors that a process that tidies up must leave open. Returns how many. */
enum { AG_SESSION_MAX_DESCRIPTORS = 2 };
size_t ag_session_descriptors(const struct ag_session *session,
                              int ret_fds[AG_SESSION_MAX_DESCRIPTORS]);
/* What the session's processes record from here on; they see it within some milliseconds. What is
 * over stays so. Returns what it was. */
enum ag_pause ag_session_pause(struct ag_session *session, enum ag_pause pause);
enum ag_pause ag_session_paused(const struct ag_session *session);
/* NULL: not wished for, or no memory. */
struct ag_snapshot_desk *ag_session_desk(const struct ag_session *session);
/* `run` saw its child end. */
void ag_session_child_ended(struct ag_session *session, uint32_t pid, int wait_status,
                            uint64_t max_rss_kib);

/* Of the first process, written to report_fd when its trace is sealed. */
struct ag_writer_report {
    uint64_t trace_bytes, duration_ns;
    uint64_t allocated_blocks, allocated_bytes, peak_bytes, in_use_blocks, in_use_bytes,
        lost_events, n_other_traces;     /* that are files */
    uint64_t lost_stacks;                /* blocks whose stack could not be kept */
    uint64_t freed_blocks, unseen_frees; /* of these blocks the free was not recorded */
    uint32_t is_cut, error;  /* errno of the write that stopped it; 0: the size asked for */
    uint64_t interval_bytes; /* of a sampled trace, at its end */
    uint32_t is_sampled;
    uint32_t is_filtered;     /* not all blocks were wanted */
    uint32_t is_reset;        /* reports begin at the last reset; the sums above are of all */
    uint32_t registered;      /* an agent was there */
    uint32_t n_refused;       /* processes that came when all slots were taken */
    uint32_t is_closed;       /* the live file was removed: no program could join from then on */
    uint32_t n_strangers;     /* processes of the command in which the agent did not start ... */
    char strangers[96];       /* ... by name: "sudo, ls" */
    char unseen[96];          /* runtimes of the process whose allocations could not be recorded */
    uint32_t is_missing;      /* the trace is no file (any more): nothing can be had of it */
    uint32_t missing_error;   /* errno of its making; 0: it was deleted */
    uint32_t n_without_trace; /* others of which that is true, */
    uint32_t without_error;   /* and what the first of them met, the first process among them */
    char path[4096];
};
/* Runs until every process of the session has ended and is sealed. For a process of its own. */
int ag_writer_run(struct ag_session *session, int report_fd);
/* For a handler of signals in that process: it ends as soon as the first process has ended, and
 * when it is asked again, now. */
void ag_writer_ask_to_end(void);
/* Offline: seals what a killed session left, for the trace at PATH (its header names the session)
 * or a live file. Only a session's owner seals it: its live file is in the hands of the program.
 * Returns 1 when something was sealed, 0 when there was nothing to do, negative errno. */
int ag_writer_seal(const char *path, char ret_message[512]);
/* The same inside a program that keeps its own handlers of signals: SIGBUS is left alone, so the
 * live file must be one that this program made a moment ago. */
int ag_writer_seal_own(const char *path, char ret_message[512]);
/* A sealed trace of what the program has recorded so far into the live file LIVE, which goes on and
 * has no other writer: in a new file, named by PATTERN. 0 or negative errno with a message. */
int ag_writer_snapshot_own(const char *live, const char *pattern, char ret_path[4096],
                           char ret_message[512]);

#endif
