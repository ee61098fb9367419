#!/usr/bin/env bats
# Options and messages of `report`, over a profile that is always the same (tests/golden/report/fake_profile.c).

one_line() {
    [ "$(printf '%s\n' "$output" | wc -l)" -eq 1 ]
}

@test "no trace is a usage error" {
    run "$FAKE_REPORT" --json
    [ "$status" -eq 2 ]
    one_line
}

@test "a trace that is not there is one line" {
    run "$FAKE_REPORT" nowhere.allogram
    [ "$status" -eq 1 ]
    one_line
    [[ $output == "allogram: report: nowhere.allogram: "* ]]
}

@test "an unknown view names the valid ones" {
    run "$FAKE_REPORT" jq.allogram --view=siets
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *" sites "* && $output == *" threads" ]]
}

@test "views of the contract that are not filled yet say so and fail" {
    for view in types blocks lifetimes functions gc; do
        run "$FAKE_REPORT" jq.allogram --view="$view"
        [ "$status" -eq 1 ]
        one_line
        [[ $output == *"$view: this version does not fill this view yet"* ]]
    done
}

@test "values that make no sense are one line with the option in it" {
    for option in --sort=weight --limit=many --by=colour --frames=-1 --from=yesterday --to=0 --thread=main \
        --within=x --tail=101 --min=200 --color=blue --min-count=1.5 "--focus=(" "--ignore=["; do
        run "$FAKE_REPORT" jq.allogram "$option"
        [ "$status" -eq 2 ]
        one_line
        [[ $output == *"${option%%=*}"* ]]
    done
}

@test "an empty window is refused" {
    run "$FAKE_REPORT" jq.allogram --from=2s --to=1s
    [ "$status" -eq 2 ]
    one_line
}

@test "promised options say that they are not there yet" {
    for option in --merge --at=1s; do
        run "$FAKE_REPORT" jq.allogram --view=peak "$option"
        [ "$status" -eq 1 ]
        one_line
        [[ $output == *"cannot do this yet"* ]]
    done
}

@test "options may stand before, between and behind the traces" {
    run diff <("$FAKE_REPORT" --json jq.allogram --view sites) <("$FAKE_REPORT" jq.allogram --view=sites --json)
    [ "$status" -eq 0 ]
}

@test "of several traces the good ones are shown, and the status is 1" {
    run bash -c "'$FAKE_REPORT' jq.allogram nowhere.allogram empty.allogram --json 2>/dev/null"
    [ "$status" -eq 1 ]
    [ "$(printf '%s' "$output" | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["reports"]))')" -eq 2 ]
}

@test "every view is JSON with schema, view and trace, whatever the names hold" {
    python3 - "$FAKE_REPORT" <<'PYTHON'
import json, subprocess, sys
keys = ["file", "format_version", "pid", "command", "exe", "mode", "interval_bytes", "time_resolution_ns",
        "duration_ns", "end"]
for trace in "jq threads hostile damaged empty".split():
    for view in "summary sites tree leaks peak temporary timeline threads heaps".split():
        printed = subprocess.run([sys.argv[1], trace + ".allogram", "--view", view, "--json"], capture_output=True)
        assert printed.returncode == 0 and not printed.stderr, (trace, view)
        report = json.loads(printed.stdout)
        assert report["schema"] == "allogram-report/1" and report["view"] == view
        assert list(report["trace"]) == keys
PYTHON
}

@test "no view lets a name act on the terminal" {
    for view in summary sites tree leaks peak temporary timeline threads heaps; do
        run "$FAKE_REPORT" hostile.allogram --view="$view"
        [ "$status" -eq 0 ]
        [[ $output != *$'\e'* && $output != *$'\a'* && $output != *$'\xc2\x9b'* && $output != *$'\xe2\x80\xae'* ]]
    done
}

@test "colour is for terminals, and NO_COLOR is obeyed" {
    run "$FAKE_REPORT" jq.allogram
    [[ $output != *$'\e'* ]]
    run "$FAKE_REPORT" jq.allogram --color=always
    [[ $output == *$'\e'* ]]
    command -v script >/dev/null || skip "no script(1) to make a terminal with"
    TERM=xterm NO_COLOR='' run script -qec "'$FAKE_REPORT' jq.allogram" /dev/null
    [[ $output == *$'\e'* ]]
    TERM=xterm NO_COLOR=1 run script -qec "'$FAKE_REPORT' jq.allogram" /dev/null
    [[ $output != *$'\e'* ]]
}

@test "text without --limit has 20 rows, JSON has all" {
    COLUMNS=60 run "$FAKE_REPORT" jq.allogram --view=sites --limit=2
    [[ ${lines[-1]} == *"7 more"* ]]
    count=$("$FAKE_REPORT" jq.allogram --view=sites --json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["sites"]))')
    [ "$count" -eq 9 ]
}

@test "suppressions take out leaks, and say what they took" {
    printf 'leak:jv_string_*\n' >"$BATS_TEST_TMPDIR/accepted"
    "$FAKE_REPORT" jq.allogram --view=leaks --json --suppressions="$BATS_TEST_TMPDIR/accepted" | python3 -c '
import json, sys
report = json.load(sys.stdin)
assert report["suppressions"] == [{"pattern": "jv_string_*", "blocks": 3, "bytes": 65536}], report["suppressions"]
assert len(report["stacks"]) == 1 and report["total"]["in_use_blocks"] == 1
'
    run "$FAKE_REPORT" jq.allogram empty.allogram --view=leaks --suppressions="$BATS_TEST_TMPDIR/accepted"
    [[ $output == *"suppressed: 64.0 KiB in 3 blocks by leak:jv_string_*"* ]]
    [[ $output == *"suppressed: 0 B in 0 blocks"* ]] # the second trace counts anew
}

@test "a suppression file that is none is a usage error" {
    printf 'race:x\n' >"$BATS_TEST_TMPDIR/races"
    run "$FAKE_REPORT" jq.allogram --view=leaks --suppressions="$BATS_TEST_TMPDIR/races"
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *"races:1: "* ]]
}

@test "a name with a line feed makes no line of its own" {
    run "$FAKE_REPORT" hostile.allogram
    [[ $output == *"evil"*"name"* ]]
    for line in "${lines[@]}"; do
        [[ $line == names:* || $line != name* ]]
    done
}
