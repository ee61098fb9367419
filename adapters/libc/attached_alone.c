/* attached_alone.c: the part of the attached agent that is for runtimes, in an agent without
 * adapters. `allogram attach` loads that agent into processes that have no supported runtime. */
#include "attached.h"

void ag_attached_runtimes_begin(void) {
}

void ag_attached_runtimes_end(void) {
}

bool ag_attached_runtimes_are_there(void) {
    return false;
}
