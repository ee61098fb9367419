#!/bin/sh
# run.sh BUILD: profiles jq over 60,000 readings of weather stations, shows the report and writes its page.
#
# jq is compiled from Debian's source package, for its debug symbols; where that cannot be had, Debian's own jq has to do:
# then functions are those that its libraries export, and lines are missing.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "$1" && pwd)
folder=$build/demo
mkdir -p "$folder"
cd "$folder"

program=./jq
"$here/jq_from_source.sh" "$folder" || {
    echo "demo: no source package of jq to be had; taking the installed jq, which has no debug symbols" >&2
    program=$(command -v jq)
}
[ -s readings.json ] || python3 "$here/make_input.py" >readings.json
rm -f -- *.allogram *.html

PATH=$build/src/cli:$PATH
say() {
    printf '\n$ %s\n' "$*"
}
filter='group_by(.station) | map({station: .[0].station, warmest: (map(.celsius) | max)}) | .[]'
say allogram run -- "$(basename $program)" -c "'$filter'" readings.json
allogram run -- "$program" -c "$filter" readings.json
trace=$(ls -- *.allogram)
say allogram report "$trace"
allogram report "$trace"
say allogram report "$trace" --view=tree --limit=4 --min=5
allogram report "$trace" --view=tree --limit=4 --min=5
say allogram report "$trace" --view=peak --limit=1
allogram report "$trace" --view=peak --limit=1
say allogram view "$trace"
page=${trace%.allogram}.html
if allogram view --no-open -o "$page" "$trace" >/dev/null; then # else it has said what is missing
    printf '\nThe page is %s\n' "$folder/$page"
fi
printf '\nThe trace is %s\n' "$folder/$trace"
