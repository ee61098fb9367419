/* test_instruction.c: compares what allogram's decoder finds (the length of an instruction, the
 * places of its relative operands, and where it continues) with the results of the disassembler
 * Zydis, for all code of some libraries and for random bytes. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <Zydis/Zydis.h>

#include "hook/arch/x86_64/instruction.h"

static ZydisDecoder judge;

/* Describes the instruction as Zydis decodes it, in the form of src/hook/arch/x86_64/instruction.h.
 * Returns false when the bytes are no instruction. */
static bool judge_instruction(const uint8_t *bytes, size_t n_bytes,
                              struct ag_instruction *ret_instruction) {
    ZydisDecodedInstruction decoded;
    ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
    if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&judge, bytes, n_bytes, &decoded, operands))) {
        return false;
    }
    struct ag_instruction expected = {.n_bytes = decoded.length};
    for (int i = 0; i < decoded.operand_count; i++) {
        if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
            operands[i].mem.base == ZYDIS_REGISTER_RIP) {
            expected.memory_offset = decoded.raw.disp.offset;
        }
    }
    if (decoded.raw.imm[0].is_relative) {
        expected.target_offset = decoded.raw.imm[0].offset;
        expected.target_bytes = decoded.raw.imm[0].size / 8;
    }
    switch (decoded.meta.category) {
    case ZYDIS_CATEGORY_COND_BR:
        /* xend has no target */
        expected.flow = expected.target_bytes != 0 ? AG_FLOW_CONDITION : AG_FLOW_NEXT;
        if (bytes[decoded.raw.prefix_count] >= 0xe0 && bytes[decoded.raw.prefix_count] <= 0xe3) {
            expected.flow = AG_FLOW_COUNT;
        }
        break;
    case ZYDIS_CATEGORY_UNCOND_BR:
        expected.flow = expected.target_bytes != 0 ? AG_FLOW_JUMP : AG_FLOW_END;
        break;
    case ZYDIS_CATEGORY_CALL:
        expected.flow = expected.target_bytes != 0 ? AG_FLOW_CALL : AG_FLOW_NEXT;
        break;
    case ZYDIS_CATEGORY_RET:
        expected.flow = AG_FLOW_END;
        break;
    default:
        expected.flow = AG_FLOW_NEXT;
        if (decoded.mnemonic == ZYDIS_MNEMONIC_UD2 || decoded.mnemonic == ZYDIS_MNEMONIC_HLT ||
            decoded.mnemonic == ZYDIS_MNEMONIC_INT3) {
            expected.flow = AG_FLOW_END;
        }
        break;
    }
    *ret_instruction = expected;
    return true;
}

static void fail_with_bytes(const uint8_t *bytes, const char *what, int ours, int theirs) {
    char hex[3 * AG_INSTRUCTION_BYTES + 1] = "";
    for (int i = 0; i < AG_INSTRUCTION_BYTES; i++) {
        sprintf(hex + 3 * i, "%02x ", bytes[i]);
    }
    fail_msg("%s: %d, Zydis says %d, of %s", what, ours, theirs, hex);
}

static void check_equal(const uint8_t *bytes, const struct ag_instruction *ours,
                        const struct ag_instruction *theirs) {
    if (ours->n_bytes != theirs->n_bytes) {
        fail_with_bytes(bytes, "length", ours->n_bytes, theirs->n_bytes);
    }
    if (ours->memory_offset != theirs->memory_offset) {
        fail_with_bytes(bytes, "offset of the operand", ours->memory_offset, theirs->memory_offset);
    }
    if (ours->target_offset != theirs->target_offset ||
        ours->target_bytes != theirs->target_bytes) {
        fail_with_bytes(bytes, "offset of the branch", ours->target_offset, theirs->target_offset);
    }
    if (ours->flow != theirs->flow) {
        fail_with_bytes(bytes, "flow", ours->flow, theirs->flow);
    }
}

struct count {
    size_t n_instructions, n_unknown;
};

/* Compares each instruction of the code. The lengths of Zydis lead from one instruction to the
 * next. */
static struct count sweep(const uint8_t *code, size_t n_bytes) {
    struct count count = {0};
    for (size_t at = 0; at + AG_INSTRUCTION_BYTES < n_bytes;) {
        struct ag_instruction ours, theirs;
        if (!judge_instruction(code + at, AG_INSTRUCTION_BYTES, &theirs)) {
            at++; /* data between functions */
            continue;
        }
        count.n_instructions++;
        if (ag_instruction_decode(code + at, AG_INSTRUCTION_BYTES, &ours) == 0) {
            check_equal(code + at, &ours, &theirs);
        } else {
            count.n_unknown++;
        }
        at += theirs.n_bytes;
    }
    return count;
}

