/* agent_adapters.c: the table of adapters that the agent attaches, from the rows of
 * adapters.def. */
#include "embed/adapter.h"

#define AG_ADAPTER(name) extern const struct ag_adapter ag_adapter_##name AG_HIDDEN;
#include "adapters.def"
#undef AG_ADAPTER

const struct ag_adapter_row ag_adapter_rows[] = {
#define AG_ADAPTER(name) {#name, &ag_adapter_##name},
#include "adapters.def"
#undef AG_ADAPTER
    {NULL, NULL}, /* never counted */
};
const size_t ag_n_adapter_rows = AG_ARRAY_SIZE(ag_adapter_rows) - 1;
