/* mapping_ledger.h: keeps a list of the memory ranges that the target (the observed process) maps,
 * each with the stack that mapped the range. The list is computed from system calls such as
 * mmap. */
#ifndef AG_MAPPING_LEDGER_H
#define AG_MAPPING_LEDGER_H

#include <stddef.h>
#include <stdint.h>

enum ag_mapping_call { AG_CALL_MMAP, AG_CALL_MUNMAP, AG_CALL_BRK, AG_CALL_MREMAP };

struct ag_ledger_range {
    uint64_t low, high;
    uint32_t node; /* number of the stack (seen_stacks.h) that mapped the range */
};
struct ag_ledger_call { /* a system call at its exit */
    uint64_t time_ns, arguments[3], result;
    uint32_t node;
    enum ag_mapping_call call;
};
struct ag_mapping_ledger {         /* all zero: empty */
    struct ag_ledger_range *items; /* sorted, disjoint */
    size_t n, capacity;
    struct ag_ledger_call *pending; /* queued calls, in no order */
    size_t n_pending;
    uint64_t end_of_heap; /* at first that of the mapping [heap], then the last result of brk; 0:
                           * unknown */
};
/* Add and remove a range. Return 0 or -ENOMEM. */
int ag_mapping_ledger_map(struct ag_mapping_ledger *ledger, uint64_t low, uint64_t high,
                          uint32_t node);
int ag_mapping_ledger_unmap(struct ag_mapping_ledger *ledger, uint64_t low, uint64_t high);
/* Queues a call. Calls of different CPUs may be queued in any order. Returns 0 or -ENOMEM. */
int ag_mapping_ledger_notify(struct ag_mapping_ledger *ledger, const struct ag_ledger_call *call);
/* Applies all queued calls that are older than UNTIL_NS, in the order of their times. Returns 0 or
 * -ENOMEM. */
int ag_mapping_ledger_settle(struct ag_mapping_ledger *ledger, uint64_t until_ns);
void ag_mapping_ledger_done(struct ag_mapping_ledger *ledger);

#endif