static void check_file(const char *path) {
    const int fd = open(path, O_RDONLY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0) {
        print_message("# SKIP: no %s\n", path);
        return;
    }
    const uint8_t *file = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    close(fd);
    assert_ptr_not_equal(file, MAP_FAILED);
    const Elf64_Ehdr *header = (const Elf64_Ehdr *)file;
    const Elf64_Phdr *segments = (const Elf64_Phdr *)(file + header->e_phoff);
    struct count total = {0};
    for (int i = 0; i < header->e_phnum; i++) {
        if (segments[i].p_type == PT_LOAD && (segments[i].p_flags & PF_X) != 0) {
            const struct count count = sweep(file + segments[i].p_offset, segments[i].p_filesz);
            total.n_instructions += count.n_instructions;
            total.n_unknown += count.n_unknown;
        }
    }
    print_message("# %s: %zu instructions, %zu unknown\n", path, total.n_instructions,
                  total.n_unknown);
    assert_true(total.n_instructions > 1000);
    /* Tables and padding within code give some invalid instructions. */
    assert_true(total.n_unknown * 1000 <= total.n_instructions);
    munmap((void *)file, (size_t)status.st_size);
}

static void the_code_of_libraries(void **state) {
    (void)state;
    check_file("/lib/x86_64-linux-gnu/libc.so.6");
    check_file("/lib/x86_64-linux-gnu/libm.so.6");
    check_file("/lib/x86_64-linux-gnu/libjemalloc.so.2");
    check_file("/lib/x86_64-linux-gnu/libmimalloc.so.2.0");
    check_file("/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4");
    check_file("/lib/x86_64-linux-gnu/libstdc++.so.6");
    check_file("/lib/x86_64-linux-gnu/libcrypto.so.3");
}

/* Both decoders give the same results for random bytes that both accept. */
static void random_bytes(void **state) {
    (void)state;
    uint64_t random = 1;
    size_t n_alike = 0;
    for (int round = 0; round < 2000000; round++) {
        uint8_t bytes[AG_INSTRUCTION_BYTES + 1];
        for (size_t i = 0; i < sizeof(bytes); i += 8) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            const uint64_t word = random ^ random >> 29;
            memcpy(bytes + i, &word, 8);
        }
        if (round % 2 == 0) { /* half of the instructions start with the bytes of the rarer opcode
                               * maps */
            static const uint8_t starts[][2] = {{0x0f, 0},    {0x66, 0x0f}, {0xf3, 0x0f},
                                                {0x48, 0x0f}, {0xc5, 0xf8}, {0x48, 0}};
            const uint8_t *start = starts[(size_t)round / 2 % 6];
            bytes[0] = start[0];
            bytes[1] = start[1] != 0 ? start[1] : bytes[1];
        }
        struct ag_instruction ours, theirs;
        if (ag_instruction_decode(bytes, AG_INSTRUCTION_BYTES, &ours) == 0 &&
            judge_instruction(bytes, AG_INSTRUCTION_BYTES, &theirs)) {
            check_equal(bytes, &ours, &theirs);
            n_alike++;
        }
    }
    assert_true(n_alike > 500000);
}

static void a_cut_instruction_is_refused(void **state) {
    (void)state;
    static const uint8_t instructions[][AG_INSTRUCTION_BYTES] = {
        {0xe8, 1, 2, 3, 4},
        {0x48, 0x8b, 0x05, 1, 2, 3, 4},
        {0x66, 0x0f, 0x3a, 0x0f, 0xc1, 8},
        {0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8},
        {0x62, 0xf1, 0x7c, 0x48, 0x28, 0x44, 0x24, 1},
        {0x64, 0x48, 0x8b, 0x04, 0x25, 1, 2, 3, 4},
    };
    for (size_t i = 0; i < sizeof(instructions) / sizeof(instructions[0]); i++) {
        struct ag_instruction instruction;
        assert_int_equal(ag_instruction_decode(instructions[i], AG_INSTRUCTION_BYTES, &instruction),
                         0);
        for (size_t n_bytes = 0; n_bytes < instruction.n_bytes; n_bytes++) {
            struct ag_instruction cut;
            assert_int_equal(ag_instruction_decode(instructions[i], n_bytes, &cut), -ENODATA);
        }
    }
}

int main(void) {
    ZydisDecoderInit(&judge, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_code_of_libraries),
        cmocka_unit_test(random_bytes),
        cmocka_unit_test(a_cut_instruction_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
