#!/usr/bin/env bats
# Options, messages and files of `export`. The contents of the files are tested in tests/export.

setup_file() {
    export TRACE="$BATS_FILE_TMPDIR/t.allogram"
    cp "$SOURCE/tests/golden/trace/trace-v1-sealed.allogram" "$TRACE"
}

one_line() {
    [ "$(printf '%s\n' "$output" | wc -l)" -eq 1 ]
}

@test "if the format is missing or unknown, or the metric is unknown, one line names the valid ones" {
    for words in "" "--to=svg" "--to=" "--to=folded --metric=weight"; do
        # shellcheck disable=SC2086 # the words are split on purpose
        run "$ALLOGRAM" export "$TRACE" $words
        [ "$status" -eq 2 ]
        one_line
        [[ $output == "allogram: export: "*" are "* ]]
        [[ $output == *" dhat "*" heaptrack "* || $output == *" allocated_bytes "*" freed_blocks"* ]]
    done
}

@test "a mistyped format or metric is answered with the one that was meant" {
    run "$ALLOGRAM" export "$TRACE" --to=pprf
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: export: --to=pprf: unknown format; did you mean 'pprof'?" ]
    run "$ALLOGRAM" export "$TRACE" --to=csv --metric=peak_byte
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: export: --metric=peak_byte: unknown metric; did you mean 'peak_bytes'?" ]
}

@test "perf-map of a trace without generated code gives one line and no file" {
    run "$ALLOGRAM" export "$TRACE" --to=perf-map -o "$BATS_TEST_TMPDIR/perf-1.map"
    [ "$status" -eq 1 ]
    one_line
    [[ $output == "allogram: export: $TRACE: --to=perf-map: "*"observe PID --perf-map" ]]
    [ ! -e "$BATS_TEST_TMPDIR/perf-1.map" ]
    run "$ALLOGRAM" export "$TRACE" "$TRACE" --merge --to=perf-map
    [ "$status" -eq 2 ]
    one_line
}

@test "one trace is expected" {
    run "$ALLOGRAM" export --to=csv
    [ "$status" -eq 2 ]
    one_line
    run "$ALLOGRAM" export "$TRACE" "$TRACE" --to=csv
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *"--merge"* ]]
}

@test "several traces are merged if the format can contain them, and refused if one of them cannot be read" {
    for format in pprof dhat massif folded speedscope callgrind heapprofile firefox csv json; do
        "$ALLOGRAM" export --merge "$TRACE" "$TRACE" --to="$format" -o "$BATS_TEST_TMPDIR/$format"
        [ -s "$BATS_TEST_TMPDIR/$format" ]
        run "$ALLOGRAM" export --merge "$TRACE" nowhere.allogram --to="$format" -o "$BATS_TEST_TMPDIR/not.$format"
        [ "$status" -eq 1 ]
        one_line
        [ ! -e "$BATS_TEST_TMPDIR/not.$format" ]
    done
    run "$ALLOGRAM" export --merge "$TRACE" "$TRACE" --to=heaptrack
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *"--merge"*"one process"* ]]
    "$ALLOGRAM" export --merge "$TRACE" --to=heaptrack | cmp - <("$ALLOGRAM" export "$TRACE" --to=heaptrack)
}

@test "an invalid time window is a usage error, and the message about --to=TIME names --until" {
    for words in "--from=soon" "--until=later" "--until=0" "--from=2 --until=1" "--from=-1"; do
        # shellcheck disable=SC2086 # the words are split on purpose
        run "$ALLOGRAM" export "$TRACE" --to=csv $words
        [ "$status" -eq 2 ]
        one_line
    done
    run "$ALLOGRAM" export "$TRACE" --from=1 --to=2.5
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *"--until=2.5"* ]]
}

@test "a missing trace, and a file that is no trace, give one line and no output file" {
    printf 'no trace' >"$BATS_TEST_TMPDIR/none"
    for trace in nowhere.allogram "$BATS_TEST_TMPDIR/none" "$BATS_TEST_TMPDIR"; do
        run "$ALLOGRAM" export "$trace" --to=csv -o "$BATS_TEST_TMPDIR/out"
        [ "$status" -eq 1 ]
        one_line
        [ ! -e "$BATS_TEST_TMPDIR/out" ]
    done
}

