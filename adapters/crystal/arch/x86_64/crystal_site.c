/* crystal_site.c: reads the machine code around a call that allocates, to find out for reports
 * whether this code makes an object of a certain type.
 *
 * The size of an object is a constant of the code, in edi before the call. After the call the
 * program stores the type number of the object's class, also a constant, in the first 32 bits.
 * Within NEAR_BYTES after the call, Crystal's compiler writes this store in one of these forms:
 *
 *     c7 /0 imm32                  mov $number, (%block)       32 or 64 bits wide
 *     b8+r imm32 .. 89 /r          mov $number, %reg .. mov %other, (%block)
 *     REX.W b8+r imm64 .. 89 /r    the same, 64 bits wide; the register that is stored may be
 *                                  another one if the compiler merged the code of two allocations
 *     0f 28 / 0f 10 / 66 0f 6f / f3 0f 6f, rip-relative
 *                                  a load of 16 bytes from memory, which begin with the number
 *
 * If the initial values of instance variables are objects, the code that makes them is between the
 * call and the store, so the store is farther away. The compiler then keeps the address of the
 * block in a register (mov %rax, %reg soon after the call). So from NEAR_BYTES to FAR_BYTES after
 * the call only the first form, with this register, counts. A buffer for elements is not mistaken
 * for an object: its size is computed, and its first number is data that the code usually does not
 * contain.
 *
 * The bytes are searched for these patterns at every offset, because the instructions are not
 * decoded. A pattern may be found inside of another instruction. If its number is also the first
 * word of the block, the number is accepted although it is no type. A literal such as [5, 6], whose
 * size and first element are constants, is accepted by mistake, too. Numbers in the registers for
 * arguments (rdi, rsi) are sizes of further allocations, and do not count. */
#include "crystal/crystal_site.h"

#include <stddef.h>

#include "base/little_endian.h"
#include "symbol/decoder.h"

enum {
    NEAR_BYTES = 256, /* the code after the call in which every form counts */
    /* The code after the call in which the first form counts. The longest distance of a store from
     * its call, in the programs that were examined, is 570 bytes, in IO::FileDescriptor.new. */
    FAR_BYTES = 4096,
    SIZE_BYTES = 64, /* the code before the call that can load the size */
    MOVE_BYTES = 16, /* the code that can move the address of the block into another register */
    LONGEST_PATTERN = 10,
    RAX = 0,
    REX_B = 1, /* in a prefix: the base register is one of r8 to r15 */
};

static bool is_prefix(unsigned char byte) {
    return (byte & 0xf0) == 0x40;
}

/* Reads the operand (%base) of an instruction: without a displacement, or with one of 0, which rbp
 * and r13 need. PREFIX: the byte before the instruction; OPERAND: the bytes after its opcode.
 * Returns the length of the operand; 0: the operand has another form. */
static size_t read_operand(const unsigned char *operand, unsigned char prefix, unsigned *ret_base) {
    enum { MODE_SHIFT = 6, SIB = 4, SIB_WITHOUT_INDEX = 0x24, NO_BASE = 5 };
    const unsigned mode = operand[0] >> MODE_SHIFT, base = operand[0] & 7;
    const size_t n = base == SIB ? 2 : 1;
    *ret_base = base + (is_prefix(prefix) && (prefix & REX_B) ? 8 : 0);
    if (base == SIB && operand[1] != SIB_WITHOUT_INDEX) {
        return 0;
    }
    return mode == 0 && base != NO_BASE ? n : mode == 1 && operand[n] == 0 ? n + 1 : 0;
}

/* Returns the register to which mov %rax, %reg moves the address of the block soon after the call,
 * if called functions have to keep this register; RAX: there is no such register. */
static unsigned kept_in(const unsigned char *code) {
    enum { RBX = 3, RBP = 5, R12 = 12 };
    enum { REX_W = 0x48, OPCODE = 0x89, REGISTERS = 0xc0, SOURCE = 0x38 };
    for (size_t at = 0; at < MOVE_BYTES; at++) {
        if ((code[at] & ~REX_B) == REX_W && code[at + 1] == OPCODE &&
            (code[at + 2] & REGISTERS) == REGISTERS && (code[at + 2] & SOURCE) == RAX) {
            const unsigned kept = (code[at + 2] & 7) + (code[at] & REX_B ? 8 : 0);
            return kept == RBX || kept == RBP || kept >= R12 ? kept : RAX;
        }
    }
    return RAX;
}

/* Whether the SIZE_BYTES before RETURN_ADDRESS load SIZE_OF_OBJECT, by mov $size, %edi, or by add
 * $size, %rdi in code that is not optimized. */
