/* host_heaps.h: what a program registered: heaps, types, labels, functions; and which of them the
 * recording's filter leaves out. */
#ifndef AG_HOST_HEAPS_H
#define AG_HOST_HEAPS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "defined_names.h"
#include "format/segment.h"
#include "registered_functions.h"
#include "schema/records.h"

enum {
    AG_HOST_HEAPS_MOST = AG_VIAS_MOST - AG_VIA_HOST,
    AG_HOST_TEXT_BYTES = 64,
    AG_HOST_UNIT_BYTES = 32
};

struct ag_host_heap {
    char name[AG_HOST_TEXT_BYTES], allocator[AG_HOST_TEXT_BYTES], runtime[AG_HOST_TEXT_BYTES];
    char unit[AG_HOST_UNIT_BYTES]; /* "": bytes */
    uint32_t domain;               /* enum allogram_domain */
    uint32_t is_backing;
    uint32_t kind; /* enum allogram_heap_kind */
    uint32_t has_late_types;
    _Atomic uint32_t is_shut; /* the recording's filter leaves the heap out */
};
/* All registrations of the program; one instance, as there is one recorder. */
struct ag_host {
    struct ag_host_heap heaps[AG_HOST_HEAPS_MOST];
    _Atomic uint32_t n_heaps; /* heaps [0, n_heaps) are complete */
    struct ag_defined_names types, labels;
    struct ag_registered_functions functions;
};
extern struct ag_host ag_host AG_HIDDEN;

/* Returns NULL if there is no such heap, or if it is not recorded. May be called by any thread and
 * signal handler. */
AG_FAST const struct ag_host_heap *ag_host_heap(uint32_t heap) {
    const uint32_t index = heap - AG_VIA_HOST;
    /* acquire: pairs with the release at the end of the heap's registration */
    if (index >= atomic_load_explicit(&ag_host.n_heaps, memory_order_acquire)) {
        return NULL;
    }
    const struct ag_host_heap *found = &ag_host.heaps[index];
    return atomic_load_explicit(&found->is_shut, memory_order_relaxed) ? NULL : found;
}

/* Copies TEXT, or OTHERWISE if TEXT is NULL or empty; truncates the copy to n_bytes - 1. */
void ag_host_text_copy(char *to, size_t n_bytes, const char *text, const char *otherwise);
/* Returns the address, with the number of the heap's own address space in the upper 16 bits. */
AG_FAST uint64_t ag_host_place(uint32_t heap, uint64_t address) {
    return AG_EVENT_PLACE(address) | AG_VIA_SPACE(heap) << 48;
}

/* Makes the recorder write all registrations into the trace: at once, if a recording is active, and
 * whenever a recording begins. Called once, before or soon after the first recording begins. */
void ag_host_announce(void);
/* Whether the recording's filter selects blocks of this type; true for type 0 and for numbers that
 * are not registered, about which record/block_choice.h decides. May be called by any thread and
 * signal handler. */
bool ag_host_takes_type(uint32_t type);

#endif
