/* agent_runtimes.c: the table of runtimes in the preloaded agent: all that work inside of a process
 * (base/runtimes.h). */
#include <stddef.h>

#include "base/compiler.h"
#include "base/runtimes.h"
#include "built_runtimes.h"

#define AG_RUNTIME(folder, ...) extern const struct ag_adapter ag_adapter_##folder AG_HIDDEN;
#include "runtimes.def"
#undef AG_RUNTIME

#define AG_RUNTIME(folder, shown, known, ...) \
    AG_BUILT_##folder({.name = shown, .versions = known, __VA_ARGS__}, )
#define AG_INSIDE(folder, function, why_not) .symbol = function, .inside = &ag_adapter_##folder
#define AG_INSIDE_LATE(folder, function) .symbol = function, .inside = &ag_adapter_##folder
#define AG_DECODER(folder) .decoder = NULL
#define AG_INSPECTOR(folder) .inspector = NULL
#define AG_LINK(folder) .link = NULL

const struct ag_runtime ag_runtimes[] = {
#include "runtimes.def"
    {.name = NULL},
};
