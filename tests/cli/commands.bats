#!/usr/bin/env bats
# The table of commands, options and messages that all commands have in common, and the completions of the shells.

commands="run attach observe control report explain view diff export dump check doctor mcp"

one_line() {
    [ "$(printf '%s\n' "$output" | wc -l)" -eq 1 ]
}

@test "allogram without arguments lists the commands" {
    run "$ALLOGRAM"
    [ "$status" -eq 0 ]
    for command in $commands; do
        [[ $output == *"  $command "* ]]
    done
}

@test "every documented command exists" {
    for command in $commands; do
        run "$ALLOGRAM" "$command" --help
        [[ $output != *"unknown command"* ]]
    done
}

@test "an unknown command or option is a usage error" {
    run "$ALLOGRAM" frobnicate
    [ "$status" -eq 2 ]
    one_line
    run "$ALLOGRAM" --frobnicate
    [ "$status" -eq 2 ]
    one_line
}

@test "a mistyped command or option is answered with the one that was meant" {
    run "$ALLOGRAM" reprot
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: unknown command 'reprot'; did you mean 'report'?" ]
    run "$ALLOGRAM" --verison
    [ "$output" = "allogram: unknown option '--verison'; did you mean '--version'?" ]
    run "$ALLOGRAM" frobnicate
    [ "$output" = "allogram: unknown command 'frobnicate'; 'allogram help' lists the commands" ]
    run "$ALLOGRAM" report --vew=leaks t.allogram
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: report: unknown option '--vew'; did you mean '--view'?" ]
    run "$ALLOGRAM" report --frobnicate t.allogram
    [ "$output" = "allogram: report: unknown option '--frobnicate'; see allogram report --help" ]
    run "$ALLOGRAM" report --min= --mi=3 t.allogram
    [[ $output != *"--mi"*"did you mean"* ]]
    run "$ALLOGRAM" report --t=1 t.allogram
    [ "$output" = "allogram: report: ambiguous option '--t'; see allogram report --help" ]
}

@test "an escape character in a name is not written to the terminal" {
    run "$ALLOGRAM" $'\e[2Jevil'
    [ "$status" -eq 2 ]
    [[ $output != *$'\e'* ]]
}

@test "the message of check about a file does not contain the escape character of the file's name" {
    printf 'no trace' >"$BATS_TEST_TMPDIR/"$'\e[2Jevil'
    run "$ALLOGRAM" check "$BATS_TEST_TMPDIR/"$'\e[2Jevil'
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"evil: not an allogram trace; "* && $output != *$'\e'* ]]
}

@test "bash completes exactly the options in the section 'options' of a command's help" {
    . "$SOURCE/completions/allogram.bash"
    compopt() { :; }
    PATH=$(dirname "$ALLOGRAM"):$PATH
    for command in $commands; do
        COMP_WORDS=(allogram "$command" --) COMP_CWORD=2
        _allogram || true # a completion function may fail; bats would end the test
        run diff <(printf '%s\n' "${COMPREPLY[@]}") <("$ALLOGRAM" "$command" --help | sed -n '/^options/,$p' |
            cut -c 1-27 | grep -o -e '--[a-z-]*=\{0,1\}')
        [ "$status" -eq 0 ]
    done
}

# The values that bash, zsh and fish offer after the words, one per line, sorted.
bash_values() {
    . "$SOURCE/completions/allogram.bash"
    compopt() { :; }
    COMP_WORDS=(allogram "$@") COMP_CWORD=$#
    _allogram || true
    printf '%s\n' "${COMPREPLY[@]}" | sort
}

fish_values() {
    fish --no-config -c "source $SOURCE/completions/allogram.fish; complete -C 'allogram $*'" | cut -f 1 | sed 's/^--[a-z-]*=//' | sort
}

# The words that the message of an unknown value lists.
names_in_message() {
    "$ALLOGRAM" "$@" 2>&1 | sed 's/.* are //; s/[;,].*//' | tr ' ' '\n' | sort
}

