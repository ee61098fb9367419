/* profile.h: a trace, understood: what the reports and exporters read. Nothing here is formatted for people.
 *
 * An unfiltered profile of a sealed trace is answered from the index, without a pass over the events; filters that need
 * events (time window, thread, --within) or a trace without an index make one streaming pass: memory is bounded by what was
 * in use in the program, chunks are decoded by several threads. */
#ifndef AG_PROFILE_H
#define AG_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/decode.h"
#include "symbol/symbol.h"

struct ag_profile_options {
    size_t size;
    uint64_t from_ns, to_ns; /* window of allocations and deaths; to_ns 0: the end */
    int64_t thread;          /* kernel tid, -1: all */
    uint32_t temporary_within;
    const char *focus, *ignore; /* POSIX extended regular expressions over any frame of a stack; NULL: none */
    const char *runtime;        /* NULL: all */
    bool force_pass;            /* do not trust the index */
    struct ag_symbol_options symbol;
};
struct ag_profile;
int ag_profile_open(const char *path, const struct ag_profile_options *options, struct ag_profile **ret_profile,
                    char ret_message[512]);
struct ag_profile *ag_profile_close(struct ag_profile *profile);

struct ag_metrics { /* of a site, a tree node, a stack or all */
    uint64_t allocated_blocks, allocated_bytes, freed_blocks, freed_bytes, in_use_blocks, in_use_bytes, peak_blocks,
        peak_bytes, temporary_blocks;
};
const struct ag_summary *ag_profile_summary(const struct ag_profile *profile);

#endif
