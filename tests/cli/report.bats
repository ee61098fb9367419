#!/usr/bin/env bats
# Options and messages of `report`, `check` and `explain`, with the traces that tests/golden/report/report_traces.py describes. A gate is a
# condition on the numbers of a report (--fail-if).
setup() {
    cp "$TRACES"/*.allogram "$BATS_TEST_TMPDIR"
    cd "$BATS_TEST_TMPDIR" || return 1
}

one_line() {
    [ "$(printf '%s\n' "$output" | wc -l)" -eq 1 ]
}

@test "no trace is a usage error" {
    run "$ALLOGRAM" report --json
    [ "$status" -eq 2 ]
    one_line
}

@test "a trace that does not exist gives one line" {
    run "$ALLOGRAM" report nowhere.allogram
    [ "$status" -eq 1 ]
    one_line
    [[ $output == "allogram: report: nowhere.allogram: "* ]]
}

@test "the message about an unknown view names the valid views, or the view that was meant" {
    run "$ALLOGRAM" report jq.allogram --view=memory
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *"unknown view; the views are "*" sites "* && $output == *" threads" ]]
    run "$ALLOGRAM" report jq.allogram --view=siets
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: report: --view=siets: unknown view; did you mean 'sites'?" ]
}

@test "a view in place of a trace: the message names the option" {
    run "$ALLOGRAM" report jq.allogram leaks
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: report: no trace is named 'leaks'; did you mean --view=leaks?" ]
}

@test "--by is refused for views that it would not change" {
    run "$ALLOGRAM" report jq.allogram --view=tree --by=line
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: report: --by=line does not apply to --view=tree; use it with --view=sites or --view=lifetimes" ]
    run "$ALLOGRAM" report jq.allogram --by=process
    [ "$status" -eq 2 ]
    [[ $output == *"--by=process needs --view=functions or --view=gc"* ]]
}

@test "--focus that matches no stack is reported" {
    trace="$BATS_TEST_TMPDIR/t.allogram"
    cp "$SOURCE/tests/golden/trace/trace-v1-sealed.allogram" "$trace"
    run bash -c "'$ALLOGRAM' report '$trace' --view=sites --focus=no_function_of_this_name 2>&1 >/dev/null"
    [ "$status" -eq 0 ]
    [ "$output" = "allogram: report: $trace: no stack matches --focus=no_function_of_this_name" ]
    for case in gc:collection functions:"call path"; do
        run bash -c "'$ALLOGRAM' report '$trace' --view=${case%:*} --focus=no_function_of_this_name 2>&1 >/dev/null"
        [ "$output" = "allogram: report: $trace: no ${case#*:} matches --focus=no_function_of_this_name" ]
    done
    run bash -c "'$ALLOGRAM' export '$trace' --to=folded --focus=no_function_of_this_name 2>&1 >/dev/null"
    [ "$status" -eq 1 ]
    [ "$output" = "allogram: export: $trace: --to=folded: the trace has no blocks, or the filters select none" ]
    run bash -c "'$ALLOGRAM' report '$trace' --view=sites --focus=. 2>&1 >/dev/null"
    [ "$output" = "" ]
}

@test "every documented view has contents" {
    for view in summary sites tree types blocks leaks peak temporary lifetimes timeline functions gc heaps threads mappings process_tree; do
        "$ALLOGRAM" report jq.allogram --view="$view" >"$BATS_TEST_TMPDIR/text"
        [ "$(wc -l <"$BATS_TEST_TMPDIR/text")" -ge 3 ]
        "$ALLOGRAM" report jq.allogram --view="$view" --json | grep -q "\"view\": \"$view\""
    done
}

@test "no view is wider than a terminal of 80 columns" {
    for trace in jq threads lost; do
        for view in summary sites tree types blocks leaks peak temporary lifetimes timeline functions gc threads heaps mappings process_tree; do
            COLUMNS=80 "$ALLOGRAM" report "$trace.allogram" --view="$view" >"$BATS_TEST_TMPDIR/text"
            run python3 -c '
import sys
wide = [line for line in open(sys.argv[1], encoding="utf-8") if len(line.rstrip("\n")) > 80 and " -> allogram" not in line]
sys.exit(sys.argv[2] + ": " + wide[0] if wide else 0)' "$BATS_TEST_TMPDIR/text" "$trace $view"
            [ "$status" -eq 0 ] || { echo "$output"; false; }
        done
    done
}

@test "an invalid value gives one line that contains the option" {
    for option in --sort=weight --limit=many --by=colour --frames=-1 --from=yesterday --to=0 --thread=main \
        --within=x --tail=101 --min=200 --color=blue --min-count=1.5 "--focus=(" "--ignore=[" --at=noon --state=live; do
        run "$ALLOGRAM" report jq.allogram "$option"
        [ "$status" -eq 2 ]
        one_line
        [[ $output == *"${option%%=*}"* ]]
    done
}

@test "if --from is later than --to, the time window is refused" {
    run "$ALLOGRAM" report jq.allogram --from=2s --to=1s
    [ "$status" -eq 2 ]
    one_line
}

@test "several traces with --merge give one section" {
    run "$ALLOGRAM" report jq.allogram empty.allogram --merge
    [ "$status" -eq 0 ]
    [[ $output == *"and 1 more process, merged"* ]]
    run bash -c "'$ALLOGRAM' report jq.allogram nowhere.allogram empty.allogram --merge --json 2>/dev/null"
    [ "$status" -eq 1 ]
    [ "$(printf '%s' "$output" | python3 -c 'import json,sys; print(json.load(sys.stdin)["trace"]["processes"])')" -eq 2 ]
}

@test "the process tree is the same for any order of the traces" {
    traces=(family-*.allogram)
    [ "${#traces[@]}" -eq 10 ]
    "$ALLOGRAM" report "${traces[@]}" --view=process_tree --json >"$BATS_TEST_TMPDIR/forward"
    mapfile -t reversed < <(printf '%s\n' "${traces[@]}" | tac)
    "$ALLOGRAM" report "${reversed[@]}" --view=process_tree --json | cmp - "$BATS_TEST_TMPDIR/forward"
}

@test "the process tree does not count a trace that is given twice" {
    "$ALLOGRAM" report family-make.allogram family-cc.allogram --view=process_tree >"$BATS_TEST_TMPDIR/once"
    run diff <("$ALLOGRAM" report family-make.allogram family-cc.allogram family-make.allogram --view=process_tree) "$BATS_TEST_TMPDIR/once"
    [[ $output == *"not counted: 1 trace of a process that another trace shows for a longer time" ]]
    [ "$(wc -l <<<"$output")" -eq 2 ]
}

@test "the message about an unknown metric, key, state or type names the valid ones" {
    run "$ALLOGRAM" report jq.allogram --sort=weight
    [[ $output == *" peak_bytes "* && $output == *" freed_blocks" ]]
    run "$ALLOGRAM" report jq.allogram --sort=in_use_byte
    [[ $output == *"unknown metric; did you mean 'in_use_bytes'?" ]]
    run "$ALLOGRAM" report jq.allogram --by=colour
    [[ $output == *" function "* && $output == *" type label process initial_call" ]]
    run "$ALLOGRAM" report jq.allogram --view=blocks --state=live
    [[ $output == *" open, closed, ghost, inherited" ]]
    run "$ALLOGRAM" report jq.allogram --view=types --type=Strang
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *jv_string* ]]
}

@test "options may be before, between and after the traces" {
    run diff <("$ALLOGRAM" report --json jq.allogram --view sites) <("$ALLOGRAM" report jq.allogram --view=sites --json)
    [ "$status" -eq 0 ]
}

@test "if one of several traces cannot be read, the others are shown, and the status is 1" {
    run bash -c "'$ALLOGRAM' report jq.allogram nowhere.allogram empty.allogram --json 2>/dev/null"
    [ "$status" -eq 1 ]
    [ "$(printf '%s' "$output" | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["reports"]))')" -eq 2 ]
}

@test "with --json every view has the keys schema, view and trace, whatever names contain" {
    python3 - "$ALLOGRAM" <<'PYTHON'
import json, subprocess, sys
keys = ["file", "format_version", "pid", "command", "exe", "mode", "interval_bytes", "time_resolution_ns",
        "duration_ns", "end"]
for trace in "jq threads hostile lost empty".split():
    for view in "summary sites tree types blocks leaks peak temporary lifetimes timeline threads heaps mappings".split():
        printed = subprocess.run([sys.argv[1], "report", trace + ".allogram", "--view", view, "--json"], capture_output=True)
        assert printed.returncode == 0 and not printed.stderr, (trace, view)
        report = json.loads(printed.stdout)
        assert report["schema"] == "allogram-report/1" and report["view"] == view
        assert [key for key in report["trace"] if not key.startswith("filter")] == keys
PYTHON
}

@test "no view writes control characters of a name to the terminal" {
    for view in summary sites tree types blocks leaks peak temporary lifetimes timeline threads heaps mappings process_tree; do
        run "$ALLOGRAM" report hostile.allogram --view="$view"
        [ "$status" -eq 0 ]
        [[ $output != *$'\e'* && $output != *$'\a'* && $output != *$'\xc2\x9b'* && $output != *$'\xe2\x80\xae'* ]]
    done
}

@test "only a terminal gets color, and only if NO_COLOR is empty" {
    run "$ALLOGRAM" report jq.allogram
    [[ $output != *$'\e'* ]]
    run "$ALLOGRAM" report jq.allogram --color=always
    [[ $output == *$'\e'* ]]
    command -v script >/dev/null || skip "no script(1) to make a terminal with"
    TERM=xterm NO_COLOR='' run script -qec "'$ALLOGRAM' report jq.allogram" /dev/null
    [[ $output == *$'\e'* ]]
    TERM=xterm NO_COLOR=1 run script -qec "'$ALLOGRAM' report jq.allogram" /dev/null
    [[ $output != *$'\e'* ]]
}

@test "text without --limit has 20 rows, JSON has all" {
    COLUMNS=60 run "$ALLOGRAM" report jq.allogram --view=sites --limit=2 --fold=none
    [[ ${lines[-1]} == *"8 more"* ]]
    count=$("$ALLOGRAM" report jq.allogram --view=sites --json | python3 -c 'import json,sys; print(len(json.load(sys.stdin)["sites"]))')
    [ "$count" -eq 10 ]
}

@test "suppressions leave out leaks, and the report says how many leaks each leaves out" {
    printf 'leak:jv_string_*\n' >"$BATS_TEST_TMPDIR/accepted"
    "$ALLOGRAM" report jq.allogram --view=leaks --json --suppressions="$BATS_TEST_TMPDIR/accepted" | python3 -c '
import json, sys
report = json.load(sys.stdin)
assert report["suppressions"] == [{"pattern": "jv_string_*", "blocks": 3, "bytes": 65536}], report["suppressions"]
assert len(report["stacks"]) == 2 and report["total"]["in_use_blocks"] == 10
'
    run "$ALLOGRAM" report jq.allogram empty.allogram --view=leaks --suppressions="$BATS_TEST_TMPDIR/accepted"
    [[ $output == *"suppressed: 64.0 KiB in 3 blocks by leak:jv_string_*"* ]]
    [[ $output == *"suppressed: 0 B in 0 blocks"* ]] # for the second trace
}

@test "an invalid suppression file is a usage error" {
    printf 'race:x\n' >"$BATS_TEST_TMPDIR/races"
    run "$ALLOGRAM" report jq.allogram --view=leaks --suppressions="$BATS_TEST_TMPDIR/races"
    [ "$status" -eq 2 ]
    one_line
    [[ $output == *"races:1: "* ]]
}

@test "files named by options are read only if they are regular or a pipe, and of limited size" {
    options=(--suppressions)
    [[ " $RUNTIMES " != *" crystal "* ]] || options+=(--crystal-types)
    truncate -s 1T "$BATS_TEST_TMPDIR/huge" || truncate -s 1G "$BATS_TEST_TMPDIR/huge"
    for option in "${options[@]}"; do
        for file in /dev/zero "$BATS_TEST_TMPDIR/huge" "$BATS_TEST_TMPDIR" "$BATS_TEST_TMPDIR/none"; do
            case $file in
            */huge) reason="larger than 64 MiB" ;;
            */none) reason="No such file or directory" ;;
            "$BATS_TEST_TMPDIR") reason="Is a directory" ;;
            *) reason="neither a regular file nor a pipe" ;;
            esac
            run bash -c 'ulimit -v 4000000; exec timeout 20 "$@"' - "$ALLOGRAM" report jq.allogram --view=leaks "$option=$file"
            [[ $status -eq 1 || $status -eq 2 ]]
            one_line
            [[ $output == *" $option=$file: $reason" || $output == *": $option=$file: $reason" ]]
        done
    done
    run bash -c '"$0" report jq.allogram --view=leaks --suppressions=<(echo leak:main)' "$ALLOGRAM"
    [ "$status" -eq 0 ]
    [[ $output == *"main"* || $output == *suppress* ]]
}

