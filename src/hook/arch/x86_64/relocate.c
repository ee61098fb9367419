/* relocate.c: copies a function's first instructions to another address, for detour.c, which
 * overwrites them with a jump. Recomputes rip-relative distances, and makes short branches long.
 *
 *     original                         copy
 *     mov   x(%rip), %rax              mov   x'(%rip), %rax        the same operand from elsewhere
 *     je    rel8                       je    rel32
 *     call  rel32                      call  rel32'                returns into the copy
 *     jrcxz rel8                       jrcxz 2; jmp 5; jmp rel32   has no long form
 *
 * A branch into the bytes that the detour's jump overwrites cannot be supported. A branch from the
 * rest of the function to its very first byte is harmless: it calls the function again. If the
 * function's size is known, the function is searched for branches into the overwritten bytes. */
#include "relocate.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "instruction.h"

static const uint8_t landing[AG_LANDING_BYTES] = {0xf3, 0x0f, 0x1e, 0xfa};

/* functions begin at multiples of this, so the padding after a function ends at a multiple */
enum { ALIGNMENT_BYTES = 16 };

size_t ag_landing_bytes(const uint8_t *code, size_t n_bytes) {
    return n_bytes >= AG_LANDING_BYTES && memcmp(code, landing, AG_LANDING_BYTES) == 0
               ? AG_LANDING_BYTES
               : 0;
}

void ag_write_landing(uint8_t ret_bytes[AG_LANDING_BYTES]) {
    memcpy(ret_bytes, landing, AG_LANDING_BYTES);
}

/* Computes the distance from the end of an instruction to TARGET. Returns false if the distance
 * does not fit into 32 bits. */
static bool distance_between(uint64_t end, uint64_t target, int32_t *ret_distance) {
    const int64_t distance = (int64_t)(target - end);
    *ret_distance = (int32_t)distance;
    return distance == *ret_distance;
}

const uintptr_t *ag_jump_slot(const uint8_t *code) {
    static const uint8_t indirect[] = {0xff, 0x25}; /* jmp *disp32(%rip) */
    int32_t distance;
    const uint8_t *at = code + ag_landing_bytes(code, AG_LANDING_BYTES);
    if (*at == 0xe9) { /* jmp rel32 */
        memcpy(&distance, at + 1, sizeof(distance));
        at += AG_JUMP_BYTES + distance;
        at += ag_landing_bytes(at, AG_LANDING_BYTES);
        at += *at == 0xf2 ? 1 : 0; /* the prefix bnd */
    }
    if (memcmp(at, indirect, sizeof(indirect)) != 0) {
        return NULL;
    }
    memcpy(&distance, at + sizeof(indirect), sizeof(distance));
    return (const uintptr_t *)(at + sizeof(indirect) + sizeof(distance) + distance);
}

int ag_write_jump(uint8_t ret_bytes[AG_JUMP_BYTES], uint64_t address, uint64_t target) {
    int32_t distance;
    if (!distance_between(address + AG_JUMP_BYTES, target, &distance)) {
        return -ERANGE;
    }
    ret_bytes[0] = 0xe9;
    memcpy(ret_bytes + 1, &distance, sizeof(distance));
    return 0;
}

void ag_write_far_jump(uint8_t ret_bytes[AG_FAR_JUMP_BYTES], uint64_t target) {
    static const uint8_t jump[] = {0xff, 0x25, 0, 0, 0, 0};
    memcpy(ret_bytes, jump, sizeof(jump));
    memcpy(ret_bytes + sizeof(jump), &target, sizeof(target));
}

void ag_write_kept_frame(uint8_t ret_bytes[AG_KEPT_FRAME_BYTES], uint64_t enter, uint64_t datum) {
    static const uint8_t frame[] = {
        0x55,                         /* push %rbp */
        0x48, 0x89, 0xe5,             /* mov %rsp, %rbp */
        0x48, 0x8d, 0x64, 0x24, 0x90, /* lea -112(%rsp), %rsp: unlike sub, keeps the flags */
        0x48, 0x89, 0x45, 0xe8,       /* mov %rax, OFFSET_RAX(%rbp) */
        0x48, 0xb8,                   /* movabs $datum, %rax */
    };
    static const uint8_t keep_datum[] = {0x48, 0x89, 0x45, 0xf8}; /* mov %rax, OFFSET_DATUM(%rbp) */
    _Static_assert(sizeof(frame) + sizeof(datum) + sizeof(keep_datum) + AG_FAR_JUMP_BYTES ==
                       AG_KEPT_FRAME_BYTES,
                   "the pieces have AG_KEPT_FRAME_BYTES in total");
    memcpy(ret_bytes, frame, sizeof(frame));
    ret_bytes += sizeof(frame);
    memcpy(ret_bytes, &datum, sizeof(datum));
    ret_bytes += sizeof(datum);
    memcpy(ret_bytes, keep_datum, sizeof(keep_datum));
    ag_write_far_jump(ret_bytes + sizeof(keep_datum), enter);
}

