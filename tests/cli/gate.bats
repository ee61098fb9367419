#!/usr/bin/env bats
# Gates (report --fail-if) on real recordings: the SARIF file must name a line of the program's own code, and a gate must fail
# if the trace lacks events that it needs.

@test "two recordings of a program have the same counts, and the SARIF file of a gate names a line that allocates" {
    cd "$BATS_TEST_TMPDIR"
    for i in 1 2; do
        run "$ALLOGRAM" run -q -o "$i.allogram" -- "$PROGRAM"
        [ -e "$i.allogram" ]
    done
    run "$ALLOGRAM" report 2.allogram --base=1.allogram --json \
        --fail-if='growth.allocated_blocks != 0 or growth.temporary_blocks != 0 or base.in_use_bytes_at_end != in_use_bytes_at_end'
    [ "$status" -eq 0 ]
    run "$ALLOGRAM" report 2.allogram --json --fail-if='allocated_bytes > 0' --sarif=gate.sarif
    [ "$status" -eq 3 ]
    cd "$SOURCE"
    run "$ALLOGRAM" report "$BATS_TEST_TMPDIR/2.allogram" --json --fail-if='allocated_bytes > 0' --sarif="$BATS_TEST_TMPDIR/below.sarif"
    cd "$BATS_TEST_TMPDIR"
    python3 - "$SOURCE" <<'PYTHON'
import json, sys
def place(name):
    return json.load(open(name))["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
source = sys.argv[1] + "/tests/programs/libc/temporary.c"
lines = open(source).read().splitlines()
assert "alloc" in lines[place("gate.sarif")["region"]["startLine"] - 1]
assert place("below.sarif")["artifactLocation"] == {"uri": "tests/programs/libc/temporary.c", "uriBaseId": "%SRCROOT%"}, place("below.sarif")
PYTHON
}

@test "a gate fails with status 1 if events are missing from the trace" {
    cd "$BATS_TEST_TMPDIR"
    "$ALLOGRAM" run -q -o whole.allogram -- "$PROGRAM"
    head -c $(($(stat -c %s whole.allogram) * 2 / 3)) whole.allogram >cut.allogram
    run "$ALLOGRAM" report cut.allogram --json --fail-if='in_use_bytes_at_end > 1G'
    [ "$status" -eq 1 ]
    [[ $output == *"cannot be evaluated: in_use_bytes_at_end: the trace is damaged"* ]]
    "$ALLOGRAM" run -q --max-size=4K -o full.allogram -- "$PROGRAM"
    run "$ALLOGRAM" report full.allogram --json --fail-if='in_use_bytes_at_end > 1G'
    [ "$status" -eq 1 ]
    [[ $output == *"the trace lost events"* ]]
    run "$ALLOGRAM" report full.allogram --json --fail-if='lost_events > 0'
    [ "$status" -eq 3 ]
}
