/* test_unwind_expressions.c: DWARF expressions of the kinds that call frame information (CFI)
 * contains, and expressions that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "unwind/cfi_expression.h"

enum { CFA = 0x7000, RBP = 0x6000, RSP = 0x5000, RIP = 0x40100d };

static bool register_value(void *context, uint32_t reg, uintptr_t *ret_value) {
    (void)context;
    *ret_value = reg == 6 ? RBP : reg == 7 ? RSP : RIP;
    return reg == 6 || reg == 7 || reg == 16;
}
/* A memory whose words hold their own address plus one; its lowest page is unreadable. */
static bool word_value(void *context, uintptr_t address, uintptr_t *ret_value) {
    (void)context;
    *ret_value = address + 1;
    return address >= 0x1000;
}

struct expression {
    const char *what;
    uint8_t bytes[16];
    uint8_t n_bytes;
    bool starts_with_cfa, is_refused;
    uintptr_t value;
};
static const struct expression expressions[] = {
    {"breg6 -16; deref", {0x76, 0x70, 0x06}, 3, false, false, RBP - 16 + 1},
    {"breg7 160; deref", {0x77, 0xa0, 0x01, 0x06}, 4, false, false, RSP + 160 + 1},
    {"plt: breg7 8; breg16 0; lit15; and; lit11; ge; lit3; shl; plus",
     {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22},
     11,
     false,
     false,
     RSP + 16},
    {"plus_uconst on the cfa", {0x23, 0x88, 0x01}, 3, true, false, CFA + 136},
    {"nothing but the cfa", {0}, 0, true, false, CFA},
    {"const1s -8; plus", {0x09, 0xf8, 0x22}, 3, true, false, CFA - 8},
    {"const2u 0x1234", {0x0a, 0x34, 0x12}, 3, false, false, 0x1234},
    {"const4s -1", {0x0d, 0xff, 0xff, 0xff, 0xff}, 5, false, false, UINTPTR_MAX},
    {"consts -300", {0x11, 0xd4, 0x7d}, 3, false, false, (uintptr_t)-300},
    {"lit5; lit3; swap; minus", {0x35, 0x33, 0x16, 0x1c}, 4, false, false, (uintptr_t)-2},
    {"lit5; dup; mul", {0x35, 0x12, 0x1e}, 3, false, false, 25},
    {"lit5; lit3; over; minus; drop", {0x35, 0x33, 0x14, 0x1c, 0x13}, 5, false, false, 5},
    {"lit1; neg; lit4; shr; not",
     {0x31, 0x1f, 0x34, 0x25, 0x20},
     5,
     false,
     false,
     UINTPTR_MAX << 60},
    {"lit8; neg; lit1; shra", {0x38, 0x1f, 0x31, 0x26}, 4, false, false, (uintptr_t)-4},
    {"lit1; const1u 64; shl", {0x31, 0x08, 64, 0x24}, 4, false, false, 0},
    {"lit1; neg; lit0; lt (signed)", {0x31, 0x1f, 0x30, 0x2d}, 4, false, false, 1},
    {"bregx 6 +8", {0x92, 0x06, 0x08}, 3, false, false, RBP + 8},

    {"empty stack at the end", {0x96}, 1, false, true, 0},
    {"underflow", {0x31, 0x22}, 2, false, true, 0},
    {"overflow", {0x31, 0x12, 0x12, 0x12, 0x12, 0x12, 0x12, 0x12, 0x12}, 9, false, true, 0},
    {"operand cut off", {0x0e, 1, 2, 3}, 4, false, true, 0},
    {"LEB128 number without an end", {0x10, 0x80, 0x80, 0x80}, 4, false, true, 0},
    {"register without a value", {0x73, 0x00}, 2, false, true, 0},
    {"unreadable word", {0x31, 0x06}, 2, false, true, 0},
    {"bra: jumps are refused", {0x31, 0x28, 0xfc, 0xff}, 4, false, true, 0},
    {"skip to itself", {0x2f, 0xfd, 0xff}, 3, false, true, 0},
    {"div: not known", {0x31, 0x30, 0x1b}, 3, false, true, 0},
};

static void each_gives_its_value_or_is_refused(void **state) {
    (void)state;
    const struct ag_cfi_machine machine = {register_value, word_value, NULL};
    for (size_t i = 0; i < sizeof expressions / sizeof expressions[0]; i++) {
        const struct expression *e = &expressions[i];
        const uintptr_t cfa = CFA;
        uintptr_t value = 77;
        const bool done = ag_cfi_expression_evaluate(
            e->bytes, e->n_bytes, e->starts_with_cfa ? &cfa : NULL, &machine, &value);
        if (done == e->is_refused || value != (e->is_refused ? 77 : e->value)) {
            fail_msg("%s: %s, %#lx", e->what, done ? "done" : "refused", (unsigned long)value);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_gives_its_value_or_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
