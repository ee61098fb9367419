/* fake_recorder.h: plays a recorded process: it writes events into the live file (the shared
 * memory) of a session by the protocol of the real recorder, without a program, so that a test
 * knows every event. */
#ifndef FAKE_RECORDER_H
#define FAKE_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "format/decode.h"
#include "writer/session.h"

/* Makes a session (one recording) whose live file and traces are in a new folder. Returns 0 or
 * negative. */
int fake_session_begin(uint64_t max_bytes, char ret_folder[64], struct ag_session **ret_session);
/* Visits the traces in the folder, and the folders of live files. */
void fake_session_files(const char *folder, void (*visit)(const char *path, void *context),
                        void *context);
/* Calls on_event for each event of a trace, and on_record for each record. Returns 1 if the trace
 * has an index, 0 if not, or a negative errno. */
int fake_trace_read(const char *path, void (*on_event)(const struct ag_event *event, void *context),
                    void (*on_record)(const struct ag_record *record, void *context),
                    void *context);
/* Closes the session (NULL is allowed) and removes its traces, its live file and their folders.
 * Returns 0, or -1 when something else is left in the folder. */
int fake_session_end(const char *folder, struct ag_session **session);

struct fake_stream { /* one thread of the recorded process */
    struct ag_session *session;
    struct ag_process_slot *slot;
    uint32_t slot_index, stream;
    uint64_t sequence;
    struct ag_chunk_control *control;
    uint64_t *words; /* words of the current chunk (a buffer in the live file); if `control` is
                      * NULL, the stream has no chunk */
    uint32_t used;   /* number of words that are written */
    uint64_t tick;   /* the tick (a counter of milliseconds, incremented by the process that writes
                      * traces) at the last stamp (a record of the time) */
};

/* Claims a slot (the entry of a process in the session) for the calling process and fills it.
 * Returns its index, or -1 when none is free. */
int fake_process_join(struct ag_session *session);
/* Adds node `n` (from 0), with a pc of its own, to the stack tree with the number `tree`. `parent`
 * is a node id or, for an outermost node, an ag_root. Returns the node's id. */
uint32_t fake_node(struct ag_session *session, uint32_t tree, uint32_t n, uint32_t parent);

void fake_stream_begin(struct fake_stream *stream, struct ag_session *session, int slot);
void fake_alloc(struct fake_stream *stream, uint64_t address, uint64_t bytes, uint32_t stack);
void fake_free(struct fake_stream *stream, uint64_t address);
/* Writes any words, also invalid ones. */
void fake_words(struct fake_stream *stream, const uint64_t *words, uint32_t count);
/* Does what a thread does when it ends. */
void fake_stream_end(struct fake_stream *stream);

#endif
