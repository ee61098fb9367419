/* test_julia_parts.c: the parser of function names in the adapter for Julia (allogram's code for
 * this language), and parts of other modules that the adapter needs: the reader of the trace's
 * records of generated code, the search for and replacement of imports of libraries, and the
 * reader of .eh_frame sections without .eh_frame_hdr. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../../adapters/julia/julia_name.h"
#include "hook/import_slot.h"
#include "model/definitions/code_places.h"
#include "unwind/eh_frame.h"

/* ---- names ---- */

static void names_of_functions(void **state) {
    (void)state;
    static const struct {
        const char *linkage, *name; /* NULL: no name of Julia */
    } cases[] = {
        {"julia_print_to_string_8631", "print_to_string"},
        {"julia_print_to_string_8631.clone_1", "print_to_string"},
        {"japi1_Array_17299.clone_1.clone_2", "Array"},
        {"jfptr__start_36893", "_start"},
        {"julia_YY.map_12", "#map"},
        {"julia_pushNOT._7", "push!"},
        {"julia_YY.3YY.4_9", "#3#4"},
        {"julia_EQ.EQ._12", "=="},
        {"julia_E2.88.91._1", "\xe2\x88\x91"},
        {"julia_f1_22", "f1"},
        {"julia_f", "f"},
        {"getproperty", "getproperty"},
        {"push!;", "push!"},
        {"jlplt_jl_alloc_string_1", NULL},
        {"jl_get_ptls_states", NULL},
        {"frame_dummy", NULL},
        {"_init", NULL},
        {"", NULL},
        {";", NULL},
        {"julia_", NULL},
    };
    char text[64];
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bool is_known = ag_julia_symbol_name(cases[i].linkage, text, sizeof(text));
        if (!cases[i].name) {
            assert_false(is_known);
        } else {
            assert_true(is_known);
            assert_string_equal(text, cases[i].name);
        }
    }
    assert_false(ag_julia_symbol_name("julia_toolong_1", text, 7));
    assert_true(ag_julia_symbol_name("julia_toolong_1", text, 8));
    assert_false(ag_julia_symbol_name("toolong", text, 7));
}

/* ---- places of generated code ---- */

/* Makes a record of the function at depth AT of the functions that are inlined into each other at
 * PC. 0 is the innermost. */
static struct ag_record place(uint64_t pc, uint32_t at, uint32_t frame) {
    struct ag_record record = {.kind = AG_RECORD_CODE};
    record.u.code.pc = pc;
    record.u.code.place = at;
    record.u.code.n_places = 9; /* wrong, because the reader must not rely on this number */
    record.u.code.frame = frame;
    record.u.code.line = frame * 10;
    return record;
}

static void take(struct ag_code_places *places, uint64_t pc, uint32_t at, uint32_t frame) {
    const struct ag_record record = place(pc, at, frame);
    assert_int_equal(ag_code_places_take(places, &record), 0);
}

static void places_of_generated_code(void **state) {
    (void)state;
    struct ag_code_places places = {0};
    take(&places, 0x100, 1, 8); /* ignored: place 0 of this pc is missing */
    assert_null(ag_code_places_find(&places, 0x100));
    take(&places, 0x100, 0, 1);
    take(&places, 0x100, 1, 2);
    take(&places, 0x100, 3, 9); /* ignored: place 2 is missing */
    take(&places, 0x200, 1, 9); /* ignored: another pc, whose place 0 is missing */
    take(&places, 0x200, 0, 3);
    take(&places, 0x100, 0, 9); /* ignored: place 0 is known already */
    take(&places, 0x100, 1, 9);
    take(&places, 0, 0, 9);
    const struct ag_code_place *found = ag_code_places_find(&places, 0x100);
    assert_non_null(found);
    assert_int_equal(found->frame, 1);
    assert_int_equal(found->line, 10);
    assert_int_equal(places.list[found->next - 1].frame, 2);
    assert_int_equal(places.list[found->next - 1].next, 0);
    assert_int_equal(ag_code_places_find(&places, 0x200)->frame, 3);
    assert_int_equal(ag_code_places_find(&places, 0x200)->next, 0);
    for (uint32_t i = 0; i < 10000; i++) {
        take(&places, 0x1000 + i, 0, i);
    }
    assert_int_equal(ag_code_places_find(&places, 0x1000 + 9999)->frame, 9999);
    assert_int_equal(ag_code_places_find(&places, 0x100)->frame, 1);
    ag_code_places_done(&places);
}

/* ---- imports ---- */

static pid_t fake_getppid(void) {
    return 12345;
}

