/* test_symbol_frames.c: finds the functions, files and lines of an address, with every kind of
 * debug information that compilers write. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol_fixture.h"

static void check_frame(const struct ag_symbol_frame *frame, const char *function, const char *file,
                        uint32_t line, bool is_inlined) {
    assert_string_equal(frame->function, function);
    assert_string_equal(frame->file, fixture_path(file));
    assert_int_equal(frame->line, line);
    assert_int_equal(frame->is_inlined, is_inlined);
    assert_true(frame->is_known);
}

#define MARK(label) "__asm__ volatile(\".globl " label "\\n" label ": nop\");"

/* mark_leaf is in leaf, which is inlined into middle, which is inlined into outer. */
static const char inlined_c[] =
    "static inline __attribute__((always_inline)) int leaf(int x) {\n"
    "    " MARK(
        "mark_leaf") " /* in leaf */\n"
                     "    return x + 1;\n"
                     "}\n"
                     "static inline __attribute__((always_inline)) int middle(int x) {\n"
                     "    " MARK(
                         "mark_middle") " /* in middle */\n"
                                        "    x *= 3;\n"
                                        "    return leaf(x); /* leaf called */\n"
                                        "}\n"
                                        "__attribute__((noinline)) int outer(int x) {\n"
                                        "    int y = middle(x + 2); /* middle called */\n"
                                        "    " MARK(
                                            "mark_outer") " /* in outer */\n"
                                                          "    return y;\n"
                                                          "}\n"
                                                          "__attribute__((noinline)) void last(void) { __asm__ volatile(\"call abort\\n"
                                                          ".globl after_call\\nafter_call:\"); __builtin_unreachable(); } /* calls abort */\n"
                                                          "__attribute__((noinline)) void next(void) { " MARK(
                                                              "mark_next") " } /* next */\n"
                                                                           "int main(int n, char **v) { (void)v; if (n > 5) { last(); } next(); return outer(n); }\n";

static void check_inlined(const char *options) {
    fixture_write("inlined.c", inlined_c);
    fixture_run("%s inlined.c -o inlined", options);
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "inlined");
    const struct ag_symbol_frame *frames;

    size_t n = ag_symbolizer_frames(symbolizer, 1, fixture_address("inlined", "mark_leaf"), false,
                                    &frames);
    assert_int_equal(n, 3);
    check_frame(&frames[0], "leaf", "inlined.c", fixture_line(inlined_c, "/* in leaf"), true);
    check_frame(&frames[1], "middle", "inlined.c", fixture_line(inlined_c, "/* leaf called"), true);
    check_frame(&frames[2], "outer", "inlined.c", fixture_line(inlined_c, "/* middle called"),
                false);

    n = ag_symbolizer_frames(symbolizer, 1, fixture_address("inlined", "mark_middle"), false,
                             &frames);
    assert_int_equal(n, 2);
    check_frame(&frames[0], "middle", "inlined.c", fixture_line(inlined_c, "/* in middle"), true);
    check_frame(&frames[1], "outer", "inlined.c", fixture_line(inlined_c, "/* middle called"),
                false);

    n = ag_symbolizer_frames(symbolizer, 1, fixture_address("inlined", "mark_outer"), false,
                             &frames);
    assert_int_equal(n, 1);
    check_frame(&frames[0], "outer", "inlined.c", fixture_line(inlined_c, "/* in outer"), false);
    assert_false(fixture_has_problem(symbolizer, NULL));
    ag_symbolizer_free(symbolizer);
}

static void inlined_calls_give_each_level_its_line(void **state) {
    (void)state;
    check_inlined("gcc -O2 -g");
}

static void older_dwarf(void **state) {
    (void)state;
    check_inlined("gcc -O2 -gdwarf-4");
    check_inlined("gcc -O2 -gdwarf-3 -gstrict-dwarf");
}

static void compressed_sections(void **state) {
    (void)state;
    check_inlined("gcc -O2 -g -gz=zlib");
}

