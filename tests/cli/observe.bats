#!/usr/bin/env bats
# `allogram observe`: if the target (the process to observe) cannot be observed, one line says what to do; otherwise there is a result.

bats_require_minimum_version 1.5.0

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    sleep 60 3>&- &
    target=$!
}

teardown() {
    kill "$target" 2>/dev/null || true
    [ -z "${open_folder:-}" ] || rm -rf "$open_folder"
}

as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups "$@"
}

allogram_for_nobody() { # copies allogram to a folder that the user nobody may enter; bats' own folder is private
    [ "$(id -u)" = 0 ] || skip "only root can become somebody else"
    as_nobody true || skip "setpriv is missing"
    open_folder=$(mktemp -d /tmp/observe-test.XXXXXX)
    chmod 755 "$open_folder"
    cp "$ALLOGRAM" "$open_folder/allogram"
    as_nobody test -x "$open_folder/allogram" || skip "$open_folder is closed to others"
}

one_line() {
    [ "${#lines[@]}" -eq 1 ] || { printf '%s\n' "$output"; return 1; }
}

may_observe() { # skips the test that calls it, if perf events are refused here
    "$ALLOGRAM" observe "$target" --duration=0.05 >/dev/null 2>refused || {
        grep -q "perf events" refused && skip "$(cat refused)"
        return 1
    }
}

@test "a process that does not exist is refused" {
    run "$ALLOGRAM" observe 2147483647
    [ "$status" -eq 1 ]
    one_line
    [[ $output == "allogram: observe: 2147483647: no such process; "* ]]
}

@test "an invalid process number, time or rate is a usage error" {
    for words in "nginx" "0" "-- -5" "$target $target" "" "$target --rate=0" "$target --rate=1000000" \
        "$target --duration=soon" "$target --limit=few" "$target --live --json"; do
        # shellcheck disable=SC2086
        run "$ALLOGRAM" observe $words
        [ "$status" -eq 2 ] || { echo "$words: $status"; return 1; }
        one_line
    done
}

@test "the refusal of a time names all units" {
    for words in "observe $target --duration=soon" "attach $target --duration=soon" "attach $target --duration=0"; do
        # shellcheck disable=SC2086
        run "$ALLOGRAM" $words
        one_line
        [[ $output == *" ns, us, ms, s, m or h" ]] || { echo "$words: $output"; return 1; }
    done
}

@test "a zombie is refused" {
    python3 -c '
import os, sys, time
pid = os.fork()
if pid == 0:
    os._exit(0)
while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z":
    pass
sys.stdout.write(f"{pid}\n")
sys.stdout.flush()
time.sleep(60)' >pid 3>&- &
    local parent=$!
    until [ -s pid ]; do :; done
    run "$ALLOGRAM" observe "$(cat pid)"
    kill "$parent"
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"(a zombie)"* ]]
}

@test "a thread of the kernel is refused" {
    [ "$(cat /proc/2/comm 2>/dev/null)" = kthreadd ] || skip "no thread of the kernel is seen here"
    run "$ALLOGRAM" observe 2
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"kthreadd"*"thread of the kernel"* ]]
}

@test "another user's process is refused" {
    allogram_for_nobody
    run as_nobody "$open_folder/allogram" observe "$target"
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"belongs to user 0; run as that user or as root" ]]
}

@test "without root, a process of the same user is observed, or one line says how to allow it" {
    allogram_for_nobody
    setpriv --reuid=65534 --regid=65534 --clear-groups sh -c 'while :; do :; done' 3>&- &
    local own=$!
    until [ "$(cat /proc/$own/comm)" = sh ]; do :; done
    run --separate-stderr as_nobody "$open_folder/allogram" observe "$own" --duration=0.5 --json
    kill "$own"
    if [ "$status" -eq 0 ]; then
        jq -e '.samples > 0' <<<"$output"
        [ "$(cat /proc/sys/kernel/perf_event_paranoid)" -lt 2 ] ||
            jq -e '.sees_kernel == false and (.notes | length) == 1' <<<"$output"
    else
        [[ $stderr == *"kernel.perf_event_paranoid"* ]]
    fi
}

