#!/bin/sh
# compare.sh PROGRAM FOLDER PLACE: runs PROGRAM in the folder PLACE for every case of FOLDER/cases, and compares its output with
# FOLDER/expected. Prints TAP. With AG_GOLDEN_UPDATE=1 it writes the expected files instead: read the difference before it is
# committed.
set -u
program=$(realpath "$1")
folder=$2
cd "$3" || exit 1
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
grep -v '^#' "$folder/cases" >"$printed.cases"
trap 'rm -f "$printed" "$printed.cases"' EXIT
echo "1..$(wc -l <"$printed.cases")"
number=0
failed=0
while read -r name options; do
    number=$((number + 1))
    columns=100
    case $name in *narrow*) columns=60 ;; esac
    # shellcheck disable=SC2086  # the options are words
    COLUMNS=$columns "$program" $options >"$printed" 2>&1
    if [ "${AG_GOLDEN_UPDATE:-0}" = 1 ]; then
        cp "$printed" "$folder/expected/$name"
    fi
    if cmp -s "$folder/expected/$name" "$printed"; then
        echo "ok $number $name"
    else
        echo "not ok $number $name"
        diff -u "$folder/expected/$name" "$printed" | sed 's/^/# /'
        failed=1
    fi
done <"$printed.cases"
exit $failed