static void split_dwarf(void **state) {
    (void)state;
    check_inlined("gcc -O2 -g -gsplit-dwarf");
    check_inlined("gcc -O2 -gdwarf-4 -gsplit-dwarf");
}

/* The names of .dwo files come from the program: if the name is that of a pipe, opening it would
 * wait forever. */
static void a_pipe_as_split_dwarf_is_not_opened(void **state) {
    (void)state;
    static const char *const options[] = {"-g", "-gdwarf-4"};
    for (size_t i = 0; i < 2; i++) {
        fixture_write("inlined.c", inlined_c);
        fixture_run("rm -f *.dwo && gcc -O2 %s -gsplit-dwarf inlined.c -o inlined && "
                    "for f in *.dwo; do rm $f; mkfifo $f; done",
                    options[i]);
        struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "inlined");
        const struct ag_symbol_frame *frames;
        const uint64_t address = fixture_address("inlined", "mark_outer");
        assert_int_equal(ag_symbolizer_frames(symbolizer, 1, address, false, &frames), 1);
        check_frame(&frames[0], "outer", "inlined.c", fixture_line(inlined_c, "/* in outer"),
                    false);
        ag_symbolizer_free(symbolizer);
    }
    fixture_run("rm -f *.dwo");
}

static void link_time_optimisation(void **state) {
    (void)state;
    check_inlined("gcc -O2 -g -flto");
}

static void units_without_address_table(void **state) {
    (void)state;
    if (!fixture_has("clang")) {
        print_message("# SKIP: no clang\n");
        skip();
    }
    check_inlined("clang -O2 -g");
}

/* abort does not return: the bytes after its call already belong to the next function. */
static void return_address_is_looked_up_at_its_call(void **state) {
    (void)state;
    fixture_write("inlined.c", inlined_c);
    fixture_run("gcc -O2 -g -fno-align-functions -fno-toplevel-reorder inlined.c -o inlined");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "inlined");
    const struct ag_symbol_frame *frames;
    const uint64_t after_call = fixture_address("inlined", "after_call");
    assert_int_equal(after_call, fixture_address("inlined", "next"));
    assert_int_equal(ag_symbolizer_frames(symbolizer, 1, after_call, true, &frames), 1);
    check_frame(&frames[0], "last", "inlined.c", fixture_line(inlined_c, "calls abort"), false);
    assert_int_equal(ag_symbolizer_frames(symbolizer, 1, after_call, false, &frames), 1);
    check_frame(&frames[0], "next", "inlined.c", fixture_line(inlined_c, "/* next"), false);
    ag_symbolizer_free(symbolizer);
}

static const char names_cc[] =
    "namespace outer { namespace {\n"
    "struct Thing {\n"
    "    int n;\n"
    "    inline __attribute__((always_inline)) Thing(int x) : n(x) {\n"
    "        " MARK(
        "mark_constructor") " /* in Thing() */\n"
                            "    }\n"
                            "    template <class T> inline __attribute__((always_inline)) T go(T x) {\n"
                            "        " MARK(
                                "mark_template") " /* in go */\n"
                                                 "        return x + n;\n"
                                                 "    }\n"
                                                 "};\n"
                                                 "}\n"
                                                 "__attribute__((noinline)) int work(int n) {\n"
                                                 "    Thing thing(n); /* constructed */\n"
                                                 "    return (int)thing.go<long>(n); /* gone */\n"
                                                 "}\n"
                                                 "}\n"
                                                 "extern \"C\" __attribute__((noinline)) int plain(int n) { " MARK(
                                                     "mark_plain") " return n; }\n"
                                                                   "int main(int n, char **) {\n"
                                                                   "    struct Local {\n"
                                                                   "        static __attribute__((noinline)) int get(int x) { " MARK(
                                                                       "mark_local") " return x; }\n"
                                                                                     "    };\n"
                                                                                     "    auto twice = [](int x) __attribute__((noinline)) { " MARK(
                                                                                         "mark_lambda") " return 2 * x; };\n"
                                                                                                        "    return outer::work(n) + plain(n) + Local::get(n) + twice(n);\n"
                                                                                                        "}\n";

