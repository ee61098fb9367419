/* inspectors.c: the runtimes that `allogram observe` can read from outside, one row each. A sample
 * is offered to them in this order. */
#include <allogram/inspector.h>
#include <stddef.h>

extern const struct allogram_inspector allogram_beam_inspector;

const struct allogram_inspector *const allogram_inspectors[] = {
    &allogram_beam_inspector,
    NULL,
};
