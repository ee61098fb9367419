/* instruction.c: determines the lengths of x86-64 instructions, for relocate.c.
 *
 * An instruction consists of prefixes, REX (or VEX or EVEX, which include the opcode map), opcode,
 * ModRM with SIB and displacement, and immediate. In the tables below, one letter per opcode says
 * what follows the opcode. The tables correspond to the opcode maps of the Intel manual (volume 2,
 * appendix A), one row for 16 opcodes:
 *
 *     .  nothing follows             m  ModRM                  z  imm32 (imm16 with prefix 66)
 *     b  imm8                        M  ModRM and imm8         Z  ModRM and imm32 (imm16 with 66)
 *     w  imm16                       v  imm64 with REX.W, else as z (mov to a register)
 *     e  imm16 and imm8 (enter)      o  64-bit address (mov to and from the accumulator)
 *     j  branch rel8                 J  branch rel32
 *     g  group 3: ModRM, and for its /0 and /1 (test) the immediate of b or z
 *     p  prefix, or escape to another table
 *     -  no instruction in 64-bit mode, or not supported
 *
 * No library is used for this: the agent (the library that is loaded into the profiled process)
 * links only libc, and Debian has the disassembler library Zydis only as a shared object. But a
 * test compares this file with Zydis for all code of the C library and of several allocators. */
#include "instruction.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

static const char one_byte_map[256 + 1] =
    /* 0123456789abcdef */
    "mmmmbz--mmmmbz-p" /* 0 */
    "mmmmbz--mmmmbz--" /* 1 */
    "mmmmbzp-mmmmbzp-" /* 2 */
    "mmmmbzp-mmmmbzp-" /* 3 */
    "pppppppppppppppp" /* 4: REX */
    "................" /* 5 */
    "--pmppppzZbM...." /* 6 */
    "jjjjjjjjjjjjjjjj" /* 7 */
    "MZ-Mmmmmmmmmmmmm" /* 8 */
    "..........-....." /* 9 */
    "oooo....bz......" /* a */
    "bbbbbbbbvvvvvvvv" /* b */
    "MMw.ppMZe.w..b-." /* c */
    "mmmm---.mmmmmmmm" /* d */
    "jjjjbbbbJJ-j...." /* e */
    "p.pp..gg......mm" /* f */;

static const char two_byte_map[256 + 1] = /* after 0f */
    /* 0123456789abcdef */
    "mmmm-.....-.-m.M" /* 0 */
    "mmmmmmmmmmmmmmmm" /* 1 */
    "--------mmmmmmmm" /* 2: control registers are privileged */
    "......-.p-p-----" /* 3 */
    "mmmmmmmmmmmmmmmm" /* 4 */
    "mmmmmmmmmmmmmmmm" /* 5 */
    "mmmmmmmmmmmmmmmm" /* 6 */
    "MMMMmmm.mmmmmmmm" /* 7 */
    "JJJJJJJJJJJJJJJJ" /* 8 */
    "mmmmmmmmmmmmmmmm" /* 9 */
    "...mMm--...mMmmm" /* a */
    "mmmmmmmmmmMmmmmm" /* b */
    "mmMmMMMm........" /* c */
    "mmmmmmmmmmmmmmmm" /* d */
    "mmmmmmmmmmmmmmmm" /* e */
    "mmmmmmmmmmmmmmmm" /* f */;

/* The state of decoding one instruction. */
struct reading {
    const uint8_t *bytes;
    size_t n_bytes, at;
    bool has_16, has_32; /* prefixes 66 and 67 */
    uint8_t rex;
    uint8_t opcode;
    char shape;       /* a letter of the maps */
    bool is_two_byte; /* the opcode follows 0f */
};

enum { PREFIX_16 = 0x66, PREFIX_32 = 0x67, REX_W = 8 };

static bool is_legacy_prefix(uint8_t byte) {
    switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case PREFIX_16:
    case PREFIX_32:
    case 0xf0:
    case 0xf2:
    case 0xf3:
        return true;
    default:
        return false;
    }
}

static bool has(const struct reading *reading, size_t n_bytes) {
    return reading->n_bytes - reading->at >= n_bytes;
}

static int read_prefixes(struct reading *reading) {
    while (has(reading, 1) && is_legacy_prefix(reading->bytes[reading->at])) {
        reading->has_16 |= reading->bytes[reading->at] == PREFIX_16;
        reading->has_32 |= reading->bytes[reading->at] == PREFIX_32;
        reading->at++;
    }
    if (has(reading, 1) && (reading->bytes[reading->at] & 0xf0) == 0x40) {
        reading->rex = reading->bytes[reading->at++];
    }
    return has(reading, 1) ? 0 : -ENODATA;
}

