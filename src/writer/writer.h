/* writer.h: the process beside the program: it drains the live segment into trace files.
 *
 * The segment is untrusted memory of another party: data is copied, then checked, then used. The
 * writer's durable state is the trace files themselves (which chunks of which stream they hold). So
 * when a writer dies, another one can take over, and `ag_writer_seal` finishes what remains. */
#ifndef AG_WRITER_H
#define AG_WRITER_H

#include <stdint.h>

struct ag_session;

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
