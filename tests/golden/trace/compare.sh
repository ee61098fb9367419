#!/bin/sh
# compare.sh ALLOGRAM FOLDER: for the traces of every version, dump and check must print exactly the expected output.
#
# TRACE.expected holds the output of `allogram dump`, then a line "== check: STATUS" and the output of `allogram check`. With
# AG_GOLDEN_UPDATE=1 the script writes these files instead.
set -u
allogram=$(realpath "$1")
cd "$2" || exit 1
work=$(mktemp -d) # for copies of the traces: check may change a trace whose recording was killed
trap 'rm -rf "$work"' EXIT
found=$work/found

set -- *.allogram
echo "1..$#"
number=0
failed=0
for trace in "$@"; do
    number=$((number + 1))
    expected=${trace%.allogram}.expected
    cp "$trace" "$work/"
    (cd "$work" && "$allogram" dump "$trace") >"$found" 2>&1
    verdict=$(cd "$work" && "$allogram" check "$trace" 2>&1)
    echo "== check: $?" >>"$found"
    echo "$verdict" >>"$found"
    [ -z "${AG_GOLDEN_UPDATE:-}" ] || cp "$found" "$expected"
    if diff -u "$expected" "$found"; then
        echo "ok $number - $trace"
    else
        echo "not ok $number - $trace"
        failed=1
    fi
done
exit $failed