@test "if tracepoints cannot be read, the message names the command that helps" {
    [ ! -d /sys/kernel/tracing/events ] || skip "tracepoints can be read here"
    [ ! -d /sys/kernel/debug/tracing/events ] || skip "tracepoints can be read here"
    may_observe
    run "$ALLOGRAM" observe "$target" --maps --duration=0.1
    [ "$status" -eq 1 ]
    one_line
    [[ $output == *"mount -t tracefs"* ]]
}

@test "the result for an idle process says that nothing used the CPU" {
    may_observe
    run "$ALLOGRAM" observe "$target" --duration=0.2 --stacks --growth
    [ "$status" -eq 0 ]
    [[ $output == *"no thread used the CPU"* ]]
    [[ $output != *$'\xef\xbf\xbd'* ]] # the replacement for a character that cannot be printed
}

@test "an option for runtimes gives a note if the process has no runtime" {
    may_observe
    run "$ALLOGRAM" observe "$target" --duration=0.1 --gc
    [ "$status" -eq 0 ]
    [[ $output == *"this process has none"* ]]
}

@test "Ctrl-C ends observe with a result" {
    may_observe
    "$ALLOGRAM" observe "$target" --duration=60 --json >out 3>&- &
    local observer=$!
    until readlink /proc/$observer/fd/* 2>/dev/null | grep -q perf_event; do :; done
    kill -INT $observer
    wait $observer
    jq -e '.schema == "allogram-observe/1" and .end == "stopped"' out
}

@test "a trace that cannot be written is refused before the observation begins" {
    for name in /nowhere/x.allogram "$PWD"; do
        run timeout 20 "$ALLOGRAM" observe "$target" --duration=60 -o "$name"
        [ "$status" -eq 1 ]
        one_line
        [[ $output == *"$name: "*"; name a file in it" || $output == *"cannot create the trace "*"$name: "*"; choose another path with -o" ]]
    done
}

@test "if the trace's folder is removed during the observation, observe fails, but prints the result" {
    may_observe
    mkdir folder
    "$ALLOGRAM" observe "$target" --duration=60 --json -o folder/x.allogram >out 2>said 3>&- &
    local observer=$! status=0
    until readlink /proc/$observer/fd/* 2>/dev/null | grep -q perf_event; do :; done
    rmdir folder
    kill -INT $observer
    wait $observer || status=$?
    [ "$status" -eq 1 ]
    jq -e '.samples >= 0' out
    grep -q "cannot create the trace .*folder/x.allogram: .*; choose another path with -o" said
}

@test "no line of the text is wider than COLUMNS" {
    may_observe
    bash -c 'while :; do x=$(printf %1000s y); done' 3>&- &
    local busy=$!
    COLUMNS=60 "$ALLOGRAM" observe "$busy" --duration=1 --rate=999 --gc --stacks --growth --limit=3 >out
    kill $busy
    run env LC_ALL=C.UTF-8 grep -E '^.{61}' out
    [ "$status" -eq 1 ]
    [ "$(grep -c ' samples\?, thread' out)" -le 3 ]
    grep -q "to the target" out
}

@test "the result says that the process is stopped" {
    may_observe
    kill -STOP "$target"
    run "$ALLOGRAM" observe "$target" --duration=0.1
    kill -CONT "$target"
    [ "$status" -eq 0 ]
    [[ $output == *"the process is stopped"*"kill -CONT"* ]]
}

@test "no perf map is written if there is no generated code" {
    may_observe
    run --separate-stderr "$ALLOGRAM" observe "$target" --duration=0.1 --perf-map --json
    [ "$status" -eq 1 ]
    [[ $stderr == *"no generated code"* ]]
    [ ! -e "/tmp/perf-$target.map" ]
}

@test "--rss refuses --duration, because it reads the memory once" {
    run "$ALLOGRAM" observe $$ --rss --duration=1s
    [ "$status" -eq 2 ]
    [ "${#lines[@]}" -eq 1 ]
    [[ $output == *"--rss and --duration cannot be combined"* ]]
    "$ALLOGRAM" observe $$ --rss --limit=3
}

@test "--rss is not ignored for a NODE" {
    run "$ALLOGRAM" observe node@127.0.0.1 --rss
    [ "$status" -eq 2 ]
    [[ $output == *"--rss is not possible together with node@127.0.0.1"* ]]
}