@test "a line feed in a name does not begin a new line" {
    run "$ALLOGRAM" report hostile.allogram
    [[ $output == *"evil"*"name"* ]]
    for line in "${lines[@]}"; do
        [[ $line == names:* || $line != name* ]]
    done
}

@test "the status is 3 if the condition of a gate holds, otherwise 0; the report is printed in both cases" {
    run bash -c "'$ALLOGRAM' report jq.allogram --json --fail-if='allocated_blocks >= 1' --fail-if='allocated_blocks < 1' \
        2>'$BATS_TEST_TMPDIR/errors'"
    [ "$status" -eq 3 ]
    stderr=$(cat "$BATS_TEST_TMPDIR/errors")
    [ "$(printf '%s\n' "$stderr" | wc -l)" -eq 1 ]
    blocks=$(printf '%s' "$output" | python3 -c 'import json,sys; print(json.load(sys.stdin)["allocated_blocks"])')
    [[ $stderr == *"jq.allogram: --fail-if='allocated_blocks >= 1' is true: allocated_blocks = $blocks" ]]
    # this condition contains no key whose value could be printed
    run bash -c "'$ALLOGRAM' report jq.allogram --fail-if='1 > 0' 2>&1 >'$BATS_TEST_TMPDIR/shown'"
    [ "$status" -eq 3 ]
    [[ $output == *"--fail-if='1 > 0' is true" ]]
    run "$ALLOGRAM" report jq.allogram --json --fail-if='allocated_blocks < 1 or not peak_bytes > 0'
    [ "$status" -eq 0 ]
    [[ $output != *fail-if* ]]
}

