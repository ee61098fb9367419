/* test_term_size.c: finds the function that computes the size of an Erlang term, which the emulator
 * exports, or which its function enif_term_size calls. The test has several forms of
 * enif_term_size in assembly. If a form is not known, no function may be called. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <erl_nif.h>

#include "allogram/allogram.h"
#include "term_size.h"

enum { LITERAL = 1, LIST = 2, ATOM = 3, LIST_WORDS = 4, LITERAL_WORDS = 4 };

static int n_calls;
static uint64_t size_of_list;

uint64_t size_in_test(ERL_NIF_TERM term, void *area);
uint64_t size_in_test(ERL_NIF_TERM term, void *area) {
    n_calls++;
    return term == LIST      ? size_of_list + (area == NULL ? LITERAL_WORDS : 0)
           : term == LITERAL ? (area == NULL ? LITERAL_WORDS : 0)
                             : 0;
}

#define FUNCTION(name, code) __asm__(".text\n.globl " #name "\n" #name ":\n" code)
FUNCTION(by_gcc, "endbr64\nsub $8, %rsp\nxor %esi, %esi\ncall size_in_test\nadd $8, %rsp\n"
                 "shl $3, %rax\nret\n");
FUNCTION(by_clang, "push %rax\nxor %esi, %esi\ncall size_in_test\nshl $3, %rax\npop %rcx\nret\n");
FUNCTION(with_area, "sub $8, %rsp\nxor %edi, %edi\ncall size_in_test\nadd $8, %rsp\nshl $3, %rax\n"
                    "ret\n");
FUNCTION(in_words, "sub $8, %rsp\nxor %esi, %esi\ncall size_in_test\nadd $8, %rsp\nret\n");
FUNCTION(and_more, "push %rax\nxor %esi, %esi\ncall size_in_test\nshl $3, %rax\npop %rcx\n"
                   "inc %rax\nret\n");
extern const char by_gcc[], by_clang[], with_area[], in_words[], and_more[];

static const void *exported_size, *term_size; /* what the emulator exports */

void *__wrap_dlsym(void *handle, const char *name);
void *__wrap_dlsym(void *handle, const char *name) {
    (void)handle;
    return (void *)(strcmp(name, "size_object_x") == 0    ? exported_size
                    : strcmp(name, "enif_term_size") == 0 ? term_size
                                                          : NULL);
}

ERL_NIF_TERM enif_make_int(ErlNifEnv *env, int number) {
    (void)env;
    (void)number;
    return ATOM;
}

ERL_NIF_TERM enif_make_list(ErlNifEnv *env, unsigned n, ...) {
    (void)env;
    assert_int_equal(n, 2);
    return LIST;
}

static int begin(void **state) {
    (void)state;
    n_calls = 0;
    size_of_list = LIST_WORDS;
    exported_size = term_size = NULL;
    return 0;
}

static void assert_known(void) {
    assert_true(ag_term_size_start(NULL, LITERAL));
    assert_int_equal(ag_term_size(LIST), LIST_WORDS);
    assert_int_equal(ag_term_size(LITERAL), 0);
}

static void assert_unknown(void) {
    assert_false(ag_term_size_start(NULL, LITERAL));
    assert_true(ag_term_size(LIST) == ALLOGRAM_UNKNOWN_WORDS);
}

static void an_exported_function_is_called(void **state) {
    (void)state;
    exported_size = (const void *)(uintptr_t)size_in_test;
    assert_known();
}

static void a_function_is_found_in_enif_term_size(void **state) {
    (void)state;
    term_size = by_gcc;
    assert_known();
    term_size = by_clang;
    assert_known();
}

static void nothing_of_another_form_is_called(void **state) {
    const char *const forms[] = {with_area, in_words, and_more};
    (void)state;
    assert_unknown();
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        term_size = forms[i];
        assert_unknown();
    }
    assert_int_equal(n_calls, 0);
}

static void a_function_with_wrong_results_is_refused(void **state) {
    (void)state;
    exported_size = (const void *)(uintptr_t)size_in_test;
    size_of_list = LIST_WORDS + 1;
    assert_unknown();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(an_exported_function_is_called, begin),
        cmocka_unit_test_setup(a_function_is_found_in_enif_term_size, begin),
        cmocka_unit_test_setup(nothing_of_another_form_is_called, begin),
        cmocka_unit_test_setup(a_function_with_wrong_results_is_refused, begin),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
