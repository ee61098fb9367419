/* generated_code.h: finds functions that the target (the observed process) generated at run time,
 * by address. The functions are read from the target's perf map, its jitdump file, and the list
 * that it keeps for debuggers (`__jit_debug_descriptor`). */
#ifndef AG_GENERATED_CODE_H
#define AG_GENERATED_CODE_H

#include <allogram/inspector.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "observed_images.h"

struct ag_generated_function {
    uint64_t low, high;
    char *name;
    /* number in the order in which the functions were read; of functions at one address, the one
     * with the largest number is used */
    uint32_t age;
};
/* A range of addresses with one result: it ends where the next range begins. */
struct ag_generated_range {
    uint64_t low;
    uint32_t item; /* index of the function; UINT32_MAX: there is none */
};
struct ag_generated_code {               /* all zero: empty */
    struct ag_generated_function *items; /* sorted by `low` */
    size_t n;
    struct ag_generated_range *ranges; /* sorted by `low` */
    size_t n_ranges;
    uint32_t age; /* number of functions that were read so far */
    /* result of allogram_target_code_stamp (allogram/inspector.h) when the list for debuggers was
     * read */
    uint64_t list_stamp;
    int64_t map_bytes, map_time_ns;   /* size and time of the perf map when it was read */
    int64_t dump_bytes, dump_time_ns; /* those of the jitdump file */
};
/* Reads each of the three sources that has changed since the last call. */
void ag_generated_code_refresh(struct ag_generated_code *code, struct ag_observed_images *images,
                               struct allogram_target *target);
/* The function that contains pc, or NULL. */
const struct ag_generated_function *ag_generated_code_find(const struct ag_generated_code *code,
                                                           uint64_t pc);
void ag_generated_code_done(struct ag_generated_code *code);

/* Read functions from the contents of a perf map, a jitdump file and an ELF object of the
 * debuggers' list. The contents are untrusted. Afterwards ag_generated_code_sort must be called. */
void ag_generated_code_read_map(struct ag_generated_code *code, char *text);
void ag_generated_code_read_dump(struct ag_generated_code *code, const uint8_t *bytes,
                                 size_t n_bytes);
void ag_generated_code_read_object(struct ag_generated_code *code, const void *file,
                                   size_t n_bytes);
void ag_generated_code_sort(struct ag_generated_code *code);

#endif
