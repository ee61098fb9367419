#!/usr/bin/env bats
# Contents of the summary of a real trace.

@test "the summary's table names the lines that request memory, not the library or wrapper that allocates for them" {
    command -v "${CXX:-c++}" >/dev/null || skip "no C++ compiler here"
    cd "$BATS_TEST_TMPDIR"
    cat >asks.cc <<'PROGRAM'
#include <cstdlib>
#include <vector>
static void *xmalloc(size_t size) { return malloc(size); }
__attribute__((noinline)) static void *one() { return xmalloc(1000); }
__attribute__((noinline)) static void *two() { return xmalloc(2000); }
__attribute__((noinline)) static size_t three() { return std::vector<char>(3000).size(); }
int main() {
    size_t sum = 0;
    for (int i = 0; i < 500; i++) { void *p = one(), *q = two(); sum += three(); free(p); free(q); }
    return sum != 1500000;
}
PROGRAM
    "${CXX:-c++}" -g -O0 -o asks asks.cc
    "$ALLOGRAM" run -q -o asks.allogram -- ./asks
    run "$ALLOGRAM" report asks.allogram
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *"49 %     500      2.93  three "*"asks.cc:6"* ]]
    [[ $output == *"500      1.95  two "*"asks.cc:5"* ]]
    [[ $output == *"500      0.98  one "*"asks.cc:4"* ]]
    [[ $output != *"xmalloc"* ]]
    run "$ALLOGRAM" report asks.allogram --view=sites
    [[ $output == *"xmalloc"* ]]
}

@test "a runtime's library with debug information does not take the line from the program" {
    command -v "${CC:-cc}" >/dev/null || skip "no C compiler here"
    cd "$BATS_TEST_TMPDIR"
    printf '#include <stdlib.h>\nvoid *scm_cons(void) { return malloc(1000); }\n' >pairs.c
    printf 'void *scm_cons(void);\nint main(void) {\n    for (int i = 0; i < 500; i++) {\n        scm_cons();\n    }\n}\n' >asks.c
    "${CC:-cc}" -g -O0 -shared -fPIC -o libguile-9.0.so.1 pairs.c
    "${CC:-cc}" -g -O0 -o asks asks.c ./libguile-9.0.so.1
    "$ALLOGRAM" run -q -o asks.allogram -- ./asks
    run "$ALLOGRAM" report asks.allogram
    echo "$output"
    [ "$status" -eq 0 ]
    [[ $output == *" main "*"asks.c:4"* ]]
    [[ $output != *"pairs.c:2"* ]]
}
