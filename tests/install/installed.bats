#!/usr/bin/env bats
# Tests the files that `make install` installs: the program, the agent (the library that allogram loads into programs), the pkg-config file,
# man pages, completions, and the files for OCaml, Julia and Crystal. The test installs the files into a temporary folder. BUILD is the build folder.

setup_file() {
    export ROOT="$BATS_FILE_TMPDIR/root"
    DESTDIR="$ROOT" meson install -C "$BUILD" --no-rebuild >/dev/null
    ALLOGRAM=$(find "$ROOT" -type f -name allogram -path '*/bin/*')
    export ALLOGRAM
    MAN=$(dirname "$(find "$ROOT" -name allogram.1)")
    export MAN
}

options_of_help() { # the options in the --help of a command
    "$ALLOGRAM" "$1" --help | grep -v 'not in this version' | sed '/not built in this version/,$d' |
        grep -o -E -e '^  (-., )?--[a-z-]+' | grep -o -E -e '--[a-z-]+' | grep -v -e '--help' | sort -u
}

options_of_page() { # the options in the manual page of a command
    sed -n '/^.SH OPTIONS/,/^.SH [^O]/p' "$MAN/allogram-$1.1" | grep -A 1 '^.TP' | grep -o -E -e '--[a-z-]+' |
        grep -v -e '--help' | sort -u
}

@test "the installed program finds its agent and records" {
    cd "$BATS_TEST_TMPDIR"
    run "$ALLOGRAM" run -o seen.allogram -- ls /
    [ "$status" -eq 0 ]
    [[ "$output" == *"allocations"* ]]
    run "$ALLOGRAM" check seen.allogram
    [ "$status" -eq 0 ]
}

@test "pkg-config names an agent that exists" {
    PKG_CONFIG_PATH=$(dirname "$(find "$ROOT" -name allogram.pc)")
    export PKG_CONFIG_PATH
    agent=$(pkg-config --variable=agent allogram)
    [ -f "$ROOT$agent" ]
}

@test "a program builds with the flags of pkg-config alone, and its types are reported" {
    PKG_CONFIG_PATH=$(dirname "$(find "$ROOT" -name allogram.pc)")
    export PKG_CONFIG_PATH PKG_CONFIG_SYSROOT_DIR="$ROOT"
    cd "$BATS_TEST_TMPDIR"
    # shellcheck disable=SC2046 # words
    cc -std=c11 -g -Wall -Wextra -Werror "$BATS_TEST_DIRNAME/../../examples/arena_and_gpu.c" \
        $(pkg-config --cflags --libs allogram) -o program
    LD_LIBRARY_PATH=$(dirname "$(find "$ROOT" -name liballogram.so)") run ./program
    [ "$status" -eq 0 ]
    run "$ALLOGRAM" report --view=types "$output"
    [ "$status" -eq 0 ]
    [[ "$output" == *" 100 "*" 70  list node"* ]]
}

@test "an OCaml program builds with the package of ocamlfind alone" {
    META=$(find "$ROOT" -path '*/ocaml/allogram/META')
    [ -n "$META" ] || skip "no OCaml library was built"
    OCAMLPATH=$(dirname "$(dirname "$META")")
    library=$(dirname "$(find "$ROOT" -name liballogram.so)")
    export OCAMLPATH LD_LIBRARY_PATH="$library"
    cd "$BATS_TEST_TMPDIR"
    cp "$BATS_TEST_DIRNAME/../../examples/recorded.ml" .
    ocamlfind ocamlopt -g -package allogram -linkpkg recorded.ml -ccopt "-L$library" -o recorded
    ALLOGRAM_OUTPUT=seen.allogram run ./recorded
    [ "$output" = "done" ]
    run "$ALLOGRAM" report --view=sites seen.allogram
    [[ "$output" == *"Recorded.pair"* ]]
}

@test "each command that is built has a man page with exactly its options" {
    commands=$("$ALLOGRAM" --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
    [ -n "$commands" ]
    for command in $commands; do
        echo "$command"
        [ -f "$MAN/allogram-$command.1" ]
        diff <(options_of_help "$command") <(options_of_page "$command")
    done
}

@test "groff formats the man pages without a warning" {
    command -v groff >/dev/null || skip "no groff here"
    for page in "$MAN"/*.1; do
        run groff -man -Tutf8 -ww -z "$page"
        echo "$page: $output"
        [ "$status" -eq 0 ] && [ -z "$output" ]
    done
}

@test "bash completes commands, options and traces" {
    cd "$BATS_TEST_TMPDIR"
    touch one.allogram other.txt
    PATH=$(dirname "$ALLOGRAM"):$PATH
    compopt() { :; }
    # shellcheck disable=SC1090 # found by its name
    . "$(find "$ROOT" -path '*bash-completion*' -name allogram)"
    complete_after() {
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        _allogram || true
        echo "${COMPREPLY[*]}"
    }
    [[ " $(complete_after allogram '') " == *" run "*" check "* ]]
    [ "$(complete_after allogram ru)" = run ]
    [ "$(complete_after allogram run --max)" = --max-size= ]
    [ "$(complete_after allogram check o)" = one.allogram ]
}

@test "the installed Allogram.jl finds its library" {
    folder=$(dirname "$(find "$ROOT" -name Allogram.jl)")
    found=
    for place in $(sed -n 's/^const PLACES = //p' "$folder/Allogram.jl" | tr -d '(),"'); do
        [ ! -f "$folder/$place/liballogram-julia.so" ] || found=$place
    done
    [ -n "$found" ]
}

@test "a Crystal program builds with the installed file allogram.cr" {
    command -v crystal >/dev/null || skip "crystal is not installed"
    binding=$(find "$ROOT" -path '*/share/allogram/crystal/allogram.cr')
    [ -f "$binding" ]
    cd "$BATS_TEST_TMPDIR"
    CRYSTAL_PATH="$(crystal env CRYSTAL_PATH):$(dirname "$binding")" CRYSTAL_CACHE_DIR="$PWD/cache" \
        crystal build -o program "$BATS_TEST_DIRNAME/../../examples/tracked_objects.cr"
    run ./program
    [ "$output" = "not recorded" ]
    run "$ALLOGRAM" run -q -o seen.allogram -- ./program
    [ "${lines[0]}" = "1010 sessions made, nearly all of the others dead" ]
    [ "${lines[1]}" = "3000 requests made" ]
}
