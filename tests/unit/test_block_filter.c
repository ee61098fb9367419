/* test_block_filter.c: expressions of --filter: which blocks an expression selects, and which
 * expressions are refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/block_filter.h"

static struct ag_block_filter parsed(const char *expression) {
    struct ag_block_filter filter;
    char message[512];
    assert_int_equal(ag_block_filter_parse(expression, &filter, message), 0);
    return filter;
}

static void sizes_are_inclusive(void **state) {
    (void)state;
    const struct ag_block_filter filter = parsed("size=10..1K,!size=20..30");
    const uint64_t in[] = {10, 19, 31, 1024}, out[] = {0, 9, 20, 25, 30, 1025, UINT64_MAX};
    for (size_t i = 0; i < sizeof(in) / sizeof(in[0]); i++) {
        assert_true(ag_block_filter_takes_size(&filter, in[i]));
    }
    for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++) {
        assert_false(ag_block_filter_takes_size(&filter, out[i]));
    }
    const struct ag_block_filter from = parsed("size=4M..");
    assert_true(ag_block_filter_takes_size(&from, UINT64_MAX));
    assert_false(ag_block_filter_takes_size(&from, (4 << 20) - 1));
}

static void heaps_are_selected_by_all_conditions(void **state) {
    (void)state;
    const struct ag_block_filter filter = parsed("domain=cpu,!allocator=pool,heap=my nodes");
    assert_true(ag_block_filter_takes_heap(&filter, 0, "arena", "my nodes"));
    assert_false(ag_block_filter_takes_heap(&filter, 1, "arena", "my nodes"));
    assert_false(ag_block_filter_takes_heap(&filter, 0, "pool", "my nodes"));
    assert_false(ag_block_filter_takes_heap(&filter, 0, "arena", "nodes"));
    assert_true(ag_block_filter_takes_size(&filter, 7));
    assert_true(ag_block_filter_takes_type(&filter, NULL));
}

static void types_are_selected_by_patterns(void **state) {
    (void)state;
    static const struct {
        const char *glob, *type;
        bool is_like;
    } cases[] = {
        {"type=node", "node", true},
        {"type=node", "nodes", false},
        {"type=*", "", true},
        {"type=*node*", "tree node 2", true},
        {"type=a*b*c", "axxbyybzc", true},
        {"type=a*b*c", "axxbyybz", false},
        {"type=Array{?nt64?1}", "Array{Int64,1}", true},
        {"type=int[]", "int[]", true},
        {"type=?", "", false},
        {"type=**x", "aax", true},
        {"type=*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaa", false},
        {"!type=tree*", "tree node", false},
        {"!type=tree*", "list", true},
        {"type=*,!type=tree*", "list", true},
        {"type=Array{Int64,1}", "Array{Int64, 1}", true},
        {"type=Array{Int64,?}", "Array{Int64, 1}", true},
        {"!type=list?node", "list node", false},
        {"type=Hash(String, Int32)", "Hash(String, Int32)", true},
        {"type=Hash(String,Int32),!type=Array(Int32)", "Hash(String, Int32)", true},
        {"!type=Hash(String,Int32),type=H*", "Hash(String, Int32)", false},
        {"type=std::map<int, A>,size=1..", "std::map<int,A>", true},
        {"type=Proc(Int32 -> Int32, A),type=P*", "Proc(Int32 -> Int32, A)", true},
        {"type=*{a*,type=*b", "x{a b", true},
        {"type=Array{Int64,1}", "Array{Int64, 12}", false},
        {"type=a ", "a", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const struct ag_block_filter filter = parsed(cases[i].glob);
        assert_int_equal(ag_block_filter_takes_type(&filter, cases[i].type), cases[i].is_like);
    }
    const struct ag_block_filter plain = parsed("type=*"), negated = parsed("!type=*");
    assert_false(ag_block_filter_takes_type(&plain, NULL)); /* the type of the block is not known:
                                                             * no pattern matches */
    assert_true(ag_block_filter_takes_type(&negated, NULL));
}

static void wrong_words_are_named(void **state) {
    (void)state;
    static const char *const wrong[] = {"domain=tpu",
                                        "size=",
                                        "size=..",
                                        "size=5",
                                        "size=9..1",
                                        "size=1..2x",
                                        "size=99999999999999999999..",
                                        "type=",
                                        "allocator=",
                                        "!",
                                        ",",
                                        "size=1..,",
                                        "colour=red",
                                        "type",
                                        " size=1.."};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        struct ag_block_filter filter;
        char message[512];
        assert_int_equal(ag_block_filter_parse(wrong[i], &filter, message), -EINVAL);
        assert_non_null(strstr(message, "size=LOW..HIGH"));
    }
    const char nine[] = ("size=0..1,size=0..1,size=0..1,size=0..1,size=0..1,size=0..1,size=0..1,"
                         "size=0..1,size=0..2");
    char long_one[2 * AG_BLOCK_FILTER_TEXT_BYTES], message[512];
    struct ag_block_filter filter;
    memset(long_one, 'x', sizeof(long_one));
    memcpy(long_one, "type=", 5);
    long_one[5 + AG_BLOCK_FILTER_NAME_BYTES - 1] = '\0';
    assert_int_equal(ag_block_filter_parse(long_one, &filter, message), 0);
    long_one[5 + AG_BLOCK_FILTER_NAME_BYTES - 1] = 'x';
    long_one[sizeof(long_one) - 1] = '\0';
    assert_int_equal(ag_block_filter_parse(long_one, &filter, message), -EINVAL);
    assert_non_null(strstr(message, "too long"));
    assert_int_equal(ag_block_filter_parse(nine, &filter, message), -EINVAL);
    assert_non_null(strstr(message, "size=0..2: one term too many"));
}

static void an_empty_filter_selects_all_blocks(void **state) {
    (void)state;
    const struct ag_block_filter empty = parsed(""), none = parsed(NULL);
    assert_true(ag_block_filter_takes_heap(&empty, 2, "", "") &&
                ag_block_filter_takes_size(&none, 0) && ag_block_filter_takes_type(&none, NULL));
    assert_false(none.has_sizes || none.has_types);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_inclusive),
        cmocka_unit_test(heaps_are_selected_by_all_conditions),
        cmocka_unit_test(types_are_selected_by_patterns),
        cmocka_unit_test(wrong_words_are_named),
        cmocka_unit_test(an_empty_filter_selects_all_blocks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
