/* snapshot.h: makes snapshots: sealed (complete) traces of a recording so far, while the recording
 * continues. A snapshot that `run --dump-at` or `allogram control` requests is called a dump. */
#ifndef AG_SNAPSHOT_H
#define AG_SNAPSHOT_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* When to write a dump of a process, in the folder of its trace (TRACE.dump1.allogram ...). Each
 * recorded process is dumped by its own condition; a signal dumps only the first process. */
enum ag_dump_kind {
    AG_DUMP_GC,     /* after a garbage collection of the program, by any of its collectors */
    AG_DUMP_PEAK,   /* bytes in use reach 1.1 times those of the last such dump, plus 1 MiB */
    AG_DUMP_BYTES,  /* each time the program has allocated `every` bytes */
    AG_DUMP_TIME,   /* each time `every` ns have passed */
    AG_DUMP_SIGNAL, /* when `run` receives this signal */
    /* when the memory of the process' cgroup, without the page cache of files, reaches `every`
     * percent of its limit */
    AG_DUMP_MEMORY,
    /* when, in `every` percent of the last ten seconds, some process of the cgroup (or, if that is
     * not known, of the machine) waited for memory */
    AG_DUMP_PRESSURE,
};
struct ag_dump_when {
    enum ag_dump_kind kind;
    uint64_t every; /* bytes or ns; the signal's number; or percent */
};
enum {
    AG_DUMPS_MOST = 8,      /* conditions of one recording */
    AG_DUMP_NUMBERS = 1000, /* the largest number of a dump, so the most dumps of one process */
};

/* A page that the command, its writer (the process that makes the traces), its endpoint (the server
 * of `run --serve`) and its screen (--live) share, for requests to the writer. Only one process
 * requests a trace at a time: the process whose pid is in `asker`. */
struct ag_snapshot_requests {
    _Atomic int32_t asker;      /* pid of the process that requests a trace; 0: none */
    _Atomic uint32_t n_signals; /* received signals; each requests a dump of the first process */
    _Atomic uint32_t n_asked;   /* requested traces of the first process; `path` is set first */
    /* n_asked of the last request that the writer began; for the writer only */
    uint32_t n_begun;
    _Atomic uint32_t n_done; /* set to n_begun when the trace is complete or has failed */
    uint64_t until_ns;       /* moment of the last trace, in ns since the process started */
    uint64_t cost_ns;        /* CPU time that the last trace took; 0: unknown */
    char path[4096];         /* path of the requested trace */
};

/* Requests that the writer writes a trace of the first process to PATH, which must not exist, and
 * waits until the trace is complete, at most PATIENCE_MS, or until *is_over is true (NULL: it never
 * is). Returns whether the trace was written. Then *ret_until_ns (may be NULL) is the moment of the
 * trace, in ns since the process started. */
bool ag_snapshot_take(struct ag_snapshot_requests *requests, const char *path, unsigned patience_ms,
                      const volatile sig_atomic_t *is_over, uint64_t *ret_until_ns);

/* ---- in the process that writes the requested traces: the writer, or `observe` ---- */

/* Whether a trace is requested that was not begun yet. */
bool ag_snapshot_is_requested(const struct ag_snapshot_requests *requests);
/* Begins the requested trace. UNTIL_NS: the moment that it describes, in ns since the process
 * started. ret_path: a copy of its path, because the next request may overwrite the original if
 * this asker is killed. */
void ag_snapshot_request_begin(struct ag_snapshot_requests *requests, uint64_t until_ns,
                               char ret_path[4096]);
/* The trace is complete, or could not be written. COST_NS: CPU time that it took; 0: unknown. */
void ag_snapshot_request_end(struct ag_snapshot_requests *requests, uint64_t cost_ns);

/* ---- the writer's part ---- */

struct ag_writer;

struct ag_dump_state {               /* the dumps of one recording */
    uint64_t reached[AG_DUMPS_MOST]; /* per condition: the count or size at its last dump; for
                                      * AG_DUMP_MEMORY and AG_DUMP_PRESSURE, whether it was met
                                      * at the last look */
    double pressure_percent;         /* see ag_cgroup_pressure_percent; as of the last reading */
    uint64_t next_pressure_ns;       /* CLOCK_MONOTONIC of the next reading of the pressure */
    uint32_t number;                 /* number of the last dump */
    uint32_t signals;                /* value of n_signals up to which signals were handled */
    pid_t writer;                    /* the child that writes a snapshot; 0: none */
    char *part;                      /* the file that the child writes, until it is complete */
    bool is_for_request; /* the child writes the trace that ag_snapshot_requests has requested */
    /* the child writes a dump that was requested through the live segment, the memory that the
     * recorded processes share with the writer */
    bool is_for_control;
};

/* Starts the snapshots that are due or requested, and notes those that are complete. Called in each
 * iteration of the writer's loop. */
void ag_snapshots_keep(struct ag_writer *writer);
/* Waits for snapshots that are being written, and kills the processes that write them if they make
 * no progress. Called before the writer ends. */
void ag_snapshots_finish(struct ag_writer *writer);

#endif
