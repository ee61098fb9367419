/* resident_parts.h: what the resident memory of a recorded process consisted of when it was
 * largest, and at the end. Each resident byte belongs to exactly one class. */
#ifndef AG_RESIDENT_PARTS_H
#define AG_RESIDENT_PARTS_H

#include "model/answers/resident_classes.h"
#include "model/profile.h"

/* A line of the program (a blamed line) with its share of a class. */
struct ag_resident_site {
    const struct ag_frame *frame;
    /* number of the frame, for ag_profile_frame; of AG_CLASS_PROGRAM_MAPPINGS, in the profile of
     * the mappings (program_mappings.h) */
    uint32_t frame_number;
    uint64_t bytes; /* of the class */
    /* AG_CLASS_LIVE: number of the line's blocks in resident memory. AG_CLASS_PINNED_FREE: number
     * of its blocks on pages with free bytes. AG_CLASS_PROGRAM_MAPPINGS: number of the ranges that
     * the line mapped. */
    uint64_t blocks;
    uint64_t block_bytes; /* resident bytes of these blocks, or of the mappings */
};
struct ag_resident_parts {
    uint64_t moment_ns;                                   /* since the start of the recording */
    uint64_t rss_bytes;                                   /* the sum of `bytes` */
    uint64_t page_table_bytes, hugetlb_bytes, swap_bytes; /* not in rss_bytes */
    uint64_t bytes[AG_RESIDENT_CLASSES];
    uint64_t
        trim_bytes; /* the part of AG_CLASS_RETURNABLE that glibc's malloc_trim(0) gives back */
    /* by class, the largest first; only for AG_CLASS_LIVE, AG_CLASS_PINNED_FREE and
     * AG_CLASS_PROGRAM_MAPPINGS */
    struct ag_resident_site *sites[AG_RESIDENT_CLASSES];
    size_t n_sites[AG_RESIDENT_CLASSES];
};
/* The moments that a trace may have: the latest at which the resident memory was within a sixteenth
 * of its largest size, and the last at which the writer read the resident memory. */
enum ag_resident_moment { AG_RESIDENT_AT_PEAK, AG_RESIDENT_AT_END };
/* ag_profile_has_resident_parts returns whether the trace and the options of the profile permit the
 * division; ag_profile_has_resident_end, whether the two moments are different. */
bool ag_profile_has_resident_parts(const struct ag_profile *profile);
bool ag_profile_has_resident_end(const struct ag_profile *profile);
/* Reads all events of the trace. The caller calls ag_resident_parts_done. Returns 0, or a negative
 * errno with a message: -ENODATA if the trace does not contain the resident memory; -ENOTSUP if
 * PROFILE is filtered, merged or sampled. */
int ag_profile_resident_parts(struct ag_profile *profile, enum ag_resident_moment when,
                              struct ag_resident_parts *ret_parts, char ret_message[512]);
void ag_resident_parts_done(struct ag_resident_parts *parts);

#endif
