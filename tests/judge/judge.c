/* judge.c: unwinds a stack with libunwind, in order to check the unwinder of the agent (the library
 * that allogram preloads into programs). This file is a shared object, the judge. corner_cases.cc
 * links the judge; if the judge is preloaded, the agent's self-check (src/record/self_check.c) uses
 * it.
 *
 * The judge uses no code of the agent. It starts from its own registers and unwinds its callers.
 * The first frame that it returns is the one at which the agent's unwinder started.
 *
 * The judge loads libunwind with dlopen and does not link it. libunwind exports _Unwind_Resume, and
 * would replace libgcc's exception handling. libunwind's exception handling writes the addresses of
 * landing pads over return addresses, and no unwinder can pass such an address. */
#define UNW_LOCAL_ONLY
#include "judge.h"

#include <dlfcn.h>
#include <libunwind.h>
#include <stdbool.h>
#include <stddef.h>

/* The functions of libunwind that the judge needs. Their symbols are found by the macros of
 * libunwind.h. */
#define JUDGE_FUNCTIONS(FUNCTION)                  \
    FUNCTION(init_local, unw_init_local)           \
    FUNCTION(get_reg, unw_get_reg)                 \
    FUNCTION(is_signal_frame, unw_is_signal_frame) \
    FUNCTION(step, unw_step)                       \
    FUNCTION(flush_cache, unw_flush_cache)         \
    FUNCTION(tdep_getcontext, unw_tdep_getcontext)
#define JUDGE_TEXT(name) #name
#define JUDGE_NAME(name) JUDGE_TEXT(name)

static struct {
#define JUDGE_MEMBER(member, function) __typeof__(function) *member;
    JUDGE_FUNCTIONS(JUDGE_MEMBER)
    unw_addr_space_t *address_space;
    bool is_loaded;
} libunwind;

__attribute__((constructor(101))) static void load_libunwind(void) {
    void *handle = dlopen("libunwind.so.8", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        return; // without libunwind allogram_judge always returns -1
    }
    bool found = true;
#define JUDGE_FIND(member, function)                                   \
    *(void **)&libunwind.member = dlsym(handle, JUDGE_NAME(function)); \
    found = found && libunwind.member != NULL;
    JUDGE_FUNCTIONS(JUDGE_FIND)
    libunwind.address_space = dlsym(handle, JUDGE_NAME(unw_local_addr_space));
    libunwind.is_loaded = found && libunwind.address_space != NULL;
}

int allogram_judge(const uintptr_t *sp, uintptr_t *ret_pcs, int capacity) {
    unw_context_t context;
    unw_cursor_t cursor;
    if (!libunwind.is_loaded || libunwind.tdep_getcontext(&context) != 0 ||
        libunwind.init_local(&cursor, &context) != 0) {
        return -1;
    }
    int n_frames = 0;
    bool has_begun = false;
    do {
        unw_word_t pc, frame_sp;
        if (libunwind.get_reg(&cursor, UNW_REG_IP, &pc) != 0 || pc == 0 ||
            libunwind.get_reg(&cursor, UNW_REG_SP, &frame_sp) != 0) {
            break;
        }
        has_begun |= frame_sp == (uintptr_t)(sp + 1) && pc == *sp;
        if (has_begun) {
            if (n_frames == capacity) {
                break;
            }
            /* libunwind's signal frame is the interrupted frame, not the trampoline's frame */
            ret_pcs[n_frames++] = pc + (libunwind.is_signal_frame(&cursor) > 0);
        }
    } while (libunwind.step(&cursor) > 0);
    return has_begun ? n_frames : -1;
}

void allogram_judge_forget(void) {
    if (libunwind.is_loaded) {
        libunwind.flush_cache(*libunwind.address_space, 0, 0);
    }
}