static void imports_of_this_program(void **state) {
    (void)state;
    void *original = NULL, *unused = NULL;
    const pid_t before = getppid();
    const void *self = (const void *)(uintptr_t)imports_of_this_program;
    assert_int_not_equal(ag_import_find(self, "getppid"), 0);
    assert_int_equal(ag_import_find(self, "no_such_function"), 0);
    assert_int_equal(ag_import_find((const void *)1, "getppid"), 0);
    assert_int_equal(ag_import_replace(self, "no_such_function", NULL, &original), -ENOENT);
    assert_int_equal(ag_import_replace(self, "getppid", (void *)(uintptr_t)fake_getppid, &original),
                     0);
    assert_int_equal(getppid(), 12345);
    assert_int_equal(((pid_t(*)(void))(uintptr_t)original)(), before);
    assert_int_equal(ag_import_replace(self, "getppid", original, &unused), 0);
    assert_ptr_equal(unused, (void *)(uintptr_t)fake_getppid);
    assert_int_equal(getppid(), before);
}

static void imports_of_all_objects(void **state) {
    (void)state;
    const void *self = (const void *)(uintptr_t)imports_of_this_program;
    const uintptr_t real = (uintptr_t)dlsym(RTLD_DEFAULT, "getppid");
    void *original = NULL;
    uint64_t version = 0;
    (void)getppid(); /* binds the function, in case binding is lazy */
    const struct ag_import_target there = {"getppid", real, (uintptr_t)fake_getppid};
    const struct ag_import_target back = {"getppid", (uintptr_t)fake_getppid, real};
    ag_imports_rebind(&there, 1, &version);
    assert_int_equal(getppid(), 12345);
    ag_imports_rebind(&back, 1, &version); /* no library was loaded since, so nothing is examined */
    assert_int_equal(getppid(), 12345);
    version = 0;
    ag_imports_rebind(&back, 1, &version);
    assert_int_not_equal(getppid(), 12345);
    assert_int_equal(ag_import_replace(self, "getppid", (void *)real, &original), 0);
}

/* ---- frame descriptions without a header ---- */

static void unwind_rows_are_found_without_a_header(void **state) {
    (void)state;
    /* CIE: version 1, no augmentation, CFA = rsp + 8, RA at CFA - 8. Two FDEs follow below; each
     * describes 16 bytes of code. */
    static const uint8_t cie[] = {16, 0,    0,  0,    0, 0, 0,    0, 1, 0,
                                  1,  0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0};
    uint8_t section[128] = {0};
    memcpy(section, cie, sizeof(cie));
    const uintptr_t base = (uintptr_t)section;
    const uintptr_t code[2] = {0x10000, 0x10020};
    struct ag_cfi_place places[2];
    size_t at = sizeof(cie);
    for (int i = 0; i < 2; i++) {
        const uint32_t length = 24, back = (uint32_t)at + 4;
        const uint64_t bytes = 16;
        places[i] = (struct ag_cfi_place){(int32_t)(code[i] - code[0]), (int32_t)at};
        memcpy(section + at, &length, 4);
        memcpy(section + at + 4, &back, 4);
        memcpy(section + at + 8, &code[i], 8);
        memcpy(section + at + 16, &bytes, 8);
        section[at + 24] = 0x0e; /* def_cfa_offset */
        section[at + 25] = (uint8_t)(16 * (i + 1));
        at += 28;
    }
    const struct ag_cfi_tables tables = {
        .low = base, .high = base + at, .places = places, .n_places = 2, .places_pc = code[0]};
    struct ag_cfi_row row;
    struct ag_cfi_entry entry;
    assert_int_equal(ag_eh_frame_find(&tables, code[0] + 3, 6, &row, &entry), 0);
    assert_int_equal(row.cfa.offset, 16);
    assert_int_equal(entry.function, code[0]);
    assert_int_equal(ag_eh_frame_find(&tables, code[1] + 15, 6, &row, &entry), 0);
    assert_int_equal(row.cfa.offset, 32);
    assert_int_equal(ag_eh_frame_find(&tables, code[0] + 16, 6, &row, &entry), -ENOENT);
    assert_int_equal(ag_eh_frame_find(&tables, code[0] - 1, 6, &row, &entry), -ENOENT);
    const struct ag_cfi_tables cut = {
        .low = base, .high = base + at - 4, .places = places, .n_places = 2, .places_pc = code[0]};
    assert_int_equal(ag_eh_frame_find(&cut, code[1], 6, &row, &entry), -EBADMSG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_functions),
        cmocka_unit_test(places_of_generated_code),
        cmocka_unit_test(imports_of_this_program),
        cmocka_unit_test(imports_of_all_objects),
        cmocka_unit_test(unwind_rows_are_found_without_a_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
