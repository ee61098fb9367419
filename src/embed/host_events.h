/* host_events.h: whether events have to be reported; and functions by which an adapter (the code
 * for one runtime) reports events of its runtime. The stacks of these events begin at the call of
 * the runtime's allocator, not in the adapter. */
#ifndef AG_HOST_EVENTS_H
#define AG_HOST_EVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "allogram/allogram.h"
#include "base/compiler.h"

/* The bytes that the calling thread may allocate before allogram.h has to call the library. The
 * inline functions of allogram.h count this number down. */
extern __thread uint64_t ag_host_left __attribute__((tls_model("initial-exec"))) AG_HIDDEN;
/* Sets and clears bits of allogram_mode_ (ALLOGRAM_TELLS_ ...). In one process, each bit is changed
 * by one file only. */
void ag_host_mode(uint32_t set, uint32_t clear);
/* Prepares the calling thread's state for this recording if the state still belongs to an earlier
 * one. Called before a record that is not an event. */
void ag_host_get_ready(void);

/* A garbage collection, for adapters that report it from another frame than the one that caused the
 * collection. Times are in units of the raw clock (record/raw_clock.h) since the session (the
 * recording) began. A number of bytes that is 0 is unknown. stack: that of the code that caused
 * the collection, from ag_record_stack (record/recorder.h). */
struct ag_host_collection {
    uint64_t start_raw, end_raw, needed_bytes, heap_before_bytes, heap_after_bytes;
    uint64_t promoted_bytes;
    uint32_t stack;
    bool has_promoted; /* promoted_bytes is known, and may be 0 */
};
void ag_host_report_collection(uint32_t heap, const struct ag_host_collection *collection,
                               const char *kind);
/* Does what allogram_gc_end of allogram.h does. promoted_bytes: the bytes that the collection moved
 * to the memory for long-lived blocks; NULL: unknown. */
void ag_host_gc_end(uint32_t heap, const char *kind, uint64_t heap_bytes,
                    const uint64_t *promoted_bytes);
/* The time since the session (the recording) began, in units of the raw clock; needs an active
 * recording. */
uint64_t ag_host_elapsed_raw(void);

/* The caller of an allocation function. sp: the address where the call's return address is stored;
 * rbp: the register's value at the call. */
struct ag_host_caller {
    const uintptr_t *sp;
    uintptr_t rbp;
};
/* Do what allogram_alloc and allogram_free of allogram.h do, for a given caller. */
void ag_host_alloc(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address,
                   size_t bytes, allogram_type type);
void ag_host_free(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address);
/* A realloc. ag_host_realloc_begin has to be called before the runtime's realloc, which frees the
 * address: afterwards another thread could get that address and report it first. After the
 * runtime's realloc, ag_host_realloc_end is called, or ag_host_realloc_failed if the block
 * stays. ag_host_realloc_failed is not for heaps with late types (late_types.h):
 * ag_host_realloc_begin forgets the block, so its type could not be reported any more. */
void ag_host_realloc_begin(const struct ag_host_caller *caller, allogram_heap heap,
                           uint64_t address);
void ag_host_realloc_end(const struct ag_host_caller *caller, allogram_heap heap, uint64_t address,
                         const struct allogram_block *block);
void ag_host_realloc_failed(const struct ag_host_caller *caller, allogram_heap heap,
                            uint64_t address);

#endif
