/* live_session.h: the interface of a session (one recording of a program and its children) for the
 * process that creates it (`run`, `attach`, or a program that records itself). Its functions
 * create, open and remove the live segment (the memory that the recorded processes share with the
 * writer), create the first trace, and set what the session's processes record. The writer
 * (writer.h) copies the events from the segment into traces. */
#ifndef AG_LIVE_SESSION_H
#define AG_LIVE_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/segment.h"
#include "snapshot.h"

/* `size` is the size of the struct; a member that is zero has its default */
struct ag_session_options {
    size_t size;
    /* pattern of the paths of the traces; a relative pattern is made absolute; NULL:
     * allogram.%e.%p.allogram in the current folder */
    const char *output_pattern;
    const char *live_directory; /* NULL: /dev/shm if it has room and the file can be made there,
                                 * otherwise the output's folder */
    const char *filter;         /* which blocks are recorded (base/block_filter.h); NULL: all */
    uint32_t depth;             /* maximum number of frames of a stack; 0: 256 */
    /* maximum number of events of a thread between two time stamps; 0: 64, or 1 if is_sampling */
    uint32_t stamp_every;
    uint64_t max_bytes;    /* size limit of each trace; 0: no limit */
    enum ag_keeper keeper; /* the kind of process that makes the session */
    bool no_children;      /* only the first process is recorded */
    /* the first process runs already, and leaves the session when its recording ends */
    bool is_attached;
    bool has_free_stacks; /* a free carries the stack of its caller */
    bool is_sampling;
    uint64_t interval_bytes; /* mean bytes between samples; 0: 512 KiB */
    uint64_t seed;
    bool has_seed; /* false: random */
    /* limit of the cost of sampling, in percent of the processes' CPU time. The interval is
     * adjusted to keep this limit. 0: the interval is fixed */
    double budget_percent;
    struct ag_dump_when dumps[AG_DUMPS_MOST]; /* when snapshots are written (snapshot.h) */
    size_t n_dumps;
    bool has_requests; /* ag_session_requests returns memory in which snapshots can be requested */
};

struct ag_session; /* a mapped live segment */
/* Creates the live segment. 0, or negative errno with one line in ret_message (for the user,
 * without "allogram: "). */
int ag_session_create(const struct ag_session_options *options, struct ag_session **ret_session,
                      char ret_message[512]);
/* Whether a writer process or thread serves the session: copies its events into traces, and seals
 * (completes) the traces. */
bool ag_session_has_writer(const struct ag_session *session);
/* Path of the live file (the segment is a mapping of it), which `run` passes to the programs in the
 * variable ALLOGRAM_SESSION. */
const char *ag_session_path(const struct ag_session *session);
/* Whether the live file still has its name. If it was deleted, the processes that have it mapped
 * and their forked children are still recorded, but not the programs that they execute. */
bool ag_session_can_be_joined(const struct ag_session *session);
/* Maps the live file at PATH, which another process created. Returns 0, or a negative errno with a
 * message as ag_session_create does. */
int ag_session_open(const char *path, struct ag_session **ret_session, char ret_message[512]);
struct ag_session *ag_session_close(struct ag_session *session); /* unmaps; the file stays */
/* removes the live file; the segment stays mapped */
void ag_session_remove(struct ag_session *session);
/* Removes the live file at PATH, for a process that did not open the session. */
void ag_session_remove_path(const char *path);

/* Creates the trace file of the first process before the process is recorded, so that an unusable
 * folder is reported at once. */
int ag_session_first_trace(struct ag_session *session, uint32_t pid, const char *program,
                           char ret_path[4096], char ret_message[512]);
enum { AG_SESSION_EMPTY_TRACE_BYTES = 64 }; /* size of a trace that holds only its header */
/* Removes the trace at PATH if it holds only its header. */
void ag_session_remove_empty_trace(const char *path);

/* Notes that the first process is not recorded any more. Called if that process could not note this
 * itself: it has executed another program (AG_GONE_BY_EXEC), or it continues to run but could not
 * be made to leave the session (AG_GONE_LEFT_ALONE). */
enum ag_gone { AG_GONE_BY_EXEC, AG_GONE_LEFT_ALONE };
void ag_session_first_is_gone(struct ag_session *session, enum ag_gone gone);
/* Notes that the program or another one has changed the code of a hooked function of the first
 * process, so calls may be missing from now on. The first call counts. */
void ag_session_code_changed(struct ag_session *session);
/* Frees the memory of the live file, even if a process that has left the session still has it
 * mapped. Called when all traces are sealed (complete). */
void ag_session_free_memory(const struct ag_session *session);

/* Stores the descriptors that belong to the session, and returns their number. A process that
 * closes all descriptors must leave these open. */
enum { AG_SESSION_MAX_DESCRIPTORS = 2 };
size_t ag_session_descriptors(const struct ag_session *session,
                              int ret_fds[AG_SESSION_MAX_DESCRIPTORS]);
/* Sets what the session's processes record from now on; they see the change within some
 * milliseconds. AG_PAUSE_OVER ends the recording for good. Returns the previous state. */
enum ag_pause ag_session_pause(struct ag_session *session, enum ag_pause pause);
enum ag_pause ag_session_paused(const struct ag_session *session);
/* The shared memory in which this process requests snapshots (traces of the recording so far) from
 * the writer. NULL: the session was created without has_requests, or by another process. */
struct ag_snapshot_requests *ag_session_requests(const struct ag_session *session);
/* Notes how the child of `run` ended, for the writer. */
void ag_session_child_ended(struct ag_session *session, uint32_t pid, int wait_status,
                            uint64_t max_rss_kib);

#endif
