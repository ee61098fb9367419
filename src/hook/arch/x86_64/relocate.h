/* relocate.h: the first instructions of a function, rewritten so that they do the same somewhere
 * else. */
#ifndef AG_RELOCATE_H
#define AG_RELOCATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    AG_JUMP_BYTES = 5,      /* jmp rel32: what a detour overwrites */
    AG_FAR_JUMP_BYTES = 14, /* jmp *0(%rip) and the address behind it */
    AG_KEPT_FRAME_BYTES = 41,
    AG_LANDING_BYTES = 4, /* endbr64: where indirect branches may land, when the CPU checks that */
    AG_RELOCATED_BYTES =
        96 /* room enough for what AG_JUMP_BYTES and one instruction more grow to */
};
struct ag_relocation {
    const uint8_t *code; /* the function as it stands at `address`, behind its endbr64 */
    uint64_t address;
    size_t readable_bytes; /* from code on */
    size_t function_bytes; /* from code on; 0: unknown */
    uint8_t *copy;         /* AG_RELOCATED_BYTES, which will run at `copy_address` */
    uint64_t copy_address;
    size_t replaced_bytes; /* answer: whole instructions, at least AG_JUMP_BYTES */
    const char *reason;    /* answer: why not */
};

/* Copies so many whole instructions that a jump has room, and appends a jump to the rest of the
 * function. 0, or a negative errno with a reason: -ENOSPC: the function is too short; -EILSEQ: an
 * unknown instruction; -EBUSY: something jumps into the bytes that would be overwritten; -ERANGE:
 * an operand would be out of reach. */
int ag_relocate(struct ag_relocation *relocation);

/* Is the function at CODE, behind its endbr64, a mere return, with padding behind it that makes
 * room for a jump? */
bool ag_is_empty_function(const uint8_t *code, size_t n_bytes);

/* Writes jmp TARGET as it has to stand at ADDRESS; -ERANGE: too far for a near one. */
int ag_write_jump(uint8_t ret_bytes[AG_JUMP_BYTES], uint64_t address, uint64_t target);
void ag_write_far_jump(uint8_t ret_bytes[AG_FAR_JUMP_BYTES], uint64_t target);
/* Writes the beginning of a kept call (hook/kept_call.h): makes the frame, saves rax and the datum,
 * jumps to ENTER. */
void ag_write_kept_frame(uint8_t ret_bytes[AG_KEPT_FRAME_BYTES], uint64_t enter, uint64_t datum);
void ag_write_landing(uint8_t ret_bytes[AG_LANDING_BYTES]);
/* AG_LANDING_BYTES when CODE starts with endbr64, else 0. */
size_t ag_landing_bytes(const uint8_t *code, size_t n_bytes);

#endif
