/* trace_file.h: creates trace files that have their header from the first moment, and examines
 * those that exist. */
#ifndef AG_TRACE_FILE_H
#define AG_TRACE_FILE_H

#include <stdbool.h>

#include "format/encode.h"
#include "trace_name.h"

/* Stands in the header of a trace that was created before its process had a slot, instead of the
 * process' number in the session. */
#define AG_NUMBER_FIRST UINT32_MAX

/* Creates the first of these files that does not exist yet, or opens the one that a previous writer
 * created for the same process of the same session. Mode 0600; never overwrites a file, never
 * follows a link. Returns the descriptor or negative errno; ret_path is filled in both cases. */
int ag_trace_file_create(const char *pattern, const struct ag_trace_names *names,
                         const struct ag_trace_header *header, char ret_path[4096]);
/* Opens the file at PATH if it is the trace that HEADER describes, or was created for it before it
 * had a number. -ENOENT: it is not. */
int ag_trace_file_open_begun(const char *path, const struct ag_trace_header *header);
/* The same test for an open file. */
bool ag_trace_file_is_of(int fd, const struct ag_trace_header *header);
/* Has a writer finished the open file? */
bool ag_trace_file_is_sealed(int fd);
/* Copies the first BYTES bytes. */
int ag_trace_file_copy(int from, int to, uint64_t bytes);

#endif
