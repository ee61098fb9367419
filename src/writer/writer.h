/* writer.h: the process beside the program: it drains the live segment into trace files.
 *
 * The segment is untrusted memory of another party: data is copied, then checked, then used. The
 * writer's durable state is the trace files themselves (which chunks of which stream they hold). So
 * when a writer dies, another one can take over, and `ag_writer_seal` finishes what remains. */
#ifndef AG_WRITER_H
#define AG_WRITER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/segment.h"

/* When to write a snapshot of each recording beside its trace (TRACE.dump1.allogram ...). */
enum ag_dump_kind {
    AG_DUMP_GC,     /* after a garbage collection of the program, by any of its collectors */
    AG_DUMP_PEAK,   /* bytes in use exceed the last peak by a tenth and a MiB */
    AG_DUMP_BYTES,  /* after so many allocated bytes */
    AG_DUMP_TIME,   /* after so many ns */
    AG_DUMP_SIGNAL, /* when `run` receives this signal */
};
struct ag_dump_when {
    enum ag_dump_kind kind;
    uint64_t every; /* bytes or ns; or the signal's number */
};
enum { AG_DUMPS_MOST = 8 };

/* Shared by `run`, its writer and its endpoint. Only one party requests a trace at a time. */
struct ag_snapshot_desk {
    _Atomic uint32_t n_signals; /* received signals; each requests a dump of the first process */
    _Atomic uint32_t n_asked;   /* requested traces of the first process; path is written before */
    uint32_t n_begun;           /* used only by the writer */
    _Atomic uint32_t n_done;    /* set to n_asked when the trace is complete or has failed */
    uint64_t until_ns;          /* time up to which the last complete trace reaches */
    char path[4096];
};

struct ag_session_options { /* set by `run`; size first, zero means default */
    size_t size;
    /* made absolute; NULL: allogram.%e.%p.allogram in the current folder */
    const char *output_pattern;
    const char *live_directory; /* NULL: /dev/shm when it has room, else the output's folder */
    const char *filter;         /* which blocks are recorded (base/block_filter.h); NULL: all */
    uint32_t depth;             /* 0: 256 */
    uint32_t stamp_every;       /* 0: 64 */
    uint64_t max_bytes;         /* of each trace, 0: no limit */
    enum ag_keeper keeper;      /* the kind of process that makes the session */
    bool no_children;
    bool is_attached;     /* the first process runs already, and ends its part by leaving */
    bool has_free_stacks; /* a free carries the stack of its caller */
    bool is_sampling;
    uint64_t interval_bytes; /* mean bytes between samples; 0: 512 KiB */
    uint64_t seed;
    bool has_seed; /* false: random */
    double
        budget_percent; /* of the processes' CPU time; the interval adapts to it; 0: it is fixed */
    struct ag_dump_when dumps[AG_DUMPS_MOST];
    size_t n_dumps;
    bool has_desk; /* snapshots may be requested: ag_session_desk */
};

struct ag_session; /* a mapped segment, as seen by its maker */
/* Creates the live segment. 0, or negative errno with one line in ret_message (for the user,
 * without "allogram: "). */
int ag_session_create(const struct ag_session_options *options, struct ag_session **ret_session,
                      char ret_message[512]);
/* Does a writer drain the session and seal its traces? */
bool ag_session_has_writer(const struct ag_session *session);
/* Path of the live file: passed to the agent as ALLOGRAM_SESSION. */
const char *ag_session_path(const struct ag_session *session);
/* Does the live file still have its name? If not, processes that have it mapped, and their forked
 * children, are still recorded; programs that they execute are not. */
bool ag_session_can_be_joined(const struct ag_session *session);
int ag_session_open(const char *path, struct ag_session **ret_session, char ret_message[512]);
struct ag_session *ag_session_close(struct ag_session *session); /* unmaps; the file stays */
void ag_session_remove(struct ag_session *session);              /* removes the file too */
/* The same by the ag_session_path, for a process that must not touch the session. */
void ag_session_remove_path(const char *path);

/* Creates the trace file of the first process before it runs, so that an unusable folder is
 * reported at once. */
int ag_session_first_trace(struct ag_session *session, uint32_t pid, const char *program,
                           char ret_path[4096], char ret_message[512]);
enum { AG_SESSION_EMPTY_TRACE_BYTES = 64 }; /* of a trace that holds only its header */
/* Removes the trace at PATH if it is one. */
void ag_session_remove_empty_trace(const char *path);