@test "each key of the summary has the same value in a gate as in the JSON" {
    python3 - "$ALLOGRAM" <<'PYTHON'
import json, subprocess, sys
def run(*words):
    return subprocess.run([sys.argv[1], "report", "threads.allogram", *words], capture_output=True, text=True)
summary = json.loads(run("--json").stdout)
summary["lost_events"] = summary["lost_events"]["total"]
summary["duration_ns"] = summary["trace"]["duration_ns"]
keys = run("--fail-if=no_such_key > 1").stderr.split("the keys are ")[1].split(", sites")[0].split()
assert len(keys) == 22, keys
mappings = json.loads(run("--json", "--view=mappings").stdout)
summary["mapped_bytes"], summary["mapped_peak_bytes"] = (mappings["total"][key] for key in ("in_use_bytes", "peak_bytes"))
for key in keys:
    assert run(f"--fail-if={key} == {summary[key]}").returncode == 3, key
    assert run(f"--fail-if={key} != {summary[key]}").returncode == 0, key
for site in json.loads(run("--json", "--view=sites").stdout)["sites"]:
    for part in "own", "total":
        for metric, value in site[part].items():
            term = f"sites['{site['function']}'].{part}.{metric}"
            assert run(f"--fail-if={term} == {value}").returncode == 3, (term, value)
PYTHON
}

