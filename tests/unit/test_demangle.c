/* test_demangle.c: demangles names to the form that programmers write. Names that are made to be
 * expensive stay mangled. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "symbol/symbol.h"

static void check(const char *mangled, const char *wanted) {
    char *text = ag_demangle(mangled);
    if (wanted == NULL) {
        assert_null(text);
        return;
    }
    assert_non_null(text);
    assert_string_equal(text, wanted);
    free(text);
}

static void cxx_without_the_return_type(void **state) {
    (void)state;
    check("_ZN5outer5inner3addEii", "outer::inner::add(int, int)");
    check("_Z5twiceIiET_S0_", "twice<int>(int)");
    check("_ZN12_GLOBAL__N_14helpEv", "(anonymous namespace)::help()");
    check("_ZNSt6vectorIiSaIiEE9push_backERKi",
          "std::vector<int, std::allocator<int> >::push_back(int const&)");
}

static void rust_legacy_without_its_hash(void **state) {
    (void)state;
    check("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place");
    check(
        "_ZN60_$LT$alloc..string..String$u20$as$u20$core..fmt..Display$GT$3fmt17h8b4b2bd7c1f6a0e5E",
        "<alloc::string::String as core::fmt::Display>::fmt");
}

static void rust_v0_without_disambiguators(void **state) {
    (void)state;
    check("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function");
    check("_RNvMs1_NtNtCsgEmfK2I1SDS_4core3fmt8buildersNtB5_11DebugStruct5field",
          "<core::fmt::builders::DebugStruct>::field");
}

static void d_names_are_demangled(void **state) {
    (void)state;
    check("_D3app4mathQh3addFiiZi", NULL);
    check("_D8demangle4testFZv", "demangle.test()");
    check("_Dmain", "D main");
}

static void plain_names_are_not_mangled(void **state) {
    (void)state;
    check("main", NULL);
    check("", NULL);
    check("_", NULL);
    check("_Z", NULL);
    check("_start", NULL);
    check("_ZN4core3ptr", NULL);
    check("_RNv", NULL);
}

static void copies_carry_the_name_of_the_function(void **state) {
    (void)state;
    check("_ZN5outer4workEi.cold", "outer::work(int)");
    check("_ZN5outer4workEi.part.0.isra.0", "outer::work(int)");
    static const char *const stems[][2] = {
        {"work.constprop.0", "work"},
        {"work.part.0.cold", "work"},
        {"malloc@@GLIBC_2.2.5", "malloc"},
        {"main._omp_fn.0", "main._omp_fn.0"},
        {"main.cold.7", "main"},
        {"a.b", "a.b"},
        {".cold", ".cold"},
        {"x.llvm.123456", "x"},
        {"name.0", "name.0"},
        {"@x", "@x"},
    };
    for (size_t i = 0; i < sizeof(stems) / sizeof(stems[0]); i++) {
        const size_t n = ag_name_stem_bytes(stems[i][0], strlen(stems[i][0]));
        assert_int_equal(n, strlen(stems[i][1]));
        assert_memory_equal(stems[i][0], stems[i][1], n);
    }
}

/* Makes a name in which each A<S, S> refers twice to the one before it, as S1_, S2_ ...: each level
 * doubles the text. */
static void doubling_cxx_name(int n_levels, char *ret_name) {
    static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
    char *at = ret_name + sprintf(ret_name, "_Z1fI1AIiiE");
    for (int level = 1; level <= n_levels; level++) {
        at += sprintf(at, "S0_IS%c_S%c_E", digits[level], digits[level]);
    }
    strcpy(at, "Evv");
}

static void a_cxx_name_that_expands_without_end_stays_mangled(void **state) {
    (void)state;
    char name[1024];
    doubling_cxx_name(1, name);
    check(name, "f<A<int, int>, A<A<int, int>, A<int, int> > >()");
    doubling_cxx_name(34, name);
    check(name, NULL);
}

static void doubling_d_name(int n_levels, char *ret_name) {
    char *at = ret_name + sprintf(ret_name, "_D1f1xFB2iiB2QgQi");
    for (int level = 1; level < n_levels; level++) {
        at += sprintf(at, "B2QiQk");
    }
    strcpy(at, "Zv");
}

static void a_d_name_that_expands_without_end_stays_mangled(void **state) {
    (void)state;
    char name[1024];
    doubling_d_name(1, name);
    check(name, "f.x(Tuple!(int, int), Tuple!(Tuple!(int, int), Tuple!(int, int)))");
    doubling_d_name(40, name);
    check(name, NULL);
}

static void long_and_deep_names_stay_mangled(void **state) {
    (void)state;
    const size_t length = 1 << 20;
    char *name = malloc(length + 1);
    assert_non_null(name);
    memset(name, 'P', length);
    name[length] = '\0';
    memcpy(name, "_Z1f", 4);
    check(name, NULL);
    name[4000] = '\0';
    check(name, NULL);
    memcpy(name, "_RC1", 4);
    check(name, NULL);
    free(name);
}

/* Random bytes cause no crash and no endless work. */
static void random_bytes_after_a_prefix_cause_no_crash(void **state) {
    (void)state;
    static const char letters[] = "0123456789_ZNSTIEJLXABCDFGHKMOPQRVYabcdefghijklmnopqrstuvwxyz$.";
    static const char *const prefixes[] = {"_Z", "_R", "_D4", "_ZN"};
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        char name[200] = "";
        strcat(name, prefixes[round % 4]);
        const size_t length = 4 + (size_t)round % 180;
        for (size_t i = strlen(name); i < length; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            name[i] = letters[(random >> 33) % (sizeof(letters) - 1)];
        }
        free(ag_demangle(name));
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cxx_without_the_return_type),
        cmocka_unit_test(rust_legacy_without_its_hash),
        cmocka_unit_test(rust_v0_without_disambiguators),
        cmocka_unit_test(d_names_are_demangled),
        cmocka_unit_test(plain_names_are_not_mangled),
        cmocka_unit_test(copies_carry_the_name_of_the_function),
        cmocka_unit_test(a_cxx_name_that_expands_without_end_stays_mangled),
        cmocka_unit_test(a_d_name_that_expands_without_end_stays_mangled),
        cmocka_unit_test(long_and_deep_names_stay_mangled),
        cmocka_unit_test(random_bytes_after_a_prefix_cause_no_crash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
