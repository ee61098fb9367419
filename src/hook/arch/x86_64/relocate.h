/* relocate.h: copies the first instructions of a function so that they work at another address. */
#ifndef AG_RELOCATE_H
#define AG_RELOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AG_JUMP_BYTES = 5,        /* jmp rel32, which is written over the start of a function that is
                             * hooked */
    AG_FAR_JUMP_BYTES = 14,   /* jmp *0(%rip), followed by the address */
    AG_KEPT_FRAME_BYTES = 41, /* the code that ag_write_kept_frame writes */
    AG_LANDING_BYTES = 4,     /* endbr64, which CET requires at the target of an indirect branch */
    AG_RELOCATED_BYTES =
        96 /* enough for the copies of the instructions that begin within the first AG_JUMP_BYTES
            * bytes of the function, in their longest form, and a jump */
};
struct ag_relocation {
    /* the bytes of the function after its endbr64; they are executed at `address` */
    const uint8_t *code;
    uint64_t address;
    size_t readable_bytes; /* bytes that can be read, from `code` on */
    size_t function_bytes; /* bytes of the function, from `code` on; 0: unknown */
    /* a buffer of AG_RELOCATED_BYTES for code that will be executed at `copy_address` */
    uint8_t *copy;
    uint64_t copy_address;
    size_t replaced_bytes; /* result: bytes of the copied instructions, at least AG_JUMP_BYTES */
    const char *reason;    /* result: why ag_relocate failed */
};

/* Copies the instructions that a jump would overwrite, and appends a jump to the rest of the
 * function. Returns 0, or a negative errno with a reason: -ENOSPC: the function is too short;
 * -EILSEQ: an unknown instruction; -EBUSY: a branch goes into the bytes that would be overwritten;
 * -ERANGE: an operand would be out of reach. */
int ag_relocate(struct ag_relocation *relocation);

/* Whether a function is only a return, followed by enough padding for a jump. CODE: the function's
 * first instruction after its endbr64. */
bool ag_is_empty_function(const uint8_t *code, size_t n_bytes);

/* Returns the word of the GOT through which the function at CODE jumps, at once or through a stub
 * of the PLT (the procedure linkage table). NULL: the function begins with anything else. */
const uintptr_t *ag_jump_slot(const uint8_t *code);

/* Writes jmp TARGET for an instruction at ADDRESS; -ERANGE: too far for a near jump. */
int ag_write_jump(uint8_t ret_bytes[AG_JUMP_BYTES], uint64_t address, uint64_t target);
void ag_write_far_jump(uint8_t ret_bytes[AG_FAR_JUMP_BYTES], uint64_t target);
/* Writes the first instructions of a kept call, a detour that preserves all registers
 * (hook/kept_call.h). The instructions make the stack frame, save rax and DATUM, and jump to
 * ENTER. */
void ag_write_kept_frame(uint8_t ret_bytes[AG_KEPT_FRAME_BYTES], uint64_t enter, uint64_t datum);
void ag_write_landing(uint8_t ret_bytes[AG_LANDING_BYTES]);
/* AG_LANDING_BYTES when CODE starts with endbr64, else 0. */
size_t ag_landing_bytes(const uint8_t *code, size_t n_bytes);

#endif