@test "growth and base in a gate compare with the trace of --base" {
    run "$ALLOGRAM" report jq.allogram --base=jq.allogram --fail-if='growth.peak_bytes != 0 or base.peak_bytes != peak_bytes'
    [ "$status" -eq 0 ]
    run "$ALLOGRAM" report jq.allogram --base=empty.allogram --fail-if='growth.allocated_bytes > 1000000%'
    [ "$status" -eq 3 ]
    [[ $output == *"growth.allocated_bytes = from 0 to "* ]]
    run "$ALLOGRAM" report empty.allogram --base=jq.allogram --fail-if='growth.allocated_bytes == -100%'
    [ "$status" -eq 3 ]
}

@test "an invalid gate gives one line with the place of the error and the valid keys" {
    for options in '--fail-if=peak > 1' '--fail-if=' '--fail-if=peak_bytes' '--fail-if=growth.peak_bytes > 1' '--base=jq.allogram' \
        '--junit=x' '--sarif=x'; do
        run "$ALLOGRAM" report jq.allogram "$options"
        [ "$status" -eq 2 ]
        one_line
        [[ $output == *"${options%%=*}"* ]]
    done
    run "$ALLOGRAM" report jq.allogram --fail-if='threads > 1 and peak > 1'
    [[ $output == *"at character 17, 'peak > 1': not a key; the keys are "*" in_use_bytes_at_end "*" duration_ns, sites"* ]]
    run "$ALLOGRAM" report jq.allogram --base=jq.allogram --fail-if='threads > 1'
    [ "$status" -eq 2 ]
    run "$ALLOGRAM" report jq.allogram --base=nowhere.allogram --fail-if='growth.threads > 1'
    [ "$status" -eq 1 ]
    one_line
    run "$ALLOGRAM" report jq.allogram --fail-if=$'threads > \e[31m1'
    [[ $output != *$'\e'* ]]
}

