/* instruction.h: determines where an x86-64 instruction ends, and which of its bytes depend on its
 * address. relocate.h needs both to copy an instruction to another address. */
#ifndef AG_INSTRUCTION_H
#define AG_INSTRUCTION_H

#include <stddef.h>
#include <stdint.h>

enum { AG_INSTRUCTION_BYTES = 15 }; /* the longest possible instruction */

enum ag_flow {
    /* execution continues after the instruction; also used for indirect calls and system calls */
    AG_FLOW_NEXT,
    AG_FLOW_CALL,      /* call rel32 */
    AG_FLOW_JUMP,      /* jmp rel8, jmp rel32 */
    AG_FLOW_CONDITION, /* jcc rel8, jcc rel32 */
    AG_FLOW_COUNT,     /* loop, loope, loopne, jrcxz: only rel8 exists */
    AG_FLOW_END,       /* ret, indirect jmp, ud2, hlt, int3: execution does not continue after it */
};
struct ag_instruction {
    uint8_t n_bytes;
    enum ag_flow flow;
    uint8_t condition; /* for AG_FLOW_CONDITION: the low half of the opcode, 0 to 15 */
    /* offset in the instruction of the disp32 of a rip-relative operand; 0: none */
    uint8_t memory_offset;
    uint8_t target_offset; /* offset in the instruction of the rel8 or rel32 of a branch; 0: none */
    uint8_t target_bytes;  /* size of that rel8 or rel32: 1 or 4; 0: none */
};

/* Decodes the instruction at BYTES. -EILSEQ: the bytes are no instruction, or an unsupported
 * instruction (rare instructions of AMD, 16-bit branches, transactions); -ENODATA: the instruction
 * does not end within N_BYTES. Async-signal-safe. */
int ag_instruction_decode(const uint8_t *bytes, size_t n_bytes,
                          struct ag_instruction *ret_instruction);

/* ag_instruction_target: the target of a branch instruction at ADDRESS. ag_instruction_memory: the
 * address of the rip-relative operand of an instruction at ADDRESS. */
uint64_t ag_instruction_target(const struct ag_instruction *instruction, const uint8_t *bytes,
                               uint64_t address);
uint64_t ag_instruction_memory(const struct ag_instruction *instruction, const uint8_t *bytes,
                               uint64_t address);

#endif