/* The first process is gone in a way that it could not report: it executed another program, or it
 * continues unrecorded because it could not be made to leave. */
enum ag_gone { AG_GONE_BY_EXEC, AG_GONE_LEFT_ALONE };
void ag_session_first_is_gone(struct ag_session *session, enum ag_gone gone);
/* Called when all is sealed: frees the memory of the live file, even if a process that has left
 * still has it mapped. */
void ag_session_free_memory(const struct ag_session *session);

/* Descriptors that a process that closes descriptors must leave open. Returns how many. */
enum { AG_SESSION_MAX_DESCRIPTORS = 2 };
size_t ag_session_descriptors(const struct ag_session *session,
                              int ret_fds[AG_SESSION_MAX_DESCRIPTORS]);
/* Sets what the session's processes record from now on; they see it within some milliseconds.
 * AG_PAUSE_OVER cannot be undone. Returns the previous state. */
enum ag_pause ag_session_pause(struct ag_session *session, enum ag_pause pause);
enum ag_pause ag_session_paused(const struct ag_session *session);
/* NULL: not requested (has_desk), or no memory. */
struct ag_snapshot_desk *ag_session_desk(const struct ag_session *session);
/* Called by `run` when its child has ended. */
void ag_session_child_ended(struct ag_session *session, uint32_t pid, int wait_status,
                            uint64_t max_rss_kib);

/* About the first process; written to report_fd when its trace is sealed. */
struct ag_writer_report {
    uint64_t trace_bytes, duration_ns;
    uint64_t allocated_blocks, allocated_bytes, peak_bytes, in_use_blocks, in_use_bytes,
        lost_events, n_other_traces;     /* n_other_traces: those that are files */
    uint64_t lost_stacks;                /* blocks whose stack could not be kept */
    uint64_t freed_blocks, unseen_frees; /* unseen_frees: blocks whose free was not recorded */
    uint32_t is_cut, error;  /* errno of the write that stopped it; 0: the requested size */
    uint64_t interval_bytes; /* of a sampled trace, at its end */
    uint32_t is_sampled;
    uint32_t is_filtered; /* the filter excluded some blocks */
    uint32_t is_reset;    /* reports begin at the last reset; the sums above cover everything */
    uint32_t registered;  /* an agent registered */
    uint32_t n_refused;   /* processes that found no free slot */
    uint32_t is_closed;   /* the live file was removed: no program could join from then on */
    /* processes of the command in which the agent did not start, and ... */
    uint32_t n_strangers;
    char strangers[96];       /* ... their names: "sudo, ls" */
    char unseen[96];          /* runtimes of the process whose allocations could not be recorded */
    uint32_t is_missing;      /* the trace is no file (any more) */
    uint32_t missing_error;   /* errno of creating it; 0: it was deleted */
    uint32_t n_without_trace; /* other processes whose trace is missing */
    uint32_t without_error;   /* error of the first missing trace, the first process included */
    char path[4096];
};
/* Runs until every process of the session has ended and is sealed. Needs a process of its own. */
int ag_writer_run(struct ag_session *session, int report_fd);
/* For a signal handler in that process. First call: the writer ends as soon as the first process
 * has ended. Second call: it ends now. */
void ag_writer_ask_to_end(void);
/* Offline: seals what a killed writer left, for the trace at PATH (its header names the session) or
 * a live file. Only a session's owner seals it, because the program can write to the live file.
 * Returns 1 when something was sealed, 0 when there was nothing to do, negative errno. */
int ag_writer_seal(const char *path, char ret_message[512]);
/* For a reader of the trace at PATH, which changes no file: makes an unnamed copy of an unsealed
 * trace, completed and sealed in the same way. Returns 1 and the copy's descriptor in *ret_fd, 0
 * when the trace is all that there is, negative errno. */
int ag_writer_complete_copy(const char *path, int *ret_fd, char ret_message[512]);
/* The same as ag_writer_seal inside a program that keeps its own signal handlers: SIGBUS is not
 * handled, so the live file must be one that this program made a moment ago. */
int ag_writer_seal_own(const char *path, char ret_message[512]);
/* Writes a sealed trace of what the program has recorded so far into the live file LIVE, while the
 * recording continues without a writer. The trace is a new file, named by PATTERN. 0, or negative
 * errno with a message. */
int ag_writer_snapshot_own(const char *live, const char *pattern, char ret_path[4096],
                           char ret_message[512]);

#endif
