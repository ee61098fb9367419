#!/usr/bin/env bats
# A new user finds the leaking line of a program with three commands. The closing lines of `run` name the
# second command. The first lines of its report show that memory is in use at the end, so the user asks for
# the leaks with the third command. Blocks that the C library keeps are not among the leaks, and a program
# without a leak has none.

setup() {
    cd "$BATS_TEST_TMPDIR"
    command -v "${CC:-cc}" >/dev/null || skip "no compiler here"
    "${CC:-cc}" -g -O1 -fno-builtin -o forgetful "$SOURCE/tests/programs/libc/forgetful.c"
    line=$(grep -n 'the leaking line' "$SOURCE/tests/programs/libc/forgetful.c" | cut -d: -f1)
}

@test "from a leaking program to the leaking line in three commands" {
    run "$ALLOGRAM" run -- ./forgetful
    [ "$status" -eq 0 ]
    [[ $output == *"1,000 blocks, 31.2 KiB in use at the end"* ]]
    next=$(printf '%s\n' "$output" | sed -n 's/.*-> *allogram //p')
    [[ $next == "report allogram.forgetful."*.allogram ]]
    trace=${next#report }

    run "$ALLOGRAM" report "$trace"
    [ "$status" -eq 0 ]
    [[ $output == *"in use at the end"*"1,000 blocks"*"31.2 KiB"* ]]
    [[ $output == *"--view=leaks"* ]]

    run "$ALLOGRAM" report "$trace" --view=leaks
    echo "$output"
    [ "$status" -eq 0 ]
    first=$(printf '%s\n' "$output" | grep -m1 'forgetful\.c:')
    [[ $first == *"copy_name"*"forgetful.c:$line"* ]]
    [[ $output == *"read_record"*"main"* ]]
}

@test "blocks that the C library keeps until the end are left out of leaks, and counted" {
    printf '#include <stdio.h>\n#include <stdlib.h>\nint main(void) { puts("x"); return malloc(77) == NULL; }\n' >stream.c
    "${CC:-cc}" -g -O0 -fno-builtin -o stream stream.c
    "$ALLOGRAM" run -q -o stream.allogram -- ./stream >output
    "$ALLOGRAM" report stream.allogram --view=leaks --known=none >none.txt
    grep -q _IO_file_doallocate none.txt || skip "no debug symbols of the C library here"
    run "$ALLOGRAM" report stream.allogram --view=leaks
    echo "$output"
    [[ $output == *"77 B in 1 block, from 1 stack"* ]]
    [[ $output == *"left out: "*" in 1 block that the C and C++ runtime keeps"* ]]
    [[ $output != *_IO_file_doallocate* ]]
    run "$ALLOGRAM" report stream.allogram --view=leaks --known=list
    [[ $output == *"stdio_buffer: "*" in 1 block; the buffer of stdout"*"locale: 0 B in 0 blocks"* ]]
    # what is left out and what is listed add up to all blocks, which JSON has without the option
    "$ALLOGRAM" report stream.allogram --view=leaks --json >none.json
    "$ALLOGRAM" report stream.allogram --view=leaks --json --known=auto >auto.json
    python3 -c '
import json
none, auto = (json.load(open(name + ".json")) for name in ("none", "auto"))
assert "known" not in none and [entry["name"] for entry in auto["known"]] == ["stdio_buffer"], auto["known"]
for metric in ("blocks", "bytes"):
    assert none["total"]["in_use_" + metric] == auto["total"]["in_use_" + metric] + auto["known"][0][metric]
'
    run "$ALLOGRAM" report stream.allogram --known=none
    [ "$status" -eq 2 ]
    run "$ALLOGRAM" report stream.allogram --view=leaks --known=all
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: report: --known=all: neither auto, none nor list" ]
}

@test "the report of a program without a leak shows no leak" {
    sed 's/if (record->seen == 0)/if (record != NULL)/' "$SOURCE/tests/programs/libc/forgetful.c" >mended.c
    "${CC:-cc}" -g -O1 -fno-builtin -I "$SOURCE/tests/programs/libc" -o mended mended.c
    "$ALLOGRAM" run -q -o mended.allogram -- ./mended
    run "$ALLOGRAM" report mended.allogram --view=leaks
    [ "$status" -eq 0 ]
    [[ $output != *"mended.c:"* ]]
    [ "$("$ALLOGRAM" report mended.allogram --view=leaks --json | jq .total.in_use_blocks)" -eq 0 ]
}
