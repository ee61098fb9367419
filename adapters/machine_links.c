/* machine_links.c: the virtual machines that `allogram attach` finds by name, one row each
 * (src/remote/machine_link.h). */
#include "remote/machine_link.h"

#include <stddef.h>

extern const struct ag_link_kind ag_link_beam;

const struct ag_link_kind *const ag_link_kinds[] = {
    &ag_link_beam,
    NULL,
};
