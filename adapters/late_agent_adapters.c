/* late_agent_adapters.c: the table of adapters that the attached agent attaches, from the rows of
 * late_adapters.def. */
#include "embed/adapter.h"

#define AG_NOT_LATE_ADAPTER(name, symbol, why_not)
#define AG_LATE_ADAPTER(name, symbol) extern const struct ag_adapter ag_adapter_##name AG_HIDDEN;
#include "late_adapters.def"
#undef AG_LATE_ADAPTER

const struct ag_adapter_row ag_adapter_rows[] = {
#define AG_LATE_ADAPTER(name, symbol) {#name, &ag_adapter_##name},
#include "late_adapters.def"
#undef AG_LATE_ADAPTER
};
const size_t ag_n_adapter_rows = AG_ARRAY_SIZE(ag_adapter_rows);