/* The opcode maps of VEX and EVEX instructions: map 1 is 0f, 2 is 0f 38, 3 is 0f 3a; the lengths in
 * maps 5 and 6 (half precision) are as in map 2. All of these instructions but those with opcode
 * 0f 77 have ModRM. */
static int set_vector_shape(struct reading *reading, unsigned map) {
    const char shape = two_byte_map[reading->opcode];
    switch (map) {
    case 1:
        reading->shape = reading->opcode == 0x77 ? '.' : shape;
        return shape == 'm' || shape == 'M' || reading->opcode == 0x77 ? 0 : -EILSEQ;
    case 2:
    case 5:
    case 6:
        reading->shape = 'm';
        return 0;
    case 3:
        reading->shape = 'M';
        return 0;
    default:
        return -EILSEQ;
    }
}

/* Reads the rest of a VEX prefix (c5 and one byte, or c4 and two bytes) or EVEX prefix (62 and
 * three bytes), and the opcode after it. Neither REX nor 66 can precede these prefixes. */
static int read_vector_opcode(struct reading *reading, uint8_t escape) {
    const size_t n_payload = escape == 0xc5 ? 1 : escape == 0xc4 ? 2 : 3;
    if (reading->rex != 0 || reading->has_16) {
        return -EILSEQ;
    }
    if (!has(reading, n_payload + 1)) {
        return -ENODATA;
    }
    const uint8_t payload = reading->bytes[reading->at];
    const unsigned map = escape == 0xc5 ? 1 : escape == 0xc4 ? payload & 0x1f : payload & 0x7;
    reading->at += n_payload;
    reading->opcode = reading->bytes[reading->at++];
    const int r = set_vector_shape(reading, map);
    reading->is_two_byte = true;
    reading->opcode = 0; /* so that is_strange and flow_of do not examine it */
    return r;
}

static int read_opcode(struct reading *reading) {
    reading->opcode = reading->bytes[reading->at++];
    reading->shape = one_byte_map[reading->opcode];
    if (reading->opcode == 0xc4 || reading->opcode == 0xc5 || reading->opcode == 0x62) {
        return read_vector_opcode(reading, reading->opcode);
    }
    if (reading->opcode != 0x0f) {
        return reading->shape == 'p' ? -EILSEQ : 0;
    }
    if (!has(reading, 1)) {
        return -ENODATA;
    }
    reading->opcode = reading->bytes[reading->at++];
    reading->shape = two_byte_map[reading->opcode];
    reading->is_two_byte = true;
    /* 0f 38 and 0f 3a: one more opcode byte follows; all instructions of these maps have ModRM */
    if (reading->shape == 'p') {
        if (!has(reading, 1)) {
            return -ENODATA;
        }
        reading->shape = reading->opcode == 0x38 ? 'm' : 'M';
        reading->at++;
        reading->opcode = 0; /* so that is_strange and flow_of do not examine it */
    }
    return 0;
}

static bool has_operand_byte(char shape) {
    return shape == 'm' || shape == 'M' || shape == 'Z' || shape == 'g';
}

/* Reads ModRM, SIB and displacement. The caller needs *ret_modrm, because some opcodes are several
 * instructions, which ModRM distinguishes. */
static int read_operand(struct reading *reading, struct ag_instruction *instruction,
                        uint8_t *ret_modrm) {
    if (!has(reading, 1)) {
        return -ENODATA;
    }
    const uint8_t modrm = reading->bytes[reading->at++];
    const unsigned mode = modrm >> 6, base = modrm & 7;
    *ret_modrm = modrm;
    if (mode == 3) {
        return 0;
    }
    size_t displacement_bytes = mode == 1 ? 1 : mode == 2 ? 4 : 0;
    if (base == 4) {
        if (!has(reading, 1)) {
            return -ENODATA;
        }
        if ((reading->bytes[reading->at++] & 7) == 5 && mode == 0) {
            displacement_bytes = 4;
        }
    } else if (base == 5 && mode == 0) {
        if (reading->has_32) {
            return -EILSEQ; /* an operand relative to eip: compilers do not use it */
        }
        displacement_bytes = 4;
        instruction->memory_offset = (uint8_t)reading->at;
    }
    if (!has(reading, displacement_bytes)) {
        return -ENODATA;
    }
    reading->at += displacement_bytes;
    return 0;
}

static size_t immediate_bytes(const struct reading *reading, uint8_t modrm) {
    const size_t z = reading->has_16 && (reading->rex & REX_W) == 0 ? 2 : 4;
    switch (reading->shape) {
    case 'b':
    case 'M':
        return 1;
    case 'w':
        return 2;
    case 'e':
        return 3;
    case 'z':
    case 'Z':
        return z;
    case 'v':
        return (reading->rex & REX_W) != 0 ? 8 : z;
    case 'o':
        return reading->has_32 ? 4 : 8;
    case 'g':
        return ((modrm >> 3) & 7) > 1 ? 0 : reading->opcode == 0xf6 ? 1 : z;
    default:
        return 0;
    }
}

