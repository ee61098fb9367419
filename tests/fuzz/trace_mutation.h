/* trace_mutation.h: changes traces to bytes that no writer produces, with valid checksums. */
#ifndef AG_TRACE_MUTATION_H
#define AG_TRACE_MUTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_trace_bytes {
    uint8_t *data; /* malloc'd */
    size_t n_bytes, capacity;
};

/* The same trace with every chunk stored raw, so that a change of a byte is a change of a body's
 * byte. false: it is no trace, or no memory. */
bool ag_trace_unpack(const struct ag_trace_bytes *trace, struct ag_trace_bytes *ret_unpacked);

/* Makes every checksum right again, as far as headers can be followed. */
void ag_trace_fix_hashes(uint8_t *bytes, size_t n_bytes);

/* Changes a trace in one to four places: bits, bytes, lengths, cuts, pieces of itself and of a
 * donor. Mostly with its checksums made right again. random_state is advanced. */
void ag_trace_mutate(struct ag_trace_bytes *trace, const struct ag_trace_bytes *donor,
                     uint64_t *random_state);

/* Reads a trace as every reader together would: chunk list, events, records, rows, verdict, resume.
 * The result depends on all that was read, so that nothing is left out. */
uint64_t ag_trace_read_everything(const uint8_t *bytes, size_t n_bytes);

/* Lets a command of allogram read it: WORDS are what a user types behind `allogram`, without the
 * trace. What it prints and its status are its own affair. A name that is no reading command ends
 * the process with status 2. */
void ag_trace_read_by_command(const char *words, const uint8_t *bytes, size_t n_bytes);

#endif
