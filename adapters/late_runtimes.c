/* late_runtimes.c: which runtimes `allogram attach` looks for in a process, from the rows of
 * late_adapters.def (src/remote/late_runtime.h). */
#include "remote/late_runtime.h"

#include <stddef.h>

const struct ag_late_runtime ag_late_runtimes[] = {
#define AG_LATE_ADAPTER(name, symbol) {#name, symbol, NULL},
#define AG_NOT_LATE_ADAPTER(name, symbol, why_not) {#name, symbol, why_not},
#include "late_adapters.def"
    {NULL, NULL, NULL},
};
