/* attached_alone.c: the functions of attached.h in an agent (allogram's library) without adapters,
 * the code for language runtimes: they do nothing. `allogram attach` loads this agent into
 * processes that have no supported runtime. */
#include "attached.h"

void ag_attached_runtimes_begin(void) {
}

void ag_attached_runtimes_end(void) {
}

bool ag_attached_runtimes_are_there(void) {
    return false;
}
