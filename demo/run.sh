#!/bin/sh
# run.sh BUILD: profiles jq over 60,000 readings of weather stations, prints the report and writes the page. Each printed command
# can be pasted into the shell in which `make demo` was called.
#
# jq is compiled from Debian's source package, for its debug symbols. If the package cannot be fetched, the installed jq is used;
# then the report has only the functions that jq's libraries export, and no lines.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
folder=$1/demo
mkdir -p "$folder"

program=$folder/jq
"$here/jq_from_source.sh" "$(cd "$folder" && pwd)" || {
    echo "demo: Debian's source package of jq cannot be fetched; taking the installed jq, which has no debug symbols" >&2
    program=$(command -v jq)
}
[ -s "$folder/readings.json" ] || python3 "$here/make_input.py" >"$folder/readings.json"
rm -f -- "$folder"/*.allogram "$folder"/*.html

say() {
    printf '\n$'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./%=-]*) printf " '%s'" "$word" ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
}
say_and_run() {
    say "$@"
    "$@"
}
filter='group_by(.station) | map({station: .[0].station, warmest: (map(.celsius) | max)}) | .[]'
say_and_run "$1/allogram" run -o "$folder/jq.%p.allogram" -- "$program" -c "$filter" "$folder/readings.json"
trace=$(ls -- "$folder"/*.allogram)
say_and_run "$1/allogram" report "$trace"
say_and_run "$1/allogram" report "$trace" --view=tree --limit=4 --min=5
say_and_run "$1/allogram" report "$trace" --view=peak --limit=1
page=${trace%.allogram}.html
say "$1/allogram" view -o "$page" "$trace"
if "$1/allogram" view --no-open -o "$page" "$trace" >/dev/null; then # otherwise the command has printed what is missing
    printf '\nThe page is %s\n' "$page"
fi
printf '\nThe trace is %s\n' "$trace"
