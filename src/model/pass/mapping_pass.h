/* mapping_pass.h: sums the mappings that the program made (not those of recorded allocators), from
 * the MAP and UNMAP records of a trace. In the results, a mapping is a block of its size. */
#ifndef AG_MAPPING_PASS_H
#define AG_MAPPING_PASS_H

#include "model/pass/event_pass.h"
#include "model/pass/mapped_memory.h"
#include "model/pass/sampled_pass.h"

/* The via of a mapping is the function that made it: mmap, mremap, brk or sbrk. Mappings of files,
 * and mappings that were made without access (PROT_NONE), have vias of their own, with these
 * names: */
#define AG_VIA_OF_FILE "mmap of a file"
#define AG_VIA_WITHOUT_ACCESS "mmap without access"

/* Makes the pass. LEDGER must be new. Adds the two vias above to DEFINITIONS if they are needed.
 * Returns 0 or -ENOMEM. */
int ag_mapping_pass(const struct ag_trace_file *file, struct ag_definitions *definitions,
                    const struct ag_pass_options *options, struct ag_ledger *ledger,
                    ag_take_results *take_results, struct ag_model_sums *ret_sums,
                    struct ag_live_sum **ret_live);
/* Visits the ranges that are mapped at AT_NS (in session time), with their recorded stacks and the
 * vias of ag_mapping_pass. The mappings that ag_mapping_pass leaves out because an allocator made
 * them are included. Returns 0 or -ENOMEM. */
int ag_mapping_pass_at(const struct ag_trace_file *file, struct ag_definitions *definitions,
                       const struct ag_pass_options *options, uint64_t at_ns,
                       ag_mapped_range_visit *visit, void *context);

#endif
