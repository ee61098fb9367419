/* format_samples.h: events and records for tests of the trace format. Everything depends on a seed,
 * so that a failure can be repeated. */
#ifndef AG_FORMAT_SAMPLES_H
#define AG_FORMAT_SAMPLES_H

#include "format/encode.h"

struct ag_sample_random { /* splitmix64 */
    uint64_t state;
};
uint64_t ag_sample_next(struct ag_sample_random *random);
uint64_t ag_sample_below(struct ag_sample_random *random, uint64_t limit);

/* Random events (alloc, free, realloc_free, undo_free, stamp), with sizes and addresses of every
 * magnitude, that make no sense together. The times of stamps increase. */
void ag_sample_wild_events(struct ag_sample_random *random, struct ag_event *ret_events,
                           size_t count);
/* Events as a program makes them: blocks of a few sizes from a heap that reuses what was freed
 * last, with a stamp (a record of the time) every 64 events. */
void ag_sample_program_events(struct ag_sample_random *random, struct ag_event *ret_events,
                              size_t count);

/* Makes one record of each kind that is neither an event nor a batch (a record of rows), with all
 * fields filled. Returns the number of records, at most capacity. */
size_t ag_sample_records(struct ag_record *ret_records, size_t capacity);

/* Appends one batch of each kind, but no list of chunks, to the blob (a byte list). Each batch
 * has n_rows rows. */
void ag_sample_batches(struct ag_blob *blob, size_t n_rows);

/* Writes a trace to the empty file fd, and closes fd. A trace consists of chunks. The first
 * chunk has records; n_chunks further chunks have the events of two streams (threads). With
 * AG_SAMPLE_SEALED the trace also has an index, which consists of two chunks. Returns 0 or
 * negative errno. */
enum ag_sample_ending { AG_SAMPLE_UNSEALED, AG_SAMPLE_SEALED };
int ag_sample_trace(int fd, uint64_t seed, unsigned n_chunks, enum ag_sample_ending ending);

#endif