static int relocation_fail(struct ag_relocation *relocation, int error, const char *reason) {
    relocation->reason = reason;
    return error;
}

/* The copy that is being written. */
struct writing {
    struct ag_relocation *relocation;
    size_t n_bytes;
};

/* Appends an opcode and a rel32, the distance to TARGET. Returns false if there is no room, or
 * TARGET is out of reach. */
static bool put_branch(struct writing *writing, const uint8_t *opcode, size_t n_opcode,
                       uint64_t target) {
    const struct ag_relocation *relocation = writing->relocation;
    const uint64_t end = relocation->copy_address + writing->n_bytes + n_opcode + 4;
    int32_t distance;
    if (writing->n_bytes + n_opcode + 4 > AG_RELOCATED_BYTES ||
        !distance_between(end, target, &distance)) {
        return false;
    }
    memcpy(relocation->copy + writing->n_bytes, opcode, n_opcode);
    memcpy(relocation->copy + writing->n_bytes + n_opcode, &distance, sizeof(distance));
    writing->n_bytes += n_opcode + 4;
    return true;
}

static bool put_unchanged(struct writing *writing, const uint8_t *bytes,
                          const struct ag_instruction *instruction, uint64_t address) {
    const struct ag_relocation *relocation = writing->relocation;
    uint8_t *copy = relocation->copy + writing->n_bytes;
    if (writing->n_bytes + instruction->n_bytes > AG_RELOCATED_BYTES) {
        return false;
    }
    memcpy(copy, bytes, instruction->n_bytes);
    const uint64_t end = relocation->copy_address + writing->n_bytes + instruction->n_bytes;
    writing->n_bytes += instruction->n_bytes;
    if (instruction->memory_offset == 0) {
        return true;
    }
    int32_t distance;
    if (!distance_between(end, ag_instruction_memory(instruction, bytes, address), &distance)) {
        return false;
    }
    memcpy(copy + instruction->memory_offset, &distance, sizeof(distance));
    return true;
}

static bool code_put(struct writing *writing, const uint8_t *bytes,
                     const struct ag_instruction *instruction, uint64_t address) {
    if (instruction->target_bytes == 0) {
        return put_unchanged(writing, bytes, instruction, address);
    }
    const uint64_t target = ag_instruction_target(instruction, bytes, address);
    switch (instruction->flow) {
    case AG_FLOW_CALL:
        return put_branch(writing, (const uint8_t[]){0xe8}, 1, target);
    case AG_FLOW_JUMP:
        return put_branch(writing, (const uint8_t[]){0xe9}, 1, target);
    case AG_FLOW_CONDITION:
        return put_branch(
            writing, (const uint8_t[]){0x0f, (uint8_t)(0x80 | instruction->condition)}, 2, target);
    case AG_FLOW_COUNT: {
        const uint8_t opcode = bytes[instruction->target_offset - 1];
        return put_branch(writing, (const uint8_t[]){opcode, 2, 0xeb, 5, 0xe9}, 5, target);
    }
    case AG_FLOW_NEXT:
    case AG_FLOW_END:
        break;
    }
    return false; /* instructions of these kinds have no target */
}

/* Whether the instruction is padding, which may follow a function and is never executed. */
static bool is_padding(const uint8_t *bytes, const struct ag_instruction *instruction) {
    size_t at = 0;
    while (at < instruction->n_bytes && (bytes[at] == 0x66 || bytes[at] == 0x2e)) {
        at++;
    }
    return bytes[at] == 0x90 || bytes[at] == 0xcc ||
           (at + 1 < instruction->n_bytes && bytes[at] == 0x0f && bytes[at + 1] == 0x1f);
}

