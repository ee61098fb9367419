#!/usr/bin/env bats
# Which functions and lines the summary, `diff` and other views of real traces name: the program's own, not those of libraries.

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
    for view in sites tree peak; do
        "$ALLOGRAM" report asks.allogram --view=$view >folded
        grep -q "three.*asks.cc:6" folded
        [ -z "$(grep xmalloc folded)" ]
        "$ALLOGRAM" report asks.allogram --view=$view --fold=none | grep -q xmalloc
    done
}

@test "diff and the views of stacks name functions of a C++ program, not of the C++ library" {
    command -v "${CXX:-c++}" >/dev/null || skip "no C++ compiler here"
    cd "$BATS_TEST_TMPDIR"
    cat >orders.cc <<'END'
#include <map>
#include <string>
#include <thread>
#include <vector>
static std::map<int, std::vector<std::string>> orders;
static void add_order(int i) { orders[i].push_back(std::string(100, 'x')); }
static void parse(int n) {
    std::vector<std::string> words;
    for (int i = 0; i < n; i++) words.push_back(std::string(50, 'y'));
}
int main(int argc, char **) {
    const int n = argc > 1 ? 3000 : 1000;
    std::thread thread([&] { for (int i = 0; i < n; i++) add_order(i); });
    thread.join();
    parse(n / 2);
    return 0;
}
END
    "${CXX:-c++}" -g -O0 -pthread -o orders orders.cc
    "$ALLOGRAM" run -q -o few.allogram -- ./orders
    "$ALLOGRAM" run -q -o many.allogram -- ./orders more
    COLUMNS=150 "$ALLOGRAM" diff few.allogram many.allogram >diff.txt
    grep -A1 'before *after' diff.txt | grep -q 'grew.*add_order *orders.cc:6' # the largest change is the first row
    grep -q 'grew.*parse *orders.cc:9' diff.txt
    "$ALLOGRAM" diff few.allogram many.allogram --fold=none | grep -q 'std::'
    for view in sites tree leaks peak temporary blocks lifetimes; do
        COLUMNS=150 "$ALLOGRAM" report many.allogram --view=$view >"$view.txt"
    done
    [ -z "$(grep -E 'std::|__gnu_cxx|operator new\(' diff.txt sites.txt tree.txt temporary.txt lifetimes.txt)" ]
    # types are computed from the complete stacks, so --fold, which leaves out frames, does not change them
    for fold in auto none; do
        "$ALLOGRAM" report many.allogram --view=blocks --fold=$fold --json --limit=0 | jq -c '[.blocks[] | [.address, .type]] | sort' >"types.$fold"
    done
    cmp types.auto types.none
}

@test "a table names the program's own line, also if the library of a runtime has debug information" {
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