static void cxx_names_are_whole(void **state) {
    (void)state;
    fixture_write("names.cc", names_cc);
    fixture_run("g++ -O1 -g names.cc -o names");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "names");
    const struct ag_symbol_frame *frames;

    size_t n = ag_symbolizer_frames(symbolizer, 1, fixture_address("names", "mark_constructor"),
                                    false, &frames);
    assert_int_equal(n, 2);
    /* A function that is local to its file has no linkage name: DWARF gives its name spaces. */
    check_frame(&frames[0], "outer::(anonymous namespace)::Thing::Thing", "names.cc",
                fixture_line(names_cc, "/* in Thing"), true);
    check_frame(&frames[1], "outer::work(int)", "names.cc",
                fixture_line(names_cc, "/* constructed"), false);
    assert_string_equal(frames[1].linkage, "_ZN5outer4workEi");

    n = ag_symbolizer_frames(symbolizer, 1, fixture_address("names", "mark_template"), false,
                             &frames);
    assert_int_equal(n, 2);
    check_frame(&frames[0], "outer::(anonymous namespace)::Thing::go<long int>", "names.cc",
                fixture_line(names_cc, "/* in go"), true);
    check_frame(&frames[1], "outer::work(int)", "names.cc", fixture_line(names_cc, "/* gone"),
                false);

    n = ag_symbolizer_frames(symbolizer, 1, fixture_address("names", "mark_plain"), false, &frames);
    assert_int_equal(n, 1);
    assert_string_equal(frames[0].function, "plain");
    n = ag_symbolizer_frames(symbolizer, 1, fixture_address("names", "mark_local"), false, &frames);
    assert_int_equal(n, 1);
    assert_string_equal(frames[0].function, "main::Local::get");
    n = ag_symbolizer_frames(symbolizer, 1, fixture_address("names", "mark_lambda"), false,
                             &frames);
    assert_int_equal(n, 1);
    assert_string_equal(frames[0].function, "main::{lambda}::operator()");
    ag_symbolizer_free(symbolizer);
}

static const char names_rs[] =
    "#![allow(named_asm_labels)]\n"
    "use std::arch::asm;\n"
    "pub mod inner {\n"
    "    use super::*;\n"
    "    pub struct Pile { pub items: Vec<u64> }\n"
    "    impl Pile {\n"
    "        #[inline(never)]\n"
    "        pub fn grow(&mut self, n: u64) {\n"
    "            touch(); // touched\n"
    "            self.items.push(n);\n"
    "        }\n"
    "    }\n"
    "}\n"
    "#[inline(always)]\n"
    "fn touch() {\n"
    "    unsafe { asm!(\".globl mark_rust\", \"mark_rust: nop\") } // in touch\n"
    "}\n"
    "fn main() {\n"
    "    let mut pile = inner::Pile { items: vec![] };\n"
    "    pile.grow(std::env::args().count() as u64);\n"
    "    std::process::exit(pile.items.len() as i32);\n"
    "}\n";

static void check_rust(const char *options, const char *grow, const char *grow_v0) {
    fixture_write("names.rs", names_rs);
    fixture_run("rustc -O -g %s names.rs -o names_rs", options);
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "names_rs");
    const struct ag_symbol_frame *frames;
    const size_t n = ag_symbolizer_frames(symbolizer, 1, fixture_address("names_rs", "mark_rust"),
                                          false, &frames);
    assert_int_equal(n, 2);
    const bool is_v0 = strncmp(frames[1].linkage, "_R", 2) == 0;
    check_frame(&frames[0], "names::touch", "names.rs", fixture_line(names_rs, "// in touch"),
                true);
    check_frame(&frames[1], is_v0 ? grow_v0 : grow, "names.rs",
                fixture_line(names_rs, "// touched"), false);
    ag_symbolizer_free(symbolizer);
}