@test "only its owner may read the new file" {
    umask 0
    "$ALLOGRAM" export "$TRACE" --to=csv -o "$BATS_TEST_TMPDIR/out"
    [ "$(stat -c %a "$BATS_TEST_TMPDIR/out")" = 600 ]
}

@test "no existing file is overwritten, and no link is followed" {
    echo mine >"$BATS_TEST_TMPDIR/mine"
    ln -s nowhere "$BATS_TEST_TMPDIR/link"
    for file in mine link; do
        run "$ALLOGRAM" export "$TRACE" --to=csv --output="$BATS_TEST_TMPDIR/$file"
        [ "$status" -eq 1 ]
        one_line
        [[ $output == *"$file: File exists"* ]]
    done
    [ "$(cat "$BATS_TEST_TMPDIR/mine")" = mine ]
    [ ! -e "$BATS_TEST_TMPDIR/nowhere" ]
}

@test "without -o, and with -o -, the export goes to standard output" {
    for format in pprof dhat massif folded speedscope callgrind heapprofile firefox heaptrack csv json; do
        "$ALLOGRAM" export "$TRACE" --to="$format" -o "$BATS_TEST_TMPDIR/$format"
        "$ALLOGRAM" export --to "$format" "$TRACE" | cmp - "$BATS_TEST_TMPDIR/$format"
        "$ALLOGRAM" export "$TRACE" --to="$format" -o - | cmp - "$BATS_TEST_TMPDIR/$format"
        [ -s "$BATS_TEST_TMPDIR/$format" ]
    done
}

@test "a binary format is not written to a terminal" {
    command -v script >/dev/null || skip "no script(1) to make a terminal with"
    run script -qec "'$ALLOGRAM' export '$TRACE' --to=pprof" /dev/null
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *"--to=pprof: refusing to write binary data to a terminal; use -o FILE"* ]]
    run script -qec "'$ALLOGRAM' export '$TRACE' --to=csv" /dev/null
    [ "$status" -eq 0 ]
}

@test "a full disk is a failure in one line" {
    [ -e /dev/full ] || skip "no /dev/full"
    for format in csv pprof heaptrack; do
        run bash -c "'$ALLOGRAM' export '$TRACE' --to=$format 2>&1 >/dev/full"
        [ "$status" -eq 1 ]
        one_line
        [[ $output == *"No space left"* ]]
    done
}

@test "a file that could not be written completely is removed" {
    trace="$BATS_TEST_TMPDIR/t.allogram"
    "$ALLOGRAM" run -q -o "$trace" -- "$PROGRAM" >/dev/null
    run bash -c "ulimit -f 16; trap '' XFSZ; exec '$ALLOGRAM' export '$trace' --to=heaptrack -o '$BATS_TEST_TMPDIR/out'"
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"File too large"* ]]
    [ ! -e "$BATS_TEST_TMPDIR/out" ]
}

@test "a filter that is no regular expression is a usage error" {
    for option in "--focus=(" "--ignore=[" --thread=main; do
        run "$ALLOGRAM" export "$TRACE" --to=csv "$option"
        [ "$status" -eq 2 ]
        one_line
        [[ $output == *"${option%%=*}"* ]]
    done
}

@test "the readable part of a cut trace is exported, and a message says so" {
    "$ALLOGRAM" run -q -o "$BATS_TEST_TMPDIR/whole.allogram" -- "$PROGRAM" >/dev/null
    head -c "$(($(stat -c %s "$BATS_TEST_TMPDIR/whole.allogram") - 10))" "$BATS_TEST_TMPDIR/whole.allogram" \
        >"$BATS_TEST_TMPDIR/cut.allogram"
    for format in pprof dhat massif heaptrack firefox json; do
        run "$ALLOGRAM" export "$BATS_TEST_TMPDIR/cut.allogram" --to="$format" -o "$BATS_TEST_TMPDIR/cut.$format"
        [ "$status" -eq 0 ]
        [[ $output == *"damaged: cut short at byte "*"missing: the end of the file; its size is not known"* ]]
    done
    [ "$(jq '[.stacks[].allocated_blocks] | add' "$BATS_TEST_TMPDIR/cut.json")" -eq 6010 ]
}

