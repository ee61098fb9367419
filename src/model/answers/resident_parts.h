/* resident_parts.h: what the resident memory of a recorded process consisted of when it was
 * largest. Each resident byte belongs to exactly one part. */
#ifndef AG_RESIDENT_PARTS_H
#define AG_RESIDENT_PARTS_H

#include "model/profile.h"

enum ag_resident_part {
    AG_PART_LIVE,             /* blocks in use, as requested */
    AG_PART_ROUNDING,         /* what the allocator adds to a block: headers, rounding */
    AG_PART_PINNED_FREE,      /* free bytes on pages on which there are blocks in use */
    AG_PART_RETURNABLE,       /* pages of the allocator without a block: it could give them back */
    AG_PART_PROGRAM_MAPPINGS, /* mapped by the program itself */
    AG_PART_MANAGED_IN_USE,   /* blocks of heaps with a garbage collector */
    AG_PART_MANAGED_FREE,     /* the rest of these heaps */
    AG_PART_STACKS,
    AG_PART_FILES,
    AG_PART_COPIES, /* changed pages of private mappings of files, and static data */
    AG_PART_JIT,    /* executable memory without a file */
    AG_PART_AGENT,  /* memory of allogram in the process */
    AG_PART_UNKNOWN,
    AG_RESIDENT_PARTS
};
const char *ag_resident_part_name(enum ag_resident_part part);  /* in JSON */
const char *ag_resident_part_words(enum ag_resident_part part); /* what it contains */

/* A line of the program (a blamed line) with its share of a part. */
struct ag_resident_site {
    const struct ag_frame *frame;
    uint64_t bytes;       /* of the part */
    uint64_t blocks;      /* number of the blocks of this line that have bytes in the part, or that
                           * pin them; or of mappings */
    uint64_t block_bytes; /* resident bytes of these blocks */
};
struct ag_resident_parts {
    uint64_t moment_ns;                                   /* since the start of the recording */
    uint64_t rss_bytes;                                   /* the sum of `bytes` */
    uint64_t page_table_bytes, hugetlb_bytes, swap_bytes; /* not in rss_bytes */
    uint64_t bytes[AG_RESIDENT_PARTS];
    /* largest first; only of blocks, free bytes on their pages, and program mappings */
    struct ag_resident_site *sites[AG_RESIDENT_PARTS];
    size_t n_sites[AG_RESIDENT_PARTS];
};
/* Reads all events of the trace. The caller calls ag_resident_parts_done. Returns 0, or a negative
 * errno with a message: -ENODATA if the trace does not contain the resident memory; -ENOTSUP if
 * PROFILE is filtered, merged or sampled. */
int ag_profile_resident_parts(struct ag_profile *profile, struct ag_resident_parts *ret_parts,
                              char ret_message[512]);
void ag_resident_parts_done(struct ag_resident_parts *parts);

#endif
