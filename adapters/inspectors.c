/* inspectors.c: the runtimes that `allogram observe` can read from outside, one row each. The order
 * is that in which they are asked about a sample. */
#include <allogram/inspector.h>
#include <stddef.h>

extern const struct allogram_inspector allogram_beam_inspector;

const struct allogram_inspector *const allogram_inspectors[] = {
    &allogram_beam_inspector,
    NULL,
};
