#!/bin/sh
# compare.sh ALLOGRAM FOLDER: every trace of every version still gives the dump and the verdict that stand beside it.
#
# TRACE.expected holds what `allogram dump` printed, then a line "== check: STATUS" and what `allogram check` printed.
set -u
allogram=$(realpath "$1")
cd "$2" || exit 1
work=$(mktemp -d) # copies: check may bring in what a session left
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
    if diff -u "$expected" "$found"; then
        echo "ok $number - $trace"
    else
        echo "not ok $number - $trace"
        failed=1
    fi
done
exit $failed
