/* attached_alone.c: the attached agent for processes without a runtime that has an adapter. */
#include "attached.h"

void ag_attached_runtimes_begin(void) {
}

void ag_attached_runtimes_end(void) {
}

bool ag_attached_runtimes_are_there(void) {
    return false;
}
