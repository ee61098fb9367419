/* host_events.h: whether events are wanted; and events that an adapter reports for its runtime,
 * whose stacks begin at the call of the runtime's allocator and not in the adapter. */
#ifndef AG_HOST_EVENTS_H
#define AG_HOST_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "base/compiler.h"

/* The calling thread's counter that allogram.h counts down. */
extern __thread uint64_t ag_host_left __attribute__((tls_model("initial-exec"))) AG_HIDDEN;
/* Sets and clears bits of allogram_mode_ (ALLOGRAM_TELLS_ ...); each bit belongs to one caller and
 * its lock. */
void ag_host_mode(uint32_t set, uint32_t clear);
/* Called before a record that is not an event: adapts this thread's state if that belongs to
 * another recording. */
void ag_host_get_ready(void);

/* For adapters whose collections are not reported from the frame that caused them. Times are raw
 * clock ticks since the session's origin; bytes: 0: unknown; stack: of the code that caused the
 * collection (ag_record_stack). */
struct ag_host_collection {
    uint64_t start_raw, end_raw, needed_bytes, heap_before_bytes, heap_after_bytes;
    uint64_t promoted_bytes;
    uint32_t stack;
    bool has_promoted; /* promoted_bytes is known, and may be 0 */
};
void ag_host_report_collection(uint32_t heap, const struct ag_host_collection *collection,
                               const char *kind);
/* As allogram_gc_end. promoted_bytes: moved to where blocks live longer; NULL: unknown. */
void ag_host_gc_end(uint32_t heap, const char *kind, uint64_t heap_bytes,
                    const uint64_t *promoted_bytes);
/* Raw clock ticks since the session's origin; needs an active recording. */
uint64_t ag_host_elapsed_raw(void);

/* The caller: sp is the address of the return address of the call, rbp as the caller left it. */
struct ag_host_caller {
    const uintptr_t *sp;
    uintptr_t rbp;
};
/* As allogram_alloc, and as allogram_free. */
void ag_host_alloc(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address,
                   size_t bytes, allogram_type type);
void ag_host_free(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address);
/* A realloc: call _begin before it, so that no other thread can report the address first; then
 * _end, or _failed if the block stays. */
void ag_host_realloc_begin(const struct ag_host_caller *caller, allogram_heap heap,
                           uint64_t address);
void ag_host_realloc_end(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address,
                         const struct allogram_block *block);
void ag_host_realloc_failed(const struct ag_host_caller *caller, allogram_heap heap,
                            uint64_t address);

#endif
