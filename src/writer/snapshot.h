/* snapshot.h: complete, sealed traces of a recording that goes on: when they are due, who may ask
 * for one, and the writer's part. */
#ifndef AG_SNAPSHOT_H
#define AG_SNAPSHOT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

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
struct ag_snapshot_requests {
    _Atomic uint32_t n_signals; /* received signals; each requests a dump of the first process */
    _Atomic uint32_t n_asked;   /* requested traces of the first process; path is written before */
    uint32_t n_begun;           /* used only by the writer */
    _Atomic uint32_t n_done;    /* set to n_asked when the trace is complete or has failed */
    uint64_t until_ns;          /* time up to which the last complete trace reaches */
    char path[4096];
};

/* ---- the writer's part ---- */

struct ag_writer;

struct ag_dump_state {                   /* of one recording */
    uint64_t reached[AG_DUMPS_MOST];     /* what each condition has reached */
    uint32_t number;                     /* of the last dump */
    uint32_t signals;                    /* counted signals that were answered */
    pid_t writer;                        /* the child that writes a dump; 0: none */
    bool is_for_request, is_for_control; /* a requester waits for it */
};

/* Starts the dumps that are due or requested, and handles those that have finished. Called once per
 * round of the loop. */
void ag_snapshots_keep(struct ag_writer *writer);
/* Called before the writer ends: waits a bounded time for dumps that are being written. */
void ag_snapshots_finish(struct ag_writer *writer);

#endif
