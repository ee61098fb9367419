/* host_filter.h: what is recorded: "domain=gpu,!allocator=pool,size=4096..". Terms joined by
 * commas, all must hold, "!" negates one. */
#ifndef AG_HOST_FILTER_H
#define AG_HOST_FILTER_H

#include <stdbool.h>
#include <stdint.h>

enum { AG_HOST_FILTER_TERMS = 8, AG_HOST_FILTER_BYTES = 64 };
enum ag_host_filter_key {
    AG_HOST_BY_DOMAIN,
    AG_HOST_BY_ALLOCATOR,
    AG_HOST_BY_HEAP,
    AG_HOST_BY_SIZE
};

struct ag_host_filter { /* zero-initialised: all pass */
    struct {
        enum ag_host_filter_key key;
        bool is_negated;
        uint32_t domain;
        uint64_t low, high; /* of sizes, both inclusive */
        char name[AG_HOST_FILTER_BYTES];
    } terms[AG_HOST_FILTER_TERMS];
    uint32_t n_terms;
    bool has_sizes;
};

/* expression NULL or "": all. -EINVAL with one line in ret_message (512 bytes). */
int ag_host_filter_parse(const char *expression, struct ag_host_filter *ret_filter,
                         char ret_message[512]);
/* The terms about sizes. */
bool ag_host_filter_takes(const struct ag_host_filter *filter, uint64_t bytes);
/* All others. */
bool ag_host_filter_passes(const struct ag_host_filter *filter, uint32_t domain,
                           const char *allocator, const char *heap);

#endif
