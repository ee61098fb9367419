/* block_filter.h: selects the blocks of a recording: "domain=gpu,!allocator=pool,size=4096..".
 * Terms are joined by commas, and all must hold; "!" before a term negates it. Commas between
 * brackets belong to the name of a type. The expression is stored in the live segment (the memory
 * that the profiled process shares with the writer of the trace) and in the trace. */
#ifndef AG_BLOCK_FILTER_H
#define AG_BLOCK_FILTER_H

#include <stdbool.h>
#include <stdint.h>

enum {
    AG_BLOCK_FILTER_TERMS = 8,
    AG_BLOCK_FILTER_NAME_BYTES = 128,
    AG_BLOCK_FILTER_TEXT_BYTES = 640, /* size of an expression, with its NUL */
};
enum ag_block_filter_key {
    AG_FILTER_BY_DOMAIN,
    AG_FILTER_BY_ALLOCATOR,
    AG_FILTER_BY_HEAP,
    AG_FILTER_BY_SIZE,
    AG_FILTER_BY_TYPE,
};

struct ag_block_filter { /* zero-initialized: selects all blocks */
    struct {
        enum ag_block_filter_key key;
        bool is_negated;
        uint32_t domain;    /* for a domain term: 0: cpu, 1: gpu, 2: external */
        uint64_t low, high; /* for a size term: the range of sizes in bytes, from low to high
                             * inclusive */
        char name[AG_BLOCK_FILTER_NAME_BYTES]; /* the text after "=" */
    } terms[AG_BLOCK_FILTER_TERMS];
    uint32_t n_terms;
    bool has_sizes, has_types; /* whether a term is about sizes, or about types */
};

/* expression NULL or "": selects all blocks. Returns 0, or -EINVAL with one line in ret_message
 * (512 bytes). */
int ag_block_filter_parse(const char *expression, struct ag_block_filter *ret_filter,
                          char ret_message[512]);
/* Whether the terms about domain, allocator and heap hold. */
bool ag_block_filter_takes_heap(const struct ag_block_filter *filter, uint32_t domain,
                                const char *allocator, const char *heap);
/* Whether the terms about sizes hold. */
bool ag_block_filter_takes_size(const struct ag_block_filter *filter, uint64_t bytes);
/* Whether the terms about types hold: "*" matches any text, "?" any character, and texts that
 * differ only in blanks match. type NULL: the type is unknown and matches no pattern, so only
 * negated terms hold. */
bool ag_block_filter_takes_type(const struct ag_block_filter *filter, const char *type);

#endif
