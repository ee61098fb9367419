/* played_target.h: memory and symbols written by a test, in place of a running process. It
 * implements the functions of include/allogram/inspector.h that an inspector (a reader of another
 * process) calls on its target, and stores what the inspector reports (its answers). */
#ifndef AG_PLAYED_TARGET_H
#define AG_PLAYED_TARGET_H

#include <allogram/inspector.h>

enum { PLAYED_BASE = 0x10000000, PLAYED_BYTES = 1 << 20, PLAYED_SYMBOLS = 64 };

struct allogram_target {
    uint8_t memory[PLAYED_BYTES]; /* at address PLAYED_BASE; nothing else is mapped */
    size_t used;
    struct {
        const char *name;
        struct allogram_target_symbol symbol;
    } symbols[PLAYED_SYMBOLS];
    size_t n_symbols;
    uint64_t n_reads; /* number of reads so far: a test checks that an inspector does not read too
                       * often */
};
/* Allocates the next n_bytes of memory, aligned to 64; returns the address, or 0 if there is no
 * room. */
uint64_t played_place(struct allogram_target *target, size_t n_bytes);
void *played_bytes(struct allogram_target *target, uint64_t address);
void played_set(struct allogram_target *target, uint64_t address, uint64_t word);
void played_set_32(struct allogram_target *target, uint64_t address, uint32_t value);
/* Allocates n_bytes and defines a symbol for them; returns the address. */
uint64_t played_symbol(struct allogram_target *target, const char *name, size_t n_bytes);

struct allogram_stack { /* frames as text, one a line, innermost first */
    char text[1 << 16];
    size_t len, n_frames;
};
struct allogram_answers {
    struct allogram_stack stack;
    char text[1 << 16]; /* what was reported, one line each */
    size_t len, n_reported;
    uint64_t n_lost;
};
void played_begin(struct allogram_answers *answers);

#endif
