/* observe_memory.h: `allogram observe NODE` and `allogram observe PID --memory`: shows what the
 * memory of a virtual machine consists of. The machine is reached by its name
 * (remote/machine_link.h). */
#ifndef AG_OBSERVE_MEMORY_H
#define AG_OBSERVE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ag_link_kind;
struct ag_memory_request {
    const char *name;
    const struct ag_link_kind *kind;
    const char *kind_option; /* the value of the kind's option; NULL: not given */
    uint64_t duration_ns;    /* time between the two looks; 0: until Ctrl-C */
    size_t limit;            /* most rows of a table in text; 0: all */
    bool json;
};
/* Asks the machine twice (two looks), and prints the second result with its differences to the
 * first; if the machine does not answer the second time, prints the first result. Returns the exit
 * status. */
int ag_observe_memory(const struct ag_memory_request *request);

#endif