static enum ag_flow flow_of(const struct reading *reading, uint8_t modrm) {
    if (reading->is_two_byte) {
        return reading->shape == 'J'     ? AG_FLOW_CONDITION
               : reading->opcode == 0x0b ? AG_FLOW_END
                                         : AG_FLOW_NEXT;
    }
    switch (reading->opcode) {
    case 0xe8:
        return AG_FLOW_CALL;
    case 0xe9:
    case 0xeb:
        return AG_FLOW_JUMP;
    case 0xe0:
    case 0xe1:
    case 0xe2:
    case 0xe3:
        return AG_FLOW_COUNT;
    case 0xc2:
    case 0xc3:
    case 0xca:
    case 0xcb:
    case 0xcc:
    case 0xcf:
    case 0xf4:
        return AG_FLOW_END;
    case 0xff: /* /4 and /5: indirect jmp */
        return ((modrm >> 3) & 6) == 4 ? AG_FLOW_END : AG_FLOW_NEXT;
    default:
        return reading->shape == 'j' ? AG_FLOW_CONDITION : AG_FLOW_NEXT;
    }
}

/* Whether the bytes may be an instruction that the tables do not describe: its length differs from
 * the length in the tables, or it is an unsupported instruction with the same opcode. */
static bool is_strange(const struct reading *reading, uint8_t modrm) {
    const unsigned extension = (modrm >> 3) & 7;
    if (reading->is_two_byte) {
        return (reading->shape == 'J' && reading->has_16) || /* prefix 66: AMD reads rel16 */
               (reading->opcode >= 0x78 &&
                reading->opcode <= 0x7b); /* vmread and vmwrite, or AMD's extrq */
    }
    switch (reading->opcode) {
    case 0x8f: /* pop; other extensions are AMD's XOP */
    case 0xc7: /* /0 is mov; /7 is xbegin, a branch */
    case 0xc6:
        return extension != 0;
    /* With prefix 66, CPUs of AMD read a rel16, unless REX.W overrides the prefix. The linker's
     * calls of __tls_get_addr have both prefixes. */
    case 0xe8:
    case 0xe9:
        return reading->has_16 && (reading->rex & REX_W) == 0;
    default:
        return false;
    }
}

int ag_instruction_decode(const uint8_t *bytes, size_t n_bytes,
                          struct ag_instruction *ret_instruction) {
    struct reading reading = {
        .bytes = bytes, .n_bytes = n_bytes < AG_INSTRUCTION_BYTES ? n_bytes : AG_INSTRUCTION_BYTES};
    struct ag_instruction instruction = {0};
    uint8_t modrm = 0;
    int r = read_prefixes(&reading);
    if (r == 0) {
        r = read_opcode(&reading);
    }
    if (r == 0 && reading.shape == '-') {
        r = -EILSEQ;
    }
    if (r == 0 && has_operand_byte(reading.shape)) {
        r = read_operand(&reading, &instruction, &modrm);
    }
    if (r == 0 && is_strange(&reading, modrm)) {
        r = -EILSEQ;
    }
    if (r == 0) {
        instruction.target_bytes = reading.shape == 'j' ? 1 : reading.shape == 'J' ? 4 : 0;
        instruction.target_offset = instruction.target_bytes != 0 ? (uint8_t)reading.at : 0;
        const size_t rest = immediate_bytes(&reading, modrm) + instruction.target_bytes;
        r = has(&reading, rest) ? 0 : -ENODATA;
        reading.at += rest;
    }
    if (r < 0) {
        return r == -ENODATA && n_bytes >= AG_INSTRUCTION_BYTES ? -EILSEQ : r;
    }
    instruction.n_bytes = (uint8_t)reading.at;
    instruction.flow = flow_of(&reading, modrm);
    instruction.condition = instruction.flow == AG_FLOW_CONDITION ? reading.opcode & 15 : 0;
    *ret_instruction = instruction;
    return 0;
}

static int32_t signed_at(const uint8_t *bytes, size_t n_bytes) {
    int32_t value;
    if (n_bytes == 1) {
        return (int8_t)bytes[0];
    }
    memcpy(&value, bytes, sizeof(value));
    return value;
}

uint64_t ag_instruction_target(const struct ag_instruction *instruction, const uint8_t *bytes,
                               uint64_t address) {
    const int32_t distance =
        signed_at(bytes + instruction->target_offset, instruction->target_bytes);
    return address + instruction->n_bytes + (uint64_t)(int64_t)distance;
}

uint64_t ag_instruction_memory(const struct ag_instruction *instruction, const uint8_t *bytes,
                               uint64_t address) {
    return address + instruction->n_bytes +
           (uint64_t)(int64_t)signed_at(bytes + instruction->memory_offset, 4);
}
