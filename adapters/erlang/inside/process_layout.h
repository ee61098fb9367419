/* process_layout.h: the words of the emulator's process structure that describe the heap. No public
 * header has this structure. The word numbers are found by reading a process whose state is
 * known. */
#ifndef AG_BEAM_PROCESS_LAYOUT_H
#define AG_BEAM_PROCESS_LAYOUT_H

#include <erl_nif.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* Word numbers in a process; process_layout.c explains how they are found. */
struct ag_process_layout {
    uint32_t heap_top, stack_top; /* the heap grows upward and the stack downward, in one block;
                                   * their tops are the ends that move */
    uint32_t heap, heap_end, abandoned_heap;
    uint32_t message_fragments, fragment_words;
    bool is_known;
};
extern struct ag_process_layout ag_process_layout AG_HIDDEN;

/* The words of a process that are read at an event, by the thread that runs the process. */
struct ag_process_heap {
    const uint64_t *heap, *top, *stack, *end, *abandoned;
    const void *message_fragments; /* received messages that are not part of the heap yet */
    uint64_t fragment_words;
};

/* The words of the environment of a native function (the same from OTP 25 to 29, checked by
 * ag_process_layout_find). */
enum { AG_ENV_PROCESS = 1, AG_ENV_HEAP_TOP = 2, AG_ENV_HEAP_END = 3, AG_ENV_FRAGMENT = 4 };
AG_FAST const uint64_t *ag_env_word(ErlNifEnv *env, uint32_t word) {
    return ((const uint64_t *const *)env)[word];
}

/* Finds the layout from an ordinary call of a native function, and verifies it. Returns NULL, or
 * the name of what could not be found. */
const char *ag_process_layout_find(ErlNifEnv *env);

/* Whether ENV is the environment of the process PID, so that the heap of PID can be read. Word 0 of
 * a process is its identifier. */
AG_FAST bool ag_process_is_here(ErlNifEnv *env, ERL_NIF_TERM pid) {
    const uint64_t *process = ag_env_word(env, AG_ENV_PROCESS);
    return process != NULL && process[0] == pid;
}

AG_FAST void ag_process_read(ErlNifEnv *env, struct ag_process_heap *ret_heap) {
    const uint64_t *process = ag_env_word(env, AG_ENV_PROCESS);
    const uint64_t *const *pointers = (const uint64_t *const *)process;
    *ret_heap = (struct ag_process_heap){
        .heap = pointers[ag_process_layout.heap],
        .top = ag_env_word(env, AG_ENV_HEAP_TOP),
        .stack = pointers[ag_process_layout.stack_top],
        .end = pointers[ag_process_layout.heap_end],
        .abandoned = pointers[ag_process_layout.abandoned_heap],
        .message_fragments = pointers[ag_process_layout.message_fragments],
        .fragment_words = process[ag_process_layout.fragment_words],
    };
}

#endif
