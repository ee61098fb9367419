#!/usr/bin/env bats
# The command `allogram view`. tests/page tests the page in a browser.

setup_file() {
    cd "$BATS_FILE_TMPDIR"
    "$ALLOGRAM" run -q -o some.allogram -- ls / >/dev/null
    export TRACE="$BATS_FILE_TMPDIR/some.allogram"
}

setup() {
    cd "$BATS_TEST_TMPDIR"
    run "$ALLOGRAM" view --no-open -o probe.html "$TRACE"
    [[ $output != *"built without its page"* ]] || skip "this allogram was built without its page"
}

@test "the page is named after the trace, and only its owner may read it" {
    run "$ALLOGRAM" view --no-open "$TRACE"
    [ "$status" -eq 0 ]
    [ "$output" = some.html ]
    [ "$(stat -c %a some.html)" = 600 ]
    [ "$(ls)" = "$(printf 'probe.html\nsome.html')" ]
}

@test "an older page is replaced, and - is standard output" {
    echo old >out.html
    run "$ALLOGRAM" view --no-open -o out.html "$TRACE"
    [ "$status" -eq 0 ]
    "$ALLOGRAM" view -o - "$TRACE" | cmp - out.html
}

@test "the page contains no address that a browser would fetch" {
    run grep -o -E '(src|href)=|https?://[^ "]*|@import|url\(' probe.html
    echo "$output"
    [ -z "$(printf '%s\n' "$output" | grep -v -E 'https?://(www\.w3\.org|github\.com)')" ]
}

@test "view writes to a device, and does not replace it" {
    run "$ALLOGRAM" view --no-open -o /dev/null "$TRACE"
    [ "$status" -eq 0 ]
    [ -c /dev/null ]
}

@test "a file that cannot be read or written gives one line" {
    run "$ALLOGRAM" view --no-open /nowhere.allogram
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == "allogram: view: /nowhere.allogram: "* ]]
    run "$ALLOGRAM" view --no-open -o /nowhere/out.html "$TRACE"
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 1 ]
    run "$ALLOGRAM" view --no-open "$TRACE" "$TRACE" "$TRACE"
    [ "$status" -eq 2 ]
    run bash -c "'$ALLOGRAM' view -o - '$TRACE' >/dev/full"
    [ "$status" -eq 1 ]
}

@test "a program that allocates nothing has a page too" {
    "$ALLOGRAM" run -q -o none.allogram -- true
    run "$ALLOGRAM" view --no-open none.allogram
    [ "$status" -eq 0 ]
}