/* The number of padding bytes from AT up to the next aligned address. */
static size_t padding_bytes(const struct ag_relocation *relocation, size_t at) {
    size_t n_bytes = 0;
    while ((relocation->address + at + n_bytes) % ALIGNMENT_BYTES != 0) {
        struct ag_instruction instruction;
        const uint8_t *bytes = relocation->code + at + n_bytes;
        const size_t readable = relocation->readable_bytes - at - n_bytes;
        if (ag_instruction_decode(bytes, readable, &instruction) < 0 ||
            !is_padding(bytes, &instruction)) {
            break;
        }
        n_bytes += instruction.n_bytes;
    }
    return n_bytes;
}

bool ag_is_empty_function(const uint8_t *code, size_t n_bytes) {
    const struct ag_relocation place = {
        .code = code, .address = (uint64_t)(uintptr_t)code, .readable_bytes = n_bytes};
    const size_t at = n_bytes > 1 && code[0] == 0xf3 ? 2 : 1; /* rep ret, ret */
    return n_bytes > at && code[at - 1] == 0xc3 && at + padding_bytes(&place, at) >= AG_JUMP_BYTES;
}

static bool ends(const struct ag_instruction *instruction) {
    return instruction->flow == AG_FLOW_END || instruction->flow == AG_FLOW_JUMP;
}

/* Copies instructions until the copied bytes have room for a jump. *ret_ended: execution does not
 * continue after the last copied instruction. */
static int copy_beginning(struct writing *writing, bool *ret_ended) {
    struct ag_relocation *relocation = writing->relocation;
    size_t at = 0;
    bool has_ended = false;
    while (at < AG_JUMP_BYTES) {
        const uint8_t *bytes = relocation->code + at;
        struct ag_instruction instruction;
        const size_t readable = relocation->readable_bytes - at;
        if (has_ended || (relocation->function_bytes != 0 && at >= relocation->function_bytes)) {
            const bool is_whole = has_ended && relocation->function_bytes == at;
            if (!is_whole || at + padding_bytes(relocation, at) < AG_JUMP_BYTES) {
                return relocation_fail(relocation, -ENOSPC, "its beginning has no room for a jump");
            }
            at = AG_JUMP_BYTES;
            break;
        }
        if (ag_landing_bytes(bytes, readable) != 0) {
            return relocation_fail(relocation, -EBUSY,
                                   "an indirect branch may land within its first bytes");
        }
        if (ag_instruction_decode(bytes, readable, &instruction) < 0) {
            return relocation_fail(relocation, -EILSEQ, "one of its first instructions is unknown");
        }
        if (!code_put(writing, bytes, &instruction, relocation->address + at)) {
            return relocation_fail(relocation, -ERANGE,
                                   "an operand of its first instructions is out of reach");
        }
        has_ended = ends(&instruction);
        at += instruction.n_bytes;
    }
    relocation->replaced_bytes = at;
    *ret_ended = has_ended;
    return 0;
}

/* Whether a branch at offsets [FROM, TO) of the function goes to offsets [FIRST, replaced_bytes). A
 * byte that does not decode (a jump table within code) is skipped. */
static bool is_entered(const struct ag_relocation *relocation, size_t from, size_t to,
                       size_t first) {
    for (size_t at = from; at < to;) {
        const uint8_t *bytes = relocation->code + at;
        struct ag_instruction instruction;
        if (ag_instruction_decode(bytes, relocation->readable_bytes - at, &instruction) < 0) {
            at++;
            continue;
        }
        if (instruction.target_bytes != 0) {
            const uint64_t offset =
                ag_instruction_target(&instruction, bytes, relocation->address + at) -
                relocation->address;
            if (offset >= first && offset < relocation->replaced_bytes) {
                return true;
            }
        }
        at += instruction.n_bytes;
    }
    return false;
}

int ag_relocate(struct ag_relocation *relocation) {
    struct writing writing = {.relocation = relocation};
    bool has_ended = false;
    const int r = copy_beginning(&writing, &has_ended);
    if (r < 0) {
        return r;
    }
    const size_t known = relocation->function_bytes < relocation->readable_bytes
                             ? relocation->function_bytes
                             : relocation->readable_bytes;
    if (is_entered(relocation, 0, relocation->replaced_bytes, 0) ||
        is_entered(relocation, relocation->replaced_bytes, known, 1)) {
        return relocation_fail(relocation, -EBUSY, "the function jumps back into its first bytes");
    }
    const uint64_t rest = relocation->address + relocation->replaced_bytes;
    if (!has_ended && !put_branch(&writing, (const uint8_t[]){0xe9}, 1, rest)) {
        return relocation_fail(relocation, -ERANGE,
                               "the rest of the function is out of reach of a near jump");
    }
    return 0;
}
