/* trace_mutation.h: changes traces to bytes that no writer produces, in most cases with valid
 * checksums (trace_mutation.c), and reads traces, with all readers (trace_reading.c) or by a
 * command (command_reading.c). */
#ifndef AG_TRACE_MUTATION_H
#define AG_TRACE_MUTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_trace_bytes {
    uint8_t *data; /* malloc'd */
    size_t n_bytes, capacity;
};

/* Makes the same trace with every chunk (the unit of a trace file) uncompressed, so that changing a
 * byte of the file changes one byte of a chunk's contents. Returns false if the bytes are no trace,
 * or if there is no memory. */
bool ag_trace_unpack(const struct ag_trace_bytes *trace, struct ag_trace_bytes *ret_unpacked);

/* Corrects the checksums of the file header, of the chunks up to the first invalid chunk header,
 * and of the footer. */
void ag_trace_fix_hashes(uint8_t *bytes, size_t n_bytes);

/* Changes a trace in one to four places: flips bits, changes bytes or header fields, removes
 * pieces, inserts pieces of the donor (another trace), or cuts off the end. In most cases the
 * checksums are corrected afterwards. Advances random_state. */
void ag_trace_mutate(struct ag_trace_bytes *trace, const struct ag_trace_bytes *donor,
                     uint64_t *random_state);

/* Reads a trace with all readers: of the chunk list, events, records and rows, and those that check
 * the trace and continue it. The result depends on everything that was read, so that the compiler
 * cannot leave anything out. */
uint64_t ag_trace_read_everything(const uint8_t *bytes, size_t n_bytes);

/* Lets a command of allogram read the trace: WORDS are the arguments of `allogram`, without the
 * trace. Output and status are not checked. If the first word is not a command that reads traces,
 * the process ends with status 2. */
void ag_trace_read_by_command(const char *words, const uint8_t *bytes, size_t n_bytes);

#endif
