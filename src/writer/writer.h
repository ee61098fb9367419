/* writer.h: the writer: a process, separate from the program, that copies the events from the live
 * segment (the memory that the program shares with the writer) into trace files.
 *
 * The program can write to the segment, so its data is copied, then checked, then used. The writer
 * keeps no state that must survive it, except the trace files (which say which events of which
 * thread they contain). So if a writer dies, another writer can continue, or ag_writer_seal seals
 * (completes) the traces. */
#ifndef AG_WRITER_H
#define AG_WRITER_H

#include <stdint.h>

struct ag_session;

enum { AG_LARGEST_TRACES = 8 };
struct ag_trace_size { /* a complete trace; in a sampled one, the bytes are those of the samples */
    char program[16];
    uint32_t pid;
    uint64_t allocated_bytes;
};

/* What `run` prints in its closing lines. The members describe one trace, the main trace, unless
 * stated otherwise. The writer writes this struct to report_fd once, when the first process has
 * ended, and its traces and those of the processes that ended before it are sealed. The main trace
 * is that of the last program that the first process executed. But if that program only starts
 * other programs (a shell, make, sudo), the main trace is that of another program (choose_main in
 * writer.c). */
struct ag_writer_report {
    uint64_t trace_bytes, duration_ns;
    uint64_t allocated_blocks, allocated_bytes, peak_bytes, in_use_blocks, in_use_bytes,
        /* n_other_traces: number of existing traces besides the main trace */
        lost_events, n_other_traces;
    uint64_t rss_peak_bytes;             /* 0: not known */
    uint64_t lost_stacks;                /* blocks whose stack could not be kept */
    uint64_t freed_blocks, unseen_frees; /* unseen_frees: blocks whose free was not recorded */
    uint32_t is_cut;                     /* the recording stopped before the program ended */
    /* If is_cut: the errno that stopped the recording, such as that of a failed write, or 0 if the
     * trace reached --max-size. Otherwise: the errno why the trace could not be sealed, or 0 if it
     * is sealed. */
    uint32_t error;
    uint64_t interval_bytes; /* of a sampled trace: the interval at the end */
    uint32_t is_sampled;
    uint32_t is_filtered; /* the filter excluded some blocks */
    uint32_t is_reset;    /* reports begin at the last reset; the sums above cover everything */
    uint32_t registered;  /* the first process has begun to record */
    uint32_t n_refused;   /* processes that found no free slot (entry) in the segment */
    uint32_t is_closed;   /* the live segment's file was removed: no program could join any more */
    uint32_t is_over;     /* no process of the session is left: the writer ends now */
    uint32_t n_strangers; /* processes of the command that were not recorded (strangers.h) */
    char strangers[96];   /* names of the strangers: "sudo, ls" */
    char unseen[96];      /* runtimes of the process whose allocations could not be recorded */
    uint32_t is_missing;  /* the trace could not be created, or was deleted */
    /* why the trace could not be created (errno); 0: the trace was deleted */
    uint32_t missing_error;
    uint32_t n_without_trace; /* other processes whose trace is missing */
    uint32_t without_error;   /* missing_error of the first missing trace, of any process */
    uint32_t has_counts;      /* calls of the functions of a runtime were counted */
    /* the kernel killed the process for lack of memory, certainly or probably */
    uint32_t is_killed;
    /* How many processes of the session the kernel certainly killed, and the names of their
     * programs. */
    uint32_t n_killed;
    char killed[96];
    char program[16]; /* the start of the name of the trace's program */
    /* About the other traces: sums over those that are complete, how many of their processes still
     * run, and the names of the programs whose traces are not complete ("sh, erlexec"). */
    uint64_t others_blocks, others_bytes;
    /* how many of the other traces lack the allocations of a runtime, and the program of the first
     * one; unseen[] is that of the main trace */
    uint32_t n_others_unseen;
    char other_unseen[16];
    uint32_t n_others_running;
    char incomplete[96];
    /* of all complete traces, those with the most allocated bytes, the largest first */
    struct ag_trace_size largest[AG_LARGEST_TRACES];
    uint32_t n_largest;
    uint32_t n_complete;    /* complete traces that exist */
    char others_glob[1024]; /* for a shell: matches the names of all traces of the session */
    char path[4096];
};
/* Runs the writer until all processes of the session have ended and their traces are sealed. Needs
 * a process of its own. */
int ag_writer_run(struct ag_session *session, int report_fd);
/* Asks the writer to end. Called by a signal handler in the writer's process. After the first call,
 * the writer ends when the first process of the session has ended; after the second call, it ends
 * at once. */
void ag_writer_ask_to_end(void);
/* Seals the traces of a session whose writer was killed. PATH: one of its traces (whose header
 * names the session) or its live file. Only the user who owns the session's files may seal them,
 * because the program can write anything into the live file. Returns 1 when a trace was sealed, 0
 * when there was nothing to do, or negative errno. */
int ag_writer_seal(const char *path, char ret_message[512]);
/* For a reader, which changes no file: makes an unnamed copy of the unsealed trace at PATH, and
 * seals the copy as ag_writer_seal seals a trace. Returns 1 and the copy's descriptor in *ret_fd; 0
 * if the live file has nothing to add to the trace; or negative errno. */
int ag_writer_complete_copy(const char *path, int *ret_fd, char ret_message[512]);
/* Does what ag_writer_seal does, inside a program that keeps its own signal handlers. Does not
 * install the SIGBUS handler, so a live file that was truncated ends the program. Call it only for
 * a live file that the calling program has created. */
int ag_writer_seal_own(const char *path, char ret_message[512]);
/* LIVE is the live file of the calling program. Writes its events so far to a new, sealed trace;
 * the recording continues. The session must have no writer process. PATTERN names the new trace.
 * Returns 0, or negative errno with a message. */
int ag_writer_snapshot_own(const char *live, const char *pattern, char ret_path[4096],
                           char ret_message[512]);

#endif
