/* adapter_names.c: the names of the agent's adapters that `run --adapters` accepts, from the rows
 * of adapters.def. */
#include <stddef.h>

extern const char *const ag_adapter_names[]; /* src/cli/recording_options.h */

const char *const ag_adapter_names[] = {
#define AG_ADAPTER(name) #name,
#include "adapters.def"
#undef AG_ADAPTER
    NULL,
};
