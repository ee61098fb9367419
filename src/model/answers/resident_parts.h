/* resident_parts.h: what the resident memory of a recorded process consisted of when it was
 * largest, and at the end. Each resident byte belongs to exactly one class. */
#ifndef AG_RESIDENT_PARTS_H
#define AG_RESIDENT_PARTS_H

#include "model/answers/resident_classes.h"
#include "model/profile.h"

/* A line of the program (a blamed line) with its share of a class. */
struct ag_resident_site {
    const struct ag_frame *frame;
    uint32_t frame_number; /* of the frame, for ag_profile_frame */
    uint64_t bytes;        /* of the class */
    uint64_t blocks;      /* number of the blocks of this line that have bytes in the class, or that
                           * pin them; or of mappings */
    uint64_t block_bytes; /* resident bytes of these blocks */
};
struct ag_resident_parts {
    uint64_t moment_ns;                                   /* since the start of the recording */
    uint64_t rss_bytes;                                   /* the sum of `bytes` */
    uint64_t page_table_bytes, hugetlb_bytes, swap_bytes; /* not in rss_bytes */
    uint64_t bytes[AG_RESIDENT_CLASSES];
    uint64_t
        trim_bytes; /* the part of AG_CLASS_RETURNABLE that glibc's malloc_trim(0) gives back */
    /* largest first; only of blocks, free bytes on their pages, and program mappings */
    struct ag_resident_site *sites[AG_RESIDENT_CLASSES];
    size_t n_sites[AG_RESIDENT_CLASSES];
};
/* The moments that a trace may have: the latest at which the resident memory was within a sixteenth
 * of its largest size, and the last one at which the writer looked. */
enum ag_resident_moment { AG_RESIDENT_AT_PEAK, AG_RESIDENT_AT_END };
/* Whether the trace and the options of the profile permit the division, and whether the two moments
 * are different. */
bool ag_profile_has_resident_parts(const struct ag_profile *profile);
bool ag_profile_has_resident_end(const struct ag_profile *profile);
/* Reads all events of the trace. The caller calls ag_resident_parts_done. Returns 0, or a negative
 * errno with a message: -ENODATA if the trace does not contain the resident memory; -ENOTSUP if
 * PROFILE is filtered, merged or sampled. */
int ag_profile_resident_parts(struct ag_profile *profile, enum ag_resident_moment when,
                              struct ag_resident_parts *ret_parts, char ret_message[512]);
void ag_resident_parts_done(struct ag_resident_parts *parts);

#endif
