/* trace_file.h: names trace files, creates them with their header from the first moment, and
 * examines those that exist. */
#ifndef AG_TRACE_FILE_H
#define AG_TRACE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "format/encode.h"

/* ---- names ---- */

/* Writes FOLDER as a part of a pattern, with its percent signs doubled, as much of it as fits into
 * PATTERN_BYTES with a terminator. Returns the length of all of it. */
size_t ag_trace_pattern_escape(const char *folder, char *ret_pattern, size_t pattern_bytes);
/* Checks a pattern (NULL: the default) and makes it absolute. */
int ag_trace_pattern_complete(const char *pattern, char ret_pattern[1024], char ret_message[512]);
/* Returns the folder of the pattern's files; a folder that itself contains % is returned
 * unexpanded. */
void ag_trace_pattern_folder(const char *pattern, char ret_folder[4096]);

/* zero-initialise; the last file created, whose number and lower ones need no test */
struct ag_trace_numbers {
    char plain[4096];
    uint32_t last;
};
struct ag_trace_names {  /* values for the letters of a pattern */
    const char *program; /* %e: any path; at most 200 bytes of its last part are used */
    uint32_t pid;        /* %p */
    uint64_t start_s;    /* %t: of the session, seconds since the Unix epoch */
    /* For files that only the caller creates: skips numbers that are known to be used, since there
     * may be thousands of one name. NULL: starts at the first number, since another process may
     * have created the file. */
    struct ag_trace_numbers *numbers;
};
/* 0, or -ENAMETOOLONG. %h is this machine's name. */
int ag_trace_name_expand(const char *pattern, const struct ag_trace_names *names,
                         char ret_path[4096]);
/* PATH for number 1, PATH-2, PATH-3 ... before the extension for others. */
int ag_trace_name_number(const char *path, uint32_t number, char ret_path[4096]);
/* TRACE.dump1.allogram ... of TRACE.allogram. */
void ag_trace_name_dump(const char *trace, uint32_t number, char ret_path[4096]);

/* ---- files ---- */

/* The folder of PATH, "." when PATH names none. */
void ag_trace_file_folder(const char *path, char ret_folder[4096]);

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