@test "a gate that cannot be computed fails with a message; an unknown function counts as 0, with a message" {
    run "$ALLOGRAM" report jq.allogram --json --fail-if='1 / (threads - threads) > 1'
    [ "$status" -eq 1 ]
    [[ $output == *"cannot be evaluated: threads = "*"division by 0" ]]
    run "$ALLOGRAM" report jq.allogram --json --fail-if='sites["prase"].allocated_blocks > 1'
    [ "$status" -eq 0 ]
    [[ $output == *"no function prase allocates in this trace; its values count as 0" ]]
}

@test "gates on function counters: of all functions, of one function, and against a base; without counters a gate fails with a message" {
    run "$ALLOGRAM" report forum.allogram --json --fail-if='own_words == 169868133 and calls == 12036972 and acc_ns == 6500000015'
    [ "$status" -eq 3 ]
    run "$ALLOGRAM" report forum.allogram --json --fail-if='functions["erlang:setelement/3"].acc_words > 120672223' --sarif="$BATS_TEST_TMPDIR/a.sarif"
    [ "$status" -eq 3 ]
    grep -q '"fullyQualifiedName": "erlang:setelement/3"' "$BATS_TEST_TMPDIR/a.sarif"
    run "$ALLOGRAM" report forum.allogram --json --fail-if='own_words > 1' --sarif="$BATS_TEST_TMPDIR/a.sarif"
    grep -q '"fullyQualifiedName": "erlang:setelement/3"' "$BATS_TEST_TMPDIR/a.sarif"
    run "$ALLOGRAM" report forum.allogram --json --fail-if='functions["[beam] tls_sender:connection/3"].own_ns != 900000005'
    [ "$status" -eq 0 ]
    run "$ALLOGRAM" report forum.allogram --json --base=forum.allogram --fail-if='growth.calls != 0 or base.own_words != own_words'
    [ "$status" -eq 0 ]
    run "$ALLOGRAM" report forum.allogram --json --fail-if='functions["no:one/0"].calls > 0'
    [ "$status" -eq 0 ]
    [[ $output == *"the trace has no counters of a function no:one/0; its values count as 0" ]]
    run "$ALLOGRAM" report jq.allogram --json --fail-if='own_words < 1'
    [ "$status" -eq 1 ]
    [[ $output == *"cannot be evaluated: own_words: the trace has no function counters" ]]
    run "$ALLOGRAM" report forum.allogram --json --base=jq.allogram --fail-if='growth.calls > 0'
    [ "$status" -eq 1 ]
    [[ $output == *"growth.calls: the trace of --base has no function counters" ]]
}

