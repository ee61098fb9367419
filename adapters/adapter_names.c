/* adapter_names.c: the adapters in the agent, as `run --adapters` may name them; from the rows of
 * adapters.def. */
#include <stddef.h>

extern const char *const ag_adapter_names[]; /* src/cli/adapter_list.h */

const char *const ag_adapter_names[] = {
#define AG_ADAPTER(name) #name,
#include "adapters.def"
#undef AG_ADAPTER
    NULL,
};
