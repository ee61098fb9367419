#!/usr/bin/env bats
# A new user finds the leaking line of a program with three commands. The closing lines of `run` name the
# second command. The first lines of its report show that memory is in use at the end, so the user asks for
# the leaks with the third command.

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

@test "the report of a program without a leak shows no leak" {
    sed 's/if (record->seen == 0)/if (record != NULL)/' "$SOURCE/tests/programs/libc/forgetful.c" >mended.c
    "${CC:-cc}" -g -O1 -fno-builtin -I "$SOURCE/tests/programs/libc" -o mended mended.c
    "$ALLOGRAM" run -q -o mended.allogram -- ./mended
    run "$ALLOGRAM" report mended.allogram --view=leaks
    [ "$status" -eq 0 ]
    [[ $output != *"mended.c:"* ]]
    [ "$("$ALLOGRAM" report mended.allogram --view=leaks --json | jq .total.in_use_blocks)" -eq 0 ]
}
