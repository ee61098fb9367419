/* host_filter.h: which heaps are recorded: "domain=gpu,!allocator=pool". Terms joined by commas,
 * all must hold, "!" negates one. */
#ifndef AG_HOST_FILTER_H
#define AG_HOST_FILTER_H

#include <stdbool.h>
#include <stdint.h>

enum { AG_HOST_FILTER_TERMS = 8, AG_HOST_FILTER_BYTES = 64 };
enum ag_host_filter_key { AG_HOST_BY_DOMAIN, AG_HOST_BY_ALLOCATOR, AG_HOST_BY_HEAP };

struct ag_host_filter { /* zero-initialised: all pass */
    struct {
        enum ag_host_filter_key key;
        bool is_negated;
        uint32_t domain;
        char name[AG_HOST_FILTER_BYTES];
    } terms[AG_HOST_FILTER_TERMS];
    uint32_t n_terms;
};

/* expression NULL or "": all. -EINVAL with one line in ret_message (512 bytes). */
int ag_host_filter_parse(const char *expression, struct ag_host_filter *ret_filter,
                         char ret_message[512]);
bool ag_host_filter_passes(const struct ag_host_filter *filter, uint32_t domain,
                           const char *allocator, const char *heap);

#endif
