/* judge.c: what libunwind says of a stack; a small shared object for tests and for the agent's
 * debug mode, which load it.
 *
 * It knows nothing of ours: it starts from its own registers, unwinds its way out of whoever called
 * it, and speaks from the frame on that the capture started from. */
#define UNW_LOCAL_ONLY
#include "judge.h"

#include <libunwind.h>
#include <stdbool.h>

int allogram_judge(const uintptr_t *sp, uintptr_t *ret_pcs, int capacity) {
    unw_context_t context;
    unw_cursor_t cursor;
    if (unw_getcontext(&context) != 0 || unw_init_local(&cursor, &context) != 0) {
        return -1;
    }
    int n_frames = 0;
    bool has_begun = false;
    do {
        unw_word_t pc, frame_sp;
        if (unw_get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0 ||
            unw_get_reg(&cursor, UNW_REG_SP, &frame_sp) != 0) {
            break;
        }
        has_begun |= frame_sp == (uintptr_t)(sp + 1) && pc == *sp;
        if (has_begun) {
            if (n_frames == capacity) {
                break;
            }
            /* "signal frame" is what libunwind calls the interrupted one, not the trampoline */
            ret_pcs[n_frames++] = pc + (unw_is_signal_frame(&cursor) > 0);
        }
    } while (unw_step(&cursor) > 0);
    return has_begun ? n_frames : -1;
}

void allogram_judge_forget(void) {
    unw_flush_cache(unw_local_addr_space, 0, 0);
}