@test "a trace without events is exported as empty tables; the other formats fail" {
    trace="$BATS_TEST_TMPDIR/u.allogram"
    cp "$SOURCE/tests/golden/trace/trace-v1-unsealed.allogram" "$trace"
    for format in pprof dhat massif folded speedscope callgrind heapprofile firefox heaptrack; do
        run "$ALLOGRAM" export "$trace" --to="$format" -o "$BATS_TEST_TMPDIR/u.$format"
        [ "$status" -eq 1 ]
        [ "$output" = "allogram: export: $trace: --to=$format: the trace has no blocks, or the filters select none" ]
        [ ! -e "$BATS_TEST_TMPDIR/u.$format" ]
        run "$ALLOGRAM" export "$trace" --to="$format" -o "$BATS_TEST_TMPDIR/u.$format" --allow-empty
        [ "$status" -eq 0 ]
    done
    for format in csv json; do
        run "$ALLOGRAM" export "$trace" --to="$format" -o "$BATS_TEST_TMPDIR/u.$format"
        [ "$status" -eq 0 ]
    done
    [ "$(jq -c .stacks "$BATS_TEST_TMPDIR/u.json")" = "[]" ]
}

@test "every format puts the name of the runtime in brackets before a function of a runtime" {
    managed="$SOURCE/tests/golden/trace/trace-v1-managed.allogram"
    for format in dhat massif folded speedscope callgrind heapprofile firefox heaptrack csv pprof; do
        "$ALLOGRAM" export "$managed" --to="$format" -o "$BATS_TEST_TMPDIR/$format"
        [ "$format" != pprof ] || gzip -dc <"$BATS_TEST_TMPDIR/pprof" >"$BATS_TEST_TMPDIR/plain"
        [ "$format" = pprof ] || cp "$BATS_TEST_TMPDIR/$format" "$BATS_TEST_TMPDIR/plain"
        grep -a -q -F '[lua] build' "$BATS_TEST_TMPDIR/plain"
        grep -a -q -F '[beam] lists:map/2' "$BATS_TEST_TMPDIR/plain"
    done
    "$ALLOGRAM" export "$managed" --to=json -o "$BATS_TEST_TMPDIR/json"
    grep -q -F '"function": "build", "file": "script.lua", "line": 12, "image": "[lua]", "runtime": "lua"' "$BATS_TEST_TMPDIR/json"
}

@test "if the trace does not have a runtime, one line names the runtimes that it has" {
    run "$ALLOGRAM" export "$SOURCE/tests/golden/trace/trace-v1-managed.allogram" --to=folded --runtime=lau
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"--runtime=lau: the trace has no such runtime; it has: c, libc, lua, beam" ]]
    run "$ALLOGRAM" report "$SOURCE/tests/golden/trace/trace-v1-managed.allogram" --runtime=lau
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"--runtime=lau: the trace has no such runtime; it has: c, libc, lua, beam" ]]
}

@test "if the trace does not have a thread, one line names the threads that it has" {
    for command in "export --to=folded" "report --view=threads" "report --view=functions" "diff $SOURCE/tests/golden/trace/trace-v1-managed.allogram"; do
        # shellcheck disable=SC2086 # the words are split on purpose
        run "$ALLOGRAM" $command "$SOURCE/tests/golden/trace/trace-v1-managed.allogram" --thread=99
        [ "$status" -eq 1 ]
        one_line
        [[ $output == *"--thread=99: no such thread; the trace has 100 (host)" ]]
    done
    "$ALLOGRAM" report "$SOURCE/tests/golden/trace/trace-v1-managed.allogram" --thread=100 | grep -q allocated
}
