/* trace_file.h: names trace files, creates them (a file never exists without its header), and
 * examines existing ones. */
#ifndef AG_TRACE_FILE_H
#define AG_TRACE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "format/encode.h"

/* ---- names ---- */

/* Converts FOLDER to a part of a pattern: doubles its percent signs. What does not fit into
 * PATTERN_BYTES is dropped. Returns the length that the result has without this limit. */
size_t ag_trace_pattern_escape(const char *folder, char *ret_pattern, size_t pattern_bytes);
/* Checks a pattern of -o (NULL: the default) and makes it absolute. */
int ag_trace_pattern_complete(const char *pattern, char ret_pattern[1024], char ret_message[512]);
/* The folder of the pattern's files. Percent letters in it are not expanded. */
void ag_trace_pattern_folder(const char *pattern, char ret_folder[4096]);

/* The last file that was created: its number and lower ones are in use. Zero-initialize. */
struct ag_trace_numbers {
    char plain[4096]; /* path of the file without a number */
    uint32_t last;    /* number of the file */
};
struct ag_trace_names {  /* values for the letters of a pattern */
    const char *program; /* %e: any path; at most 200 bytes of its last part are used */
    uint32_t pid;        /* %p */
    uint64_t start_s;    /* %t: start of the session (the recording), in seconds since the Unix
                          * epoch */
    /* The search for a free number begins after numbers->last, because thousands of files may have
     * the same name except for the number. NULL: it begins at 1, so that the file is found if a
     * previous writer has already created it for the same profiled process. */
    struct ag_trace_numbers *numbers;
};
/* 0, or -ENAMETOOLONG. %h is this machine's name. */
int ag_trace_name_expand(const char *pattern, const struct ag_trace_names *names,
                         char ret_path[4096]);
/* Makes the path for a number: PATH itself for number 1; for other numbers, "-2", "-3" ... is
 * inserted before the extension. */
int ag_trace_name_number(const char *path, uint32_t number, char ret_path[4096]);
/* The path of a dump: TRACE.dump1.allogram ... for TRACE.allogram. */
void ag_trace_name_dump(const char *trace, uint32_t number, char ret_path[4096]);

/* ---- files ---- */

/* The folder of PATH, "." when PATH names none. */
void ag_trace_file_folder(const char *path, char ret_folder[4096]);

/* Value of header.slot in a trace that was created before its process had a slot (an entry in the
 * memory that it shares with the writer). In all other traces, header.slot is the number of the
 * process in the session (recording.h). */
#define AG_NUMBER_FIRST UINT32_MAX

/* Creates the trace with the first free number, searched as names->numbers says, or opens the trace
 * that a previous writer created for the same process of the same session. Mode 0600; never
 * overwrites a file, never follows a link. Returns the descriptor or negative errno; ret_path is
 * set in both cases. */
int ag_trace_file_create(const char *pattern, const struct ag_trace_names *names,
                         const struct ag_trace_header *header, char ret_path[4096]);
/* Opens the file at PATH if it is the trace that HEADER describes, perhaps created before its
 * process had a number. Returns -ENOENT if the file is not that trace. */
int ag_trace_file_open_begun(const char *path, const struct ag_trace_header *header);
/* Is the open file the trace that HEADER describes? */
bool ag_trace_file_is_of(int fd, const struct ag_trace_header *header);
/* Is the open file sealed: does it have an index? */
bool ag_trace_file_is_sealed(int fd);
/* Copies the first BYTES bytes of FROM to TO. */
int ag_trace_file_copy(int from, int to, uint64_t bytes);

#endif
