#!/usr/bin/env bats
# The command `allogram view`, and the files with the results of gates (report --junit and --sarif). tests/page tests the page in a browser.

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

@test "--merge, and three traces, write one page about all of them; two traces are compared" {
    "$ALLOGRAM" run -q -o 'tree.%p.allogram' -- sh -c 'ls >/dev/null; ls >/dev/null' 3>&-
    traces=(tree.*.allogram)
    [ "${#traces[@]}" = 3 ]
    run "$ALLOGRAM" view --no-open "${traces[@]}"
    [ "$status" -eq 0 ]
    [ "$output" = "${traces[0]%.allogram}.tree.html" ]
    grep -q '"process_tree"' "$output"
    "$ALLOGRAM" view -o - --merge "${traces[@]:0:2}" >two.html
    grep -q '"process_tree"' two.html
    ! grep -q 'id="b1-facts"' two.html
    "$ALLOGRAM" view -o - "${traces[@]:0:2}" >compared.html
    ! grep -q '"process_tree"' compared.html
    grep -q 'id="b1-facts"' compared.html
    "$ALLOGRAM" view -o - --merge "${traces[0]}" | cmp - <("$ALLOGRAM" view -o - "${traces[0]}")
}

@test "no page is written if one of the traces cannot be read" {
    for options in '' --merge; do
        run "$ALLOGRAM" view $options --no-open -o out.html "$TRACE" "$TRACE" /nonexistent.allogram
        [ "$status" -eq 1 ]
        [ "${#lines[@]}" = 1 ]
        [[ $output == *"/nonexistent.allogram"* ]]
        [ ! -e out.html ]
    done
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

@test "/dev/stdout stays a link to the open file" {
    [ -L /dev/stdout ]
    "$ALLOGRAM" view --no-open -o /dev/stdout "$TRACE" >"$BATS_TEST_TMPDIR/page.html"
    [ -L /dev/stdout ]
    head -c 100 "$BATS_TEST_TMPDIR/page.html" | grep -qi "<!doctype html"
}

@test "a trace is never replaced, neither by a page nor by results" {
    cp "$TRACE" "$BATS_TEST_TMPDIR/mine.allogram"
    for option in 'view --no-open -o @' 'report --fail-if=threads>99 --junit=@' 'report --fail-if=threads>99 --sarif=@'; do
        run "$ALLOGRAM" ${option//@/$BATS_TEST_TMPDIR/mine.allogram} "$BATS_TEST_TMPDIR/mine.allogram"
        [ "$status" -eq 1 ]
        [[ $output == *"mine.allogram: is a trace, and a trace is never replaced"* ]]
        cmp "$TRACE" "$BATS_TEST_TMPDIR/mine.allogram"
    done
}

@test "results that cannot be written leave the earlier ones as they are" {
    mkdir "$BATS_TEST_TMPDIR/small"
    mount -t tmpfs -o size=64k none "$BATS_TEST_TMPDIR/small" || skip "no right to mount"
    echo earlier >"$BATS_TEST_TMPDIR/small/a.xml"
    dd if=/dev/zero of="$BATS_TEST_TMPDIR/small/full" bs=4k 2>/dev/null || true
    run "$ALLOGRAM" report "$TRACE" '--fail-if=threads>99' --junit="$BATS_TEST_TMPDIR/small/a.xml" --sarif="$BATS_TEST_TMPDIR/small/a.sarif"
    left=$(ls -A "$BATS_TEST_TMPDIR/small" | tr '\n' ' ') text=$(cat "$BATS_TEST_TMPDIR/small/a.xml")
    run_export=$("$ALLOGRAM" export --to=pprof -o "$BATS_TEST_TMPDIR/small/a.pb" "$TRACE" 2>&1 || true)
    umount "$BATS_TEST_TMPDIR/small"
    [ "$status" -eq 1 ]
    [ "$left" = "a.xml full " ]
    [ "$text" = earlier ]
    [[ $run_export == *"No space left on device"* ]]
}

@test "the page's name may be as long as the file system permits" {
    mkdir "$BATS_TEST_TMPDIR/pages"
    name="$BATS_TEST_TMPDIR/pages/$(printf '%0250d' 0).html" # 255 bytes
    run "$ALLOGRAM" view --no-open -o "$name" "$TRACE"
    [ "$status" -eq 0 ]
    [ "$(ls -A "$BATS_TEST_TMPDIR/pages" | wc -l)" -eq 1 ]
    [ -s "$name" ]
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
    run bash -c "'$ALLOGRAM' view -o - '$TRACE' >/dev/full"
    [ "$status" -eq 1 ]
    [ "$output" = "allogram: standard output: No space left on device" ]
    run "$ALLOGRAM" report --fail-if=threads\>99 --junit=same --sarif=same "$TRACE"
    [ "$status" -eq 2 ]
    [[ $output == *"--junit and --sarif name the same file, same" ]]
    [ ! -e same ]
}

@test "a program that allocates nothing has a page too" {
    "$ALLOGRAM" run -q -o none.allogram -- true
    run "$ALLOGRAM" view --no-open none.allogram
    [ "$status" -eq 0 ]
}
