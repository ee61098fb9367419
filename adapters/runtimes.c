/* runtimes.c: the table of runtimes (base/runtimes.h) in the program allogram. Each row has the
 * parts of a runtime that work outside of the profiled process: decoder, inspector and link (see
 * runtimes.def). */
#include "base/runtimes.h"

#include <stddef.h>

#include "built_runtimes.h"

#define AG_RUNTIME(folder, ...)                                   \
    extern const struct ag_decoder ag_decoder_##folder;           \
    extern const struct allogram_inspector ag_inspector_##folder; \
    extern const struct ag_link_kind ag_link_##folder;
#include "runtimes.def"
#undef AG_RUNTIME

#define AG_RUNTIME(folder, shown, known, ...) \
    AG_BUILT_##folder({.name = shown, .versions = known, __VA_ARGS__}, )
#define AG_INSIDE(folder, function, why_not) .symbol = function, .why_not_late = why_not
#define AG_INSIDE_LATE(folder, function) .symbol = function
#define AG_DECODER(folder) .decoder = &ag_decoder_##folder
#define AG_INSPECTOR(folder) .inspector = &ag_inspector_##folder
#define AG_LINK(folder) .link = &ag_link_##folder
#define AG_LIBRARIES(...)                \
    .libraries = (const char *const[]) { \
        __VA_ARGS__, NULL                \
    }

const struct ag_runtime ag_runtimes[] = {
#include "runtimes.def"
    {.name = NULL},
};
