/* trace_name.h: what a trace file is called. */
#ifndef AG_TRACE_NAME_H
#define AG_TRACE_NAME_H

#include <stdint.h>

/* Checks a pattern (NULL: the default) and makes it absolute. */
int ag_trace_pattern_complete(const char *pattern, char ret_pattern[1024], char ret_message[512]);
/* The folder that its files go to; a folder that itself has % in its pattern is given unexpanded.
 */
void ag_trace_pattern_folder(const char *pattern, char ret_folder[4096]);

struct ag_trace_numbers { /* zero-initialise: what was made last, whose numbers need not be tried */
    char plain[4096];
    uint32_t last;
};
struct ag_trace_names {  /* what the letters of a pattern stand for */
    const char *program; /* %e: any path; of its last part 200 bytes */
    uint32_t pid;        /* %p */
    uint64_t start_s;    /* %t: of the session, seconds since the Unix epoch */
    /* Of files that only the caller makes: thousands of one name are looked at once. NULL: from
     * the first number on, since somebody before us may have made the file. */
    struct ag_trace_numbers *numbers;
};
/* 0, or -ENAMETOOLONG. %h is this machine's name. */
int ag_trace_name_expand(const char *pattern, const struct ag_trace_names *names,
                         char ret_path[4096]);
/* PATH for number 1, PATH-2, PATH-3 ... before the extension for others. */
int ag_trace_name_number(const char *path, uint32_t number, char ret_path[4096]);
/* TRACE.dump1.allogram ... of TRACE.allogram. */
void ag_trace_name_dump(const char *trace, uint32_t number, char ret_path[4096]);

#endif
