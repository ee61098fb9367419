/* arena_sizes.c: records, when the process exits, the memory that glibc's malloc holds by its own
 * count.
 *
 * mallinfo2 (glibc 2.33 and later; the older mallinfo counts in 32 bits) takes the lock of each
 * arena. If another thread holds such a lock, the call only waits. The calling thread itself holds
 * such a lock only if a signal handler interrupted malloc and called exit: mallinfo2 would then
 * wait forever. So mallinfo2 is called only if the thread is certainly not inside a handler:
 *
 * 1. No signal is blocked. While a handler runs, its signal is usually blocked.
 * 2. The handler's signal is not blocked if the handler was installed with SA_NODEFER, or has
 *    unblocked the signal. So the stack must not contain the frame of a signal, either. If the
 *    stack is cut or incomplete, its outer frames are unknown, and mallinfo2 is not called.
 *
 * glibc does not count the address space that it reserves for its further arenas. So the record has
 * the same number for reserved and committed bytes. glibc's count of free memory does not include
 * the blocks in a thread's cache (tcache). */
#include "arena_sizes.h"

#include <stdint.h>

#include "base/raw_syscall.h"
#include "format/decode.h"
#include "hook/next_symbol.h"
#include "next.h"
#include "record/process_life.h"
#include "record/recorder.h"
#include "unwind/arch/arch.h"

struct malloc_sizes { /* struct mallinfo2 of malloc.h */
    size_t arena_bytes, n_chunks, n_fast_chunks, n_mapped, mapped_bytes, unused, fast_bytes,
        used_bytes, free_bytes, top_bytes;
};
static struct malloc_sizes (*ask)(void);
/* The number of the process that started the recorder. A forked child does not record its arenas,
 * because its trace lacks the blocks of its parent. */
static uint32_t recorded_process;

void ag_libc_arenas_find(void) {
    const void *self = (const void *)(uintptr_t)ag_libc_arenas_find;
    struct ag_symbol_place allocator, answer;
    if (ag_symbol_find("malloc", AG_SYMBOL_NEXT, self, &allocator) &&
        ag_symbol_find("mallinfo2", AG_SYMBOL_NEXT, self, &answer) &&
        allocator.bias == answer.bias) {
        recorded_process = ag_recorder.process_number;
        ask = (struct malloc_sizes(*)(void))(uintptr_t)answer.address;
    }
}

static bool has_blocked_signals(void) {
    enum { SIGNAL_SET_BYTES = 8 }; /* the size of the kernel's signal set */
    uint64_t blocked = 0;
    const long r = ag_syscall6(SYS_rt_sigprocmask, 0, 0, (long)&blocked, SIGNAL_SET_BYTES, 0, 0);
    return r != 0 || blocked != 0;
}

/* Sets the bool at CONTEXT if the stack is complete and contains no frame of a signal. Returns the
 * number of all frames, so that no nodes are made for them. */
static uint32_t search_signal_frames(void *context, const struct ag_walk_view *view) {
    bool *is_outside = context;
    *is_outside = view->root == AG_ROOT_COMPLETE;
    for (uint32_t i = 0; i < view->n_frames; i++) {
        *is_outside &= !ag_is_signal_trampoline(ag_walk_view_pc(view, i));
    }
    return view->n_frames;
}

static bool may_be_in_a_handler(const uintptr_t *sp, uintptr_t rbp) {
    bool is_outside = false; /* remains false if the stack cannot be walked */
    if (has_blocked_signals()) {
        return true;
    }
    (void)ag_record_stack_outer(sp, rbp, search_signal_frames, &is_outside);
    return !is_outside;
}

void ag_libc_arenas_report(void) {
    const uintptr_t *frame = __builtin_frame_address(0);
    if (!ask || !ag_recorder_is_active() || ag_process_is_forked() ||
        ag_recorder.process_number != recorded_process ||
        may_be_in_a_handler(frame + 1, frame[0])) {
        return;
    }
    const struct malloc_sizes sizes = ask();
    const uint64_t all = (uint64_t)sizes.arena_bytes + sizes.mapped_bytes;
    const struct ag_held_memory memory = {.heap = HEAP_MALLOC,
                                          .known = AG_MEMORY_SIZES | AG_MEMORY_FREE,
                                          .reserved_bytes = all,
                                          .committed_bytes = all,
                                          .free_bytes = sizes.free_bytes};
    ag_record_memory(&memory);
}
