/* reached_code.c: reads the instructions of functions from the target's memory, one after the
 * other, and follows the jumps that leave a function. A stub is code that only jumps through a word
 * in memory, such as an entry of the PLT (procedure linkage table). */
#include "reached_code.h"

#include <string.h>

#include "hook/arch/x86_64/instruction.h"
#include "hook/arch/x86_64/relocate.h"
#include "remote/remote_memory.h"

enum {
    CODE_BYTES = 16 << 10, /* how much of a function is read */
    STUBS_MOST = 4,        /* stubs in a row that are followed */
    PUSH = 0x68,           /* push imm32 */
};
static const uint8_t push_word[] = {0xff, 0x35}; /* push disp32(%rip) */

/* Whether the instruction is `jmp *disp32(%rip)`, maybe with a prefix (bnd, notrack). */
static bool is_jump_through_word(const struct ag_instruction *instruction, const uint8_t *bytes) {
    const uint8_t *opcode = bytes + instruction->memory_offset - 2;
    return instruction->memory_offset >= 2 && instruction->flow == AG_FLOW_END &&
           opcode[0] == 0xff && opcode[1] == 0x25;
}

/* An instruction of the target. An endbr64 at the address that was asked for is skipped. */
struct decoded {
    uint64_t address;
    /* the instruction, and the bytes after it */
    uint8_t bytes[AG_LANDING_BYTES + 2 * AG_INSTRUCTION_BYTES];
    struct ag_instruction instruction;
};

static bool decode_at(pid_t pid, uint64_t address, struct decoded *ret_decoded) {
    uint8_t *bytes = ret_decoded->bytes;
    memset(bytes, 0, sizeof ret_decoded->bytes);
    if (ag_remote_memory_read_some(pid, address, bytes, sizeof ret_decoded->bytes) <= 0) {
        return false;
    }
    const size_t landing = ag_landing_bytes(bytes, sizeof ret_decoded->bytes);
    memmove(bytes, bytes + landing, sizeof ret_decoded->bytes - landing);
    ret_decoded->address = address + landing;
    return ag_instruction_decode(bytes, AG_INSTRUCTION_BYTES, &ret_decoded->instruction) == 0;
}

static bool is_stub(const struct decoded *decoded) {
    return is_jump_through_word(&decoded->instruction, decoded->bytes);
}

/* Whether the instruction begins the second part of a stub, which calls the loader. */
static bool is_unbound(const struct decoded *decoded) {
    const uint8_t *bytes = decoded->bytes;
    return bytes[0] == PUSH || (bytes[0] == push_word[0] && bytes[1] == push_word[1]);
}

/* If ADDRESS is a stub that only jumps through a word in memory, returns where it jumps to, or 0 if
 * the loader has not bound the stub yet. Otherwise returns ADDRESS. */
static uint64_t behind_stubs(const struct ag_reached_code *reached, uint64_t address) {
    const pid_t pid = reached->images->process->pid;
    struct decoded decoded;
    for (int i = 0; i < STUBS_MOST && decode_at(pid, address, &decoded); i++) {
        uint64_t target = 0;
        if (i > 0 && is_unbound(&decoded)) {
            return 0;
        }
        if (!is_stub(&decoded) ||
            ag_remote_memory_read(
                pid, ag_instruction_memory(&decoded.instruction, decoded.bytes, decoded.address),
                &target, sizeof target) < 0) {
            break;
        }
        address = target;
    }
    return address;
}

bool ag_is_in_stub(pid_t pid, uint64_t pc) {
    struct decoded decoded, next;
    if (!decode_at(pid, pc, &decoded)) {
        return false;
    }
    const uint64_t target =
        decoded.instruction.flow == AG_FLOW_JUMP
            ? ag_instruction_target(&decoded.instruction, decoded.bytes, decoded.address)
            : decoded.address + decoded.instruction.n_bytes;
    /* a stub, its second part (push, jmp), or the code to which all second parts jump */
    return is_stub(&decoded) ||
           (is_unbound(&decoded) && decode_at(pid, target, &next) &&
            (is_stub(&next) || next.instruction.flow == AG_FLOW_JUMP)) ||
           (decoded.instruction.flow == AG_FLOW_JUMP && decode_at(pid, target, &next) &&
            is_unbound(&next));
}

static void add_function(struct ag_reached_code *reached, uint64_t address) {
    uint64_t low, high;
    address = behind_stubs(reached, address);
    for (size_t i = 0; i < reached->n; i++) {
        if (reached->functions[i].low <= address && address < reached->functions[i].high) {
            return;
        }
    }
    struct ag_observed_image *image = ag_observed_images_find(reached->images, address);
    if (image != NULL && image != reached->libc && reached->n < AG_REACHED_MOST &&
        ag_observed_image_function(image, address, &low, &high)) {
        reached->functions[reached->n].low = low;
        reached->functions[reached->n++].high = high;
    }
}

static void follow_jumps(struct ag_reached_code *reached, uint64_t low, uint64_t high) {
    static uint8_t code[CODE_BYTES]; /* attach examines one process, in one thread */
    const size_t wanted = high - low < sizeof code ? (size_t)(high - low) : sizeof code;
    const ssize_t n = ag_remote_memory_read_some(reached->images->process->pid, low, code, wanted);
    struct ag_instruction instruction;
    for (size_t at = 0; n > 0 && at < (size_t)n; at += instruction.n_bytes) {
        if (ag_instruction_decode(code + at, (size_t)n - at, &instruction) < 0) {
            return; /* data, or an instruction that is not known */
        }
        if (is_jump_through_word(&instruction, code + at)) {
            add_function(reached, low + at); /* the jump itself is a stub */
        } else if (instruction.flow == AG_FLOW_JUMP || instruction.flow == AG_FLOW_CONDITION) {
            const uint64_t target = ag_instruction_target(&instruction, code + at, low + at);
            if (target < low || target >= high) {
                add_function(reached, target);
            }
        }
    }
}

void ag_reached_code_add(struct ag_reached_code *reached, uint64_t address) {
    size_t i = reached->n;
    add_function(reached, address);
    for (; i < reached->n; i++) {
        follow_jumps(reached, reached->functions[i].low, reached->functions[i].high);
    }
}