@test "JUnit and SARIF files have the result of each gate and the unreadable traces, also with special characters in names" {
    cd "$BATS_TEST_TMPDIR"
    run "$ALLOGRAM" report jq.allogram nowhere.allogram hostile.allogram --fail-if='peak_bytes > 0 and "a"' --junit=a.xml
    [ "$status" -eq 2 ]
    [ ! -e a.xml ]
    run "$ALLOGRAM" report jq.allogram nowhere.allogram hostile.allogram --fail-if='allocated_bytes > 0' \
        --fail-if='sites["<&>"].peak_bytes > 1' --junit=a.xml --sarif=a.sarif
    [ "$status" -eq 1 ]
    python3 - <<'PYTHON'
import json, xml.etree.ElementTree as tree
suite = tree.parse("a.xml").getroot().find("testsuite")
assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("6", "2", "2")
cases = suite.findall("testcase")
assert [case.get("classname") for case in cases] == ["jq.allogram"] * 2 + ["nowhere.allogram"] * 2 + ["hostile.allogram"] * 2
assert [[part.tag for part in case] for case in cases] == [["failure"], [], ["error"], ["error"], ["failure"], []]
assert cases[1].get("name") == 'sites["<&>"].peak_bytes > 1'
text = open("a.sarif", encoding="utf-8").read()
assert not any(ord(c) < 32 and c != "\n" for c in text)
log = json.loads(text)
assert log["version"] == "2.1.0" and len(log["runs"]) == 1
run = log["runs"][0]
assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == ["fail-if-1", "fail-if-2"]
assert run["invocations"][0]["executionSuccessful"] is False
assert len(run["invocations"][0]["toolExecutionNotifications"]) == 2
assert [result["ruleId"] for result in run["results"]] == ["fail-if-1"] * 2
place = run["results"][0]["locations"][0]["physicalLocation"]
assert place["artifactLocation"]["uri"].startswith("file:///build/jq-1.6/src/"), place
assert place["region"]["startLine"] > 0
hostile = run["results"][1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
assert all(33 <= ord(c) < 127 and c not in '<>"' for c in hostile), hostile
PYTHON
    run "$ALLOGRAM" report jq.allogram --fail-if='threads > 0' --junit=/nowhere/a.xml
    [ "$status" -eq 1 ]
    [[ $output == *"--junit=/nowhere/a.xml: No such file or directory"* ]]
}

# Writes damaged.allogram, in which the first chunk of events is overwritten, and cut.allogram, which ends in the middle of a chunk of events.
damage() {
    python3 - "$1" <<'PYTHON'
import struct, sys
data = open(sys.argv[1], "rb").read()
at, events = struct.unpack_from("<H", data, 10)[0], []
while data[at:at + 4] == b"AGCK":
    stored_bytes, = struct.unpack_from("<I", data, at + 44)
    if data[at + 4] == 1:
        events.append((at, stored_bytes))
    at += 64 + stored_bytes
at, stored_bytes = events[0]
open("damaged.allogram", "wb").write(data[:at + 64] + bytes(stored_bytes) + data[at + 64 + stored_bytes:])
at, stored_bytes = events[-1]
open("cut.allogram", "wb").write(data[:at + 64 + stored_bytes // 2])
PYTHON
}

@test "every view, export, diff and check say what is missing from a damaged, cut or lossy trace" {
    damage jq.allogram
    views=$("$ALLOGRAM" report jq.allogram --view=? 2>&1 | sed 's/.*the views are //') || true
    formats=$("$ALLOGRAM" export jq.allogram 2>&1 | sed 's/.*the formats are //') || true
    [ "$(wc -w <<<"$views")" -ge 15 ]
    [ "$(wc -w <<<"$formats")" -ge 12 ]
    damaged="missing: up to .* events, of 1 damaged chunk" cut="missing: the end of the file; its size is not known" lost="lost: 1,001,234 events"
    for view in $views; do
        [ "$view" != rss ] || continue # these traces do not have the resident memory
        COLUMNS=200 "$ALLOGRAM" report damaged.allogram cut.allogram lost.allogram --view="$view" >text
        for words in "$damaged" "$cut" "$lost"; do
            grep -q "$words" text || { echo "$view: $words"; false; }
        done
        "$ALLOGRAM" report damaged.allogram cut.allogram lost.allogram --view="$view" --json |
            jq -e '.reports // .processes | map({(.file // .trace.file): .missing}) | add | ."damaged.allogram".damaged_chunks == 1 and
                ."cut.allogram".end_of_file and ."lost.allogram".lost_events == 1001234' >/dev/null || { echo "$view --json"; false; }
    done
    for format in $formats; do
        [ "$format" != perf-map ] || continue # these traces have no code that was compiled at run time
        "$ALLOGRAM" export damaged.allogram --to="$format" --allow-empty 2>&1 >/dev/null | grep -q "$damaged" || { echo "$format"; false; }
    done
    for trace in damaged cut lost; do
        words=${!trace}
        COLUMNS=200 "$ALLOGRAM" diff jq.allogram "$trace.allogram" | grep -q "$words"
        "$ALLOGRAM" diff "$trace.allogram" jq.allogram --json | jq -e '.before_missing | .damaged_chunks == 1 or .end_of_file or .lost_events > 0' >/dev/null
        "$ALLOGRAM" export "$trace.allogram" --to=csv --allow-empty 2>&1 >/dev/null | grep -q "$words"
        "$ALLOGRAM" view "$trace.allogram" -o "$trace.html" --no-open 2>&1 | grep -q "$words"
        run "$ALLOGRAM" check "$trace.allogram"
        [[ $output == *"missing: "* || $output == *"lost all 1001234"* || $output == *" 1001234 lost"* ]]
    done
}

@test "check of several traces and of folders: a line or an object for each, and the status of the worst" {
    damage jq.allogram
    mkdir whole mixed empty
    cp jq.allogram whole/b.allogram
    cp jq.allogram whole/a.allogram
    echo text >whole/notes
    mkdir whole/inner
    cp damaged.allogram whole/inner
    run "$ALLOGRAM" check jq.allogram whole
    [ "$status" -eq 0 ]
    [ "${#lines[@]}" -eq 3 ]
    [[ ${lines[0]} == "jq.allogram: "* && ${lines[1]} == "whole/a.allogram: "* && ${lines[2]} == "whole/b.allogram: "* ]]
    cp jq.allogram damaged.allogram mixed
    echo text >mixed/none.allogram
    run "$ALLOGRAM" check mixed/ nowhere.allogram jq.allogram
    [ "$status" -eq 1 ]
    [ "${#lines[@]}" -eq 5 ]
    [[ ${lines[0]} == "mixed/damaged.allogram: "*"missing: "* && ${lines[1]} == "mixed/jq.allogram: whole"* ]]
    [[ ${lines[3]} == "allogram: check: nowhere.allogram: No such file"* && ${lines[4]} == "jq.allogram: whole"* ]]
    "$ALLOGRAM" check mixed nowhere.allogram jq.allogram --json 2>errors | jq -e '.whole == false and
        (.traces | map([.file, .whole])) == [["mixed/damaged.allogram", false], ["mixed/jq.allogram", true], ["mixed/none.allogram", false], ["jq.allogram", true]]
        and .traces[0].damage.missing_chunks == 1 and .traces[1].damage == null'
    grep -q "nowhere.allogram" errors
    "$ALLOGRAM" check whole --json | jq -e '.whole and (.traces | length == 2)'
    "$ALLOGRAM" check jq.allogram --json | jq -e '.whole and .file == "jq.allogram" and .lost_events.total == 0'
    run "$ALLOGRAM" check empty
    [ "$status" -eq 1 ]
    [ "$output" = "allogram: check: empty: no file in this folder is named *.allogram" ]
}

@test "folded views have the sums of all frames, begin at the lines of the summary, and are refused for conditions" {
    run "$ALLOGRAM" report jq.allogram --fold=all
    [ "$status" -eq 2 ]
    [ "$output" = "allogram: report: --fold=all: unknown value; use auto or none" ]
    run "$ALLOGRAM" report jq.allogram --fold=auto --fail-if='peak_bytes > 1'
    [ "$status" -eq 2 ]
    [[ $output == *"--fold=auto cannot be combined with --fail-if"* ]]
    for by in function line image; do
        for fold in auto none; do
            "$ALLOGRAM" report jq.allogram --view=sites --by=$by --fold=$fold --json >"$fold.json"
        done
        jq -es '(.[0].folded and (.[1] | has("folded") | not)) and
            ([.[] | [.sites[].own.allocated_bytes] | add] | .[0] == .[1]) and ([.[] | [.sites[].own.peak_blocks] | add] | .[0] == .[1])' auto.json none.json
    done
    "$ALLOGRAM" report jq.allogram --view=sites --by=line --fold=auto --json >auto.json
    COLUMNS=200 "$ALLOGRAM" report jq.allogram --limit=0 --sort=allocated_blocks >summary.txt
    # each line with own blocks is also in the summary's table of lines, although --fold does not apply to the summary
    jq -r '.sites[] | select(.own.allocated_blocks > 0) | select(.line) | "\(.file | sub(".*/"; "")):\(.line)"' auto.json | sort -u >lines
    while read -r line; do
        grep -qF "$line" summary.txt || { echo "$line"; false; }
    done <lines
    [ "$(wc -l <lines)" -ge 2 ]
    for view in tree peak leaks; do
        for fold in auto none; do
            "$ALLOGRAM" report jq.allogram --view=$view --fold=$fold --json >"$fold.json"
        done
        jq -es '[.[] | (.root // .total).allocated_bytes] | .[0] == .[1] and .[0] > 0' auto.json none.json
        jq -es '[.[] | [.stacks[]?.in_use_bytes] | add] | .[0] == .[1]' auto.json none.json
    done
}

# ---- explain ----

# Checks the bounds of `explain` for a trace. The text and the JSON must also have the same number of findings as the report.
bounded() {
    "$ALLOGRAM" explain "$1" >text || return 1
    [ "$(wc -l <text)" -le 40 ] && [ "$(wc -l <text)" -ge 3 ] || { cat text; return 1; }
    "$ALLOGRAM" explain --json "$1" >json || return 1
    [ "$(wc -c <json)" -le 5000 ] || { cat json; return 1; }
    python3 -c '
import json, sys
short, whole = json.load(open("json")), json.load(sys.stdin)
assert short["schema"] == "allogram-explain/1"
assert short["n_findings"] == len(whole["findings"]), "findings"
for short_finding, finding in zip(short["findings"], whole["findings"]):
    assert all(short_finding.get(key) == finding.get(key) for key in ("kind", "line", "blocks", "text")), finding
for key, value in short["summary"].items():
    assert key == "lost_events" or value == whole[key], key
assert short["summary"]["lost_events"] == whole["lost_events"]["total"]
' < <("$ALLOGRAM" report --json "$1")
}

@test "explain has at most 40 lines or 5000 bytes, and the numbers of the report, for every trace" {
    for trace in *.allogram "$SOURCE"/tests/golden/trace/*.allogram; do
        bounded "$trace" || { echo "$trace"; return 1; }
    done
}

@test "explain keeps its bounds for cut and damaged traces, and says what is missing" {
    for trace in jq.allogram "$SOURCE/tests/golden/trace/trace-v1-sealed.allogram"; do
        size=$(stat -c %s "$trace")
        for part in 3 5 8 9; do
            head -c $((size * part / 10)) "$trace" >cut.allogram
            "$ALLOGRAM" report cut.allogram >whole 2>/dev/null || continue # the heading itself is cut
            bounded cut.allogram
            grep -q '^\(damaged\|missing\|cut\|running\)' text
            python3 -c 'import json; assert json.load(open("json"))["n_missing"] > 0'
        done
    done
}

@test "explain refuses no trace, two traces and options of report that it does not have" {
    for words in "" "jq.allogram jq.allogram" "jq.allogram --view=leaks"; do
        # shellcheck disable=SC2086 # the words are separate
        run "$ALLOGRAM" explain $words
        [ "$status" -eq 2 ]
        one_line
    done
}

@test "--frames=0 shows all frames of a stack, and a long path of a program has no effect on the process tree" {
    run "$ALLOGRAM" report --view=leaks --fold=none deep.allogram
    [[ $output == *" more callers"* ]]
    run "$ALLOGRAM" report --view=leaks --fold=none --frames=0 deep.allogram
    [ "$status" -eq 0 ]
    [[ $output != *" more callers"* ]]
    "$ALLOGRAM" run -q -o long.allogram -- bash -c 'exec -a "/$(printf %03000d 0)/program" sleep 0.01'
    run "$ALLOGRAM" report --view=process_tree long*.allogram
    [ "$status" -eq 0 ]
    [[ $output == *"─ /000"* ]]
}

@test "a report on a stripped program says how to get the names, and --debug-dir finds them" {
    printf '#include <stdlib.h>\nchar *keep;\n__attribute__((noinline)) static void make(void) { keep = malloc(4321); }\nint main(void) { make(); return 0; }\n' >source.c
    gcc -g -O1 source.c -o program
    mkdir copy linked named
    cp program copy/program
    objcopy --only-keep-debug program linked/symbols-of-it
    cp linked/symbols-of-it named/program.debug
    objcopy --strip-all --add-gnu-debuglink=linked/symbols-of-it program
    "$ALLOGRAM" run -q -o stripped.allogram -- ./program
    COLUMNS=400 "$ALLOGRAM" report stripped.allogram >text
    [ "$(grep '^names: ' text)" = "names: program: no symbol table and no debug information; to see names, install its debug symbols, give their folder by --debug-dir, or fetch them by --debuginfod" ]
    for folder in copy linked named; do
        "$ALLOGRAM" report stripped.allogram --debug-dir=$folder >text
        grep -q ' make  *source.c:3' text
        [ "$(grep -c '^names: ' text)" -eq 0 ]
    done
    mkdir other # the folder has only the stripped program
    cp program other
    "$ALLOGRAM" report stripped.allogram --debug-dir=other >text
    grep -q '^names: program: no symbol table' text
}