@test "the shells complete the views and formats that allogram itself lists" {
    PATH=$(dirname "$ALLOGRAM"):$PATH
    views=$(names_in_message report x.allogram --view=?)
    formats=$(names_in_message export x.allogram --to=?)
    [[ $views == *leaks* && $formats == *pprof* ]]
    [ "$(bash_values report --view =)" = "$views" ]
    [ "$(bash_values export --to = '')" = "$formats" ]
    [ "$(bash_values report --fold = n)" = none ]
    [ "$(bash_values report --sort = temp)" = temporary_blocks ]
    [ "$(bash_values diff --by = '')" = "$(printf '%s\n' function heap image label line type)" ]
    if command -v fish; then
        [ "$(fish_values report --view=)" = "$views" ]
        [ "$(fish_values export --to=)" = "$formats" ]
        [ "$(fish_values run --mode=)" = "$(printf 'exact\nsample')" ]
    fi
}

@test "the completion of fish declares each option that has a list of values" {
    commands=$("$ALLOGRAM" --help | sed -n '/^commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
    n=0
    for command in $commands; do
        for option in $("$ALLOGRAM" "$command" --help | sed -n -E 's/^  (-[a-z], )?--([a-z-]+)=.*/\2/p'); do
            [ -n "$("$ALLOGRAM" "$command" --values-of="$option" 2>/dev/null)" ] || continue
            grep -qw -e "$command:$option" "$SOURCE/completions/allogram.fish" || { echo "$command:$option"; false; }
            n=$((n + 1))
        done
    done
    [ "$n" -ge 19 ]
}

@test "bash and fish complete processes, actions and traces" {
    PATH=$(dirname "$ALLOGRAM"):$PATH
    cd "$BATS_TEST_TMPDIR"
    touch one.allogram other.txt
    [ "$(bash_values report o)" = one.allogram ]
    bash_values attach '' | grep -qx "$$"
    [ "$(bash_values control "$$" re)" = "$(printf 'reset\nresume')" ]
    if command -v fish; then
        fish_values attach '' | grep -qx "$$"
        fish_values control "$$ re" | grep -qx resume
        fish_values report o | grep -qx one.allogram
    fi
}

@test "zsh completes views, processes and traces" {
    command -v zsh || skip "no zsh"
    PATH=$(dirname "$ALLOGRAM"):$PATH
    cd "$BATS_TEST_TMPDIR"
    touch one.allogram other.txt
    # Replaces the functions that zsh has only inside a completion: compadd and _files print what they are given.
    zsh_values() {
        zsh -f -c 'compadd() { print -l -- ${@:#-*} }; _files() { print -l -- ${~2}(N) }; compset() { : }; _describe() { : }
            words=("$@") CURRENT=$#; functions[_complete]="$(<$SOURCE/completions/_allogram)"; _complete' zsh "$@" | sort -u
    }
    [ "$(zsh_values allogram report --view=)" = "$(names_in_message report x.allogram --view=?)" ]
    [ "$(zsh_values allogram run --mode=)" = "$(printf 'exact\nsample')" ]
    zsh_values allogram attach '' | grep -qx "$$"
    zsh_values allogram control "$$" '' | grep -qx resume
    [ "$(zsh_values allogram report '')" = one.allogram ]
}

@test "COMMAND --help writes to standard output, the same text as help COMMAND" {
    for command in $commands; do
        run bash -c "'$ALLOGRAM' $command --help 2>&1 >/dev/null"
        [ -z "$output" ]
        run diff <("$ALLOGRAM" "$command" --help) <("$ALLOGRAM" help "$command")
        [ "$status" -eq 0 ]
    done
}

@test "the version is that of the project" {
    run "$ALLOGRAM" --version
    [ "$status" -eq 0 ]
    version=$(sed -n "s/^  version: '\(.*\)',$/\1/p" "$SOURCE/meson.build")
    [ "$output" = "allogram $version" ]
}

@test "the status is a failure if standard output is on a full disk" {
    [ -e /dev/full ] || skip "no /dev/full"
    run bash -c "'$ALLOGRAM' --version 2>&1 >/dev/full"
    [ "$status" -eq 1 ]
    [[ $output == *"No space left"* ]]
}