static void rust_names_have_no_hash(void **state) {
    (void)state;
    if (!fixture_has("rustc")) {
        print_message("# SKIP: no rustc\n");
        skip();
    }
    check_rust("", "names::inner::Pile::grow", "<names::inner::Pile>::grow");
    check_rust("-Csymbol-mangling-version=v0", NULL, "<names::inner::Pile>::grow");
}

static const char assembly_s[] = ".text\n"
                                 ".globl zz_public\n.type zz_public, @function\n"
                                 ".type __hidden_alias, @function\n"
                                 ".weak public_weak\n.type public_weak, @function\n"
                                 "__hidden_alias: public_weak: zz_public:\n"
                                 "nop # first\n"
                                 "inner_label: nop\n"
                                 "ret\n.size zz_public, . - zz_public\n"
                                 ".globl main\n.type main, @function\nmain: xor %eax, %eax\nret\n"
                                 ".size main, . - main\n"
                                 ".section .note.GNU-stack, \"\"\n";

static void the_public_alias_names_assembly(void **state) {
    (void)state;
    fixture_write("assembly.s", assembly_s);
    fixture_run("gcc -g assembly.s -o assembly");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "assembly");
    const struct ag_symbol_frame *frames;
    const uint64_t label = fixture_address("assembly", "inner_label");
    assert_int_equal(ag_symbolizer_frames(symbolizer, 1, label - 1, false, &frames), 1);
    check_frame(&frames[0], "zz_public", "assembly.s", fixture_line(assembly_s, "# first"), false);
    assert_int_equal(ag_symbolizer_frames(symbolizer, 1, label, false, &frames), 1);
    assert_string_equal(frames[0].function, "zz_public");
    ag_symbolizer_free(symbolizer);
}

static void frames_of_the_same_place_are_stored_once(void **state) {
    (void)state;
    fixture_write("inlined.c", inlined_c);
    fixture_run("gcc -O2 -g inlined.c -o inlined");
    struct ag_symbolizer *symbolizer = fixture_symbolizer(NULL, "inlined");
    const uint64_t address = fixture_address("inlined", "mark_leaf");
    const struct ag_symbol_frame *first, *second;
    /* The same file is added a second time, 0x1000000 higher: both images give the same frames. */
    uint8_t id[64];
    const size_t id_bytes = fixture_build_id("inlined", id);
    assert_int_equal(ag_symbolizer_image(symbolizer, 2, fixture_path("inlined"), id, id_bytes,
                                         0x1000000, 0x1000000, 0x2000000),
                     0);
    ag_symbolizer_frames(symbolizer, 1, address, false, &first);
    ag_symbolizer_frames(symbolizer, 2, address + 0x1000000, false, &second);
    assert_ptr_equal(first, second);
    /* An address outside of every image has no function. */
    assert_int_equal(ag_symbolizer_frames(symbolizer, 2, 0x3000000, false, &second), 1);
    assert_string_equal(second->function, "0x3000000");
    assert_false(second->is_known);
    ag_symbolizer_free(symbolizer);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(inlined_calls_give_each_level_its_line),
        cmocka_unit_test(older_dwarf),
        cmocka_unit_test(compressed_sections),
        cmocka_unit_test(split_dwarf),
        cmocka_unit_test(a_pipe_as_split_dwarf_is_not_opened),
        cmocka_unit_test(link_time_optimisation),
        cmocka_unit_test(units_without_address_table),
        cmocka_unit_test(return_address_is_looked_up_at_its_call),
        cmocka_unit_test(cxx_names_are_whole),
        cmocka_unit_test(rust_names_have_no_hash),
        cmocka_unit_test(the_public_alias_names_assembly),
        cmocka_unit_test(frames_of_the_same_place_are_stored_once),
    };
    return cmocka_run_group_tests(tests, fixture_enter, fixture_leave);
}
