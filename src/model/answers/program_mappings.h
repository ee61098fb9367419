/* program_mappings.h: the memory that the program mapped itself with mmap, mremap, brk or sbrk.
 * Programs with an allocator of their own (LuaJIT, PHP, V8, Python's arenas) get most of their
 * memory in this way. Mappings that malloc makes are not recorded, because the blocks in them are
 * recorded. The mappings of other recorded allocators belong to the heaps of these allocators. */
#ifndef AG_PROGRAM_MAPPINGS_H
#define AG_PROGRAM_MAPPINGS_H

#include "model/profile.h"

/* Returns a profile of the same trace and with the same filters, whose blocks are the mappings
 * (ag_profile_options.of_mappings). Its vias (allocation functions) are named mmap, mremap, brk,
 * sbrk, or by a name of pass/mapping_pass.h. The first call reads all events of the trace. PROFILE
 * owns the result. Returns 0, or a negative errno with a message. */
int ag_profile_mappings(struct ag_profile *profile, struct ag_profile **ret_mappings,
                        char ret_message[512]);

struct ag_mapping_facts {
    bool knows_growth;   /* half_way_bytes of struct ag_metrics is known */
    bool knows_resident; /* resident_bytes and untouched_bytes are known */
    /* when the writer read the resident memory, since the start of the recording; UINT64_MAX: not
     * known, or several processes */
    uint64_t moment_ns;
};
/* MAPPINGS: a result of ag_profile_mappings. */
struct ag_mapping_facts ag_profile_mapping_facts(const struct ag_profile *mappings);

struct ag_mapping_kinds {          /* bytes of mappings at the peak */
    uint64_t accessible_bytes;     /* private memory, and memory shared without a file */
    uint64_t without_access_bytes; /* reserved with PROT_NONE; mprotect may make it accessible */
    uint64_t file_bytes;
};
/* ROWS: the result of ag_profile_stacks (model/profile.h) for a profile of mappings. */
struct ag_mapping_kinds ag_mapping_kinds_at_peak(const struct ag_stack_row *rows, size_t n_rows);

enum ag_mappings_reach {
    AG_MAPPINGS_QUICK, /* a trace whose events take more than about a second to read is not read */
    AG_MAPPINGS_ALL,
};
/* Mapped memory that explains why the process had much more resident memory than blocks. */
struct ag_mapped_memory_note {
    bool is_there;       /* false: there is nothing to report, and all other members are 0 */
    bool with_reserved;  /* the memory includes mappings that were made without access
                            * (PROT_NONE) */
    uint64_t peak_bytes; /* mapped at the peak of the mappings, without files */
    /* frame: the line of the program that mapped most of peak_bytes, as a frame of `mappings`.
     * line_bytes: the part of peak_bytes that this line mapped. The profile owns `mappings`. */
    uint64_t line_bytes;
    const struct ag_profile *mappings;
    uint32_t frame;
};
/* Decides whether there is a note. program_mappings.c describes the rule. If the rule can decide
 * without the mappings, no event is read. Returns 0 or a negative errno. */
int ag_profile_mapped_memory_note(struct ag_profile *profile, enum ag_mappings_reach reach,
                                  struct ag_mapped_memory_note *ret_note);
/* Whether the rule of ag_profile_mapped_memory_note can find a note for a process with these
 * numbers, for callers that have no profile yet. */
bool ag_mappings_may_explain(uint64_t resident_peak_bytes, uint64_t blocks_peak_bytes);

#endif