static bool loads_size(struct ag_decoder_file *file, uint64_t return_address,
                       uint64_t size_of_object) {
    enum { MOV_EDI = 0xbf, ADD_LONG = 0x81, ADD_SHORT = 0x83, TO_EDI = 0xc7, LONGEST = 6 };
    size_t n_bytes = 0;
    const unsigned char *code = ag_decoder_bytes(file, return_address - SIZE_BYTES, &n_bytes);
    if (code == NULL || n_bytes < SIZE_BYTES) {
        return false;
    }
    for (size_t at = 0; at + LONGEST <= SIZE_BYTES; at++) {
        if ((code[at] == MOV_EDI && ag_get_32(code + at + 1) == size_of_object) ||
            (code[at] == ADD_LONG && code[at + 1] == TO_EDI &&
             ag_get_32(code + at + 2) == size_of_object) ||
            (code[at] == ADD_SHORT && code[at + 1] == TO_EDI && code[at + 2] == size_of_object)) {
            return true;
        }
    }
    return false;
}

/* mov $number, (%base) */
static bool is_store(const unsigned char *code, unsigned char prefix, uint32_t number,
                     unsigned *ret_base) {
    enum { OPCODE = 0xc7, EXTENSION = 0x38 };
    const size_t n = code[0] == OPCODE && (code[1] & EXTENSION) == 0
                         ? read_operand(code + 1, prefix, ret_base)
                         : 0;
    return n > 0 && ag_get_32(code + 1 + n) == number;
}

/* mov %reg, (%base), where the block is at BASE */
static bool is_register_store(const unsigned char *code, unsigned char prefix, unsigned kept) {
    enum { OPCODE = 0x89 };
    unsigned base;
    return code[0] == OPCODE && read_operand(code + 1, prefix, &base) > 0 &&
           (base == RAX || base == kept);
}

static bool is_load(const unsigned char *code, uint32_t number) {
    enum { OPCODE = 0xb8, OPCODE_END = 0xc0, ESI = 0xbe, EDI = 0xbf };
    const bool is_prefixed = is_prefix(code[0]);
    const unsigned char opcode = code[is_prefixed];
    if (opcode < OPCODE || opcode >= OPCODE_END || ag_get_32(code + is_prefixed + 1) != number) {
        return false;
    }
    const bool is_high = is_prefixed && (code[0] & REX_B) != 0; /* one of r8 to r15 */
    return is_high || (opcode != ESI && opcode != EDI);
}

static bool is_constant_load(struct ag_decoder_file *file, const unsigned char *code,
                             uint64_t address, uint32_t number) {
    enum { ESCAPE = 0x0f, MOVAPS = 0x28, MOVUPS = 0x10, MOVDQ = 0x6f, RIP_RELATIVE = 0x05 };
    enum { RIP_MASK = 0xc7, BYTES = 7 };
    size_t n_bytes = 0;
    const bool is_vector_load =
        code[0] == ESCAPE && (code[1] == MOVAPS || code[1] == MOVUPS || code[1] == MOVDQ);
    if (!is_vector_load || (code[2] & RIP_MASK) != RIP_RELATIVE) {
        return false;
    }
    const uint64_t distance = (uint64_t)(int64_t)(int32_t)ag_get_32(code + 3);
    const unsigned char *constant = ag_decoder_bytes(file, address + BYTES + distance, &n_bytes);
    return constant != NULL && n_bytes >= sizeof(number) && ag_get_32(constant) == number;
}

bool ag_crystal_site_stores(struct ag_decoder_file *file, uint64_t return_address, uint32_t number,
                            uint64_t size_of_object) {
    size_t n_bytes = 0;
    const unsigned char *code = ag_decoder_is_code(file, return_address)
                                    ? ag_decoder_bytes(file, return_address, &n_bytes)
                                    : NULL;
    if (code == NULL || n_bytes < MOVE_BYTES + LONGEST_PATTERN ||
        (size_of_object != 0 && !loads_size(file, return_address, size_of_object))) {
        return false;
    }
    const unsigned kept = kept_in(code);
    bool is_loaded = false;
    for (size_t at = 0; at < FAR_BYTES && at + LONGEST_PATTERN <= n_bytes; at++) {
        const bool is_near = at < NEAR_BYTES;
        const unsigned char prefix = at > 0 ? code[at - 1] : 0;
        unsigned base;
        if (is_store(code + at, prefix, number, &base) &&
            (kept == RAX ? is_near : base == kept || (is_near && base == RAX))) {
            return true;
        }
        is_loaded = is_loaded || (is_near && is_load(code + at, number));
        if (is_near && ((is_loaded && is_register_store(code + at, prefix, kept)) ||
                        is_constant_load(file, code + at, return_address + at, number))) {
            return true;
        }
    }
    return false;
}
