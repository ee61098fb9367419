/* malloc_family.c: the agent's malloc and its relatives. Each calls the function of the host (the
 * profiled program with its libraries) and records the event.
 *
 * Order: an alloc is recorded after the call of the host's function, a free before the call. So no
 * other thread can record an address while this thread still owns it. realloc is a free recorded
 * before and an alloc recorded after; when it fails, a further record takes the free back. The
 * recorded size is the requested one. free(NULL) and failed calls are not recorded. */
#include <errno.h>

#include "next.h"
#include "record/event_fast.h"

struct ag_program_functions ag_program;

/* Called from entry.S with the caller's sp and rbp after the function's own arguments. */
void *ag_malloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp);
void *ag_calloc(size_t count, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
void *ag_realloc(void *block, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
void *ag_reallocarray(void *block, size_t count, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
void *ag_memalign(size_t alignment, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
void *ag_aligned_alloc(size_t alignment, size_t bytes, const uintptr_t *sp, uintptr_t rbp);
int ag_posix_memalign(void **ret_block, size_t alignment, size_t bytes, const uintptr_t *sp,
                      uintptr_t rbp);
void *ag_valloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp);
void *ag_pvalloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp);

AG_FAST void *report_alloc(void *block, size_t bytes, enum ag_libc_via via, const uintptr_t *sp,
                           uintptr_t rbp) {
    if (AG_LIKELY(block != NULL)) {
        ag_record_alloc_fast(sp, rbp, (uintptr_t)block, bytes, via);
    }
    return block;
}

void *ag_malloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    return report_alloc(ag_next.malloc(bytes), bytes, VIA_MALLOC, sp, rbp);
}

void *ag_calloc(size_t count, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    return report_alloc(ag_next.calloc(count, bytes), count * bytes, VIA_CALLOC, sp, rbp);
}

AG_FAST void *reallocate(void *block, size_t bytes, enum ag_libc_via via, const uintptr_t *sp,
                         uintptr_t rbp) {
    if (block == NULL) {
        return report_alloc(ag_next.realloc(NULL, bytes), bytes, via, sp, rbp);
    }
    ag_record_free_fast(AG_WORD_REALLOC_FREE, (uintptr_t)block, via, sp, rbp);
    void *moved = ag_next.realloc(block, bytes);
    if (AG_LIKELY(moved != NULL)) {
        ag_record_alloc_fast(sp, rbp, (uintptr_t)moved, bytes, via);
    } else if (bytes != 0) { /* realloc(block, 0) that returns NULL has freed the block */
        ag_record_free_fast(AG_WORD_UNDO_FREE, (uintptr_t)block, via, sp, rbp);
    }
    return moved;
}

void *ag_realloc(void *block, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    return reallocate(block, bytes, VIA_REALLOC, sp, rbp);
}

/* The host's reallocarray is not called, because it would call the agent's realloc, and the event
 * would be recorded twice. If the program defines realloc, the detour (a jump at the start) of that
 * realloc records the event (static_allocator.c). */
void *ag_reallocarray(void *block, size_t count, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    size_t total = 0;
    if (__builtin_mul_overflow(count, bytes, &total)) {
        errno = ENOMEM;
        return NULL;
    }
    ag_libc_start();
    if (AG_UNLIKELY(ag_program.realloc != NULL)) {
        return ag_program.realloc(block, total);
    }
    return reallocate(block, total, VIA_REALLOCARRAY, sp, rbp);
}

void *ag_memalign(size_t alignment, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    return report_alloc(ag_next.memalign(alignment, bytes), bytes, VIA_MEMALIGN, sp, rbp);
}

void *ag_aligned_alloc(size_t alignment, size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    return report_alloc(ag_next.aligned_alloc(alignment, bytes), bytes, VIA_ALIGNED_ALLOC, sp, rbp);
}

int ag_posix_memalign(void **ret_block, size_t alignment, size_t bytes, const uintptr_t *sp,
                      uintptr_t rbp) {
    const int r = ag_next.posix_memalign(ret_block, alignment, bytes);
    if (r == 0) {
        (void)report_alloc(*ret_block, bytes, VIA_POSIX_MEMALIGN, sp,
                           rbp); /* a NULL for 0 bytes is not recorded */
    }
    return r;
}

void *ag_valloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    ag_libc_start();
    return report_alloc(ag_next.valloc(bytes), bytes, VIA_VALLOC, sp, rbp);
}

void *ag_pvalloc(size_t bytes, const uintptr_t *sp, uintptr_t rbp) {
    ag_libc_start();
    return report_alloc(ag_next.pvalloc(bytes), bytes, VIA_PVALLOC, sp, rbp);
}

/* ---- free ---- */

/* Called from entry.S. */
void ag_free(void *block);

/* Inlined into the function whose frame it reads: that frame begins with the caller's rbp and the
 * return address. */
AG_FAST void report_free(void *block, enum ag_libc_via via) {
    const uintptr_t *frame = __builtin_frame_address(0);
    if (AG_LIKELY(block != NULL)) {
        ag_record_free_fast(AG_WORD_FREE, (uintptr_t)block, via, frame + 1, frame[0]);
    }
}

/* May be called before the agent has started: ag_next.free then starts the agent. */
AG_NOINLINE void ag_free_slowly(void *block, enum ag_libc_via via) {
    report_free(block, via);
    ag_next.free(block);
}

/* Every call in this function is a tail call, so the function needs no frame and saves no register,
 * and no frame of the agent is on the stack while the host frees. */
void ag_free(void *block) {
    if (AG_LIKELY(block != NULL) &&
        AG_UNLIKELY(!ag_record_free_frameless(AG_WORD_FREE, (uintptr_t)block, VIA_MALLOC))) {
        ag_free_slowly(block, VIA_MALLOC);
        return;
    }
    ag_next.free(block);
}
