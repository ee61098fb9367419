#!/usr/bin/env bats
# `allogram run`: the program behaves as without allogram; a program that cannot be recorded is refused in one line.

setup() {
    cd "$BATS_TEST_TMPDIR" || return 1
    unset "${!ALLOGRAM_@}" LD_PRELOAD
}

one_line() {
    [ "$(printf '%s\n' "$output" | wc -l)" -eq 1 ]
}

traces() {
    find . -name '*.allogram' | wc -l
}

# A script that prints the state of its process: descriptors, signals, limits, and the environment without allogram's own variables.
surroundings='ls -l /proc/self/fd | sed "s/.* \([0-9]* ->\)/\1/; s/:.*//; /proc/d" | sort
    grep -E "^Sig(Blk|Ign|Cgt)" /proc/self/status; ulimit -a; umask
    env | grep -vE "^(LD_PRELOAD|ALLOGRAM_SESSION|_|SHLVL)=" | sort'

@test "output, exit status and stdin are the program's" {
    run "$ALLOGRAM" run -q -- sh -c 'cat; echo error >&2; exit 3' <<<"input"
    [ "$status" -eq 3 ]
    [ "$output" = $'input\nerror' ]
}

@test "a mistyped mode or adapter is answered with the one that was meant" {
    run "$ALLOGRAM" run --mode=smaple -- true
    [ "$status" -eq 125 ]
    [ "$output" = "allogram: --mode=smaple: neither exact nor sample; did you mean 'sample'?" ]
    run "$ALLOGRAM" run --adapters=none,ocmal -- true
    [[ $output == "allogram: --adapters=none,ocmal: unknown adapter '"* ]]
    run "$ALLOGRAM" control 1 puase
    [ "$output" = "allogram: control: puase: not one of pause, resume, reset, dump, stop; did you mean 'pause'?" ]
}

@test "the closing line and the report print the same quantities" {
    said=$("$ALLOGRAM" run -o t.allogram -- "$PROGRAM" 2>&1)
    [[ $said =~ ([0-9,]+)\ allocations,\ ([0-9.]+\ [KM]?i?B)\ in\ ([0-9.]+\ [mu]?s)\;\ peak\ ([0-9.]+\ [KM]?i?B)\; ]]
    counted=("${BASH_REMATCH[@]:1}")
    run "$ALLOGRAM" report t.allogram
    for quantity in "${counted[@]}"; do
        [[ $output == *" $quantity"* ]]
    done
}

@test "if a signal ends the program, the status is 128 plus the signal's number" {
    run "$ALLOGRAM" run -q -- sh -c 'kill -TERM $$'
    [ "$status" -eq 143 ]
    run "$ALLOGRAM" run -q -- sh -c 'kill -KILL $$'
    [ "$status" -eq 137 ]
}

@test "descriptors, signals, limits and environment are the same as without allogram" {
    bash -c "$surroundings" >alone 4</dev/null
    "$ALLOGRAM" run -q -- bash -c "$surroundings" >recorded 4</dev/null
    diff alone recorded
}

@test "ignored signals remain ignored, and closed descriptors closed" {
    (trap '' HUP PIPE XFSZ; exec <&-; bash -c "$surroundings" >alone)
    (trap '' HUP PIPE XFSZ; exec <&-; "$ALLOGRAM" run -q -- bash -c "$surroundings" >recorded)
    diff alone recorded
    run bash -c '"$1" run -q -o t -- sh -c "exit 4" <&- >&- 2>&-' - "$ALLOGRAM"
    [ "$status" -eq 4 ]
    "$ALLOGRAM" check t
}

@test "the closing summary names the programs that allocated most, the largest first, in few lines" {
    cat >script <<'END'
python3() { "$PYTHON" -S -E -c "x = bytearray($1 << 20)"; }
for i in $(seq 40); do $(true); done
python3 9
python3 30
python3 3
END
    PYTHON=$(python3 -c 'import sys; print(sys.executable)') run "$ALLOGRAM" run -- sh script
    [ "$status" -eq 0 ]
    most=$(grep 'most allocated: ' <<<"$output")
    [[ $most =~ ^"allogram: most allocated: "python3[.0-9]*\ [0-9]+\ (3[0-9]\.[0-9])\ MiB,\ python3[.0-9]*\ [0-9]+\ ([0-9.]+)\ MiB,\ python3[.0-9]*\ [0-9]+\ ([0-9.]+)\ MiB,\ .*\ and\ ([0-9]+)\ more$ ]]
    [ "$(tr , '\n' <<<"$most" | wc -l)" -eq 8 ]
    [ "$(wc -l <<<"$output")" -eq 4 ]
    others=$(grep -o '[0-9]* other traces: .* --view=process_tree$' <<<"$output")
    [ "${others%% *}" -eq $(($(traces) - 1)) ]
    [ $((8 + BASH_REMATCH[4])) -eq "$(traces)" ]
    command=${others##*-> }
    # the pattern in the command names all traces
    (eval "${command/allogram/"$ALLOGRAM"}") | grep -q "^highest peak: 3[0-9].* MiB of pid"
}

@test "the closing summary names the trace and the next command" {
    run "$ALLOGRAM" run -- ls /
    [ "$status" -eq 0 ]
    [[ $output == *"allogram: "*" allocations, "*"nothing lost"* ]]
    [[ $output =~ "allogram report allogram.ls."[0-9]+".allogram" ]]
    "$ALLOGRAM" check allogram.ls.*.allogram
    [ "$(stat -c %a allogram.ls.*.allogram)" = 600 ]
}

@test "limits of address space and data apply to the program and not to allogram" {
    run bash -c 'ulimit -S -v 400000 -d 100000; "$1" run -q -o t -- bash -c "ulimit -S -v -d"' - "$ALLOGRAM"
    [ "$status" -eq 0 ]
    [[ $output == *100000*400000* || $output == *400000*100000* ]]
    "$ALLOGRAM" report t --json | jq -e '.allocated_blocks > 100 and .lost_events.total == 0'
}

@test "the limit of open files applies to the program and not to allogram" {
    run bash -c 'ulimit -Sn 6; "$1" run -q -o t -- bash -c "ulimit -Sn"' - "$ALLOGRAM"
    [ "$status" -eq 0 ]
    [ "$output" = 6 ]
}

@test "if the hard limit of open files is too small, the message names it" {
    for files in 4 6 8; do
        run bash -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&-; ulimit -n "$1"; exec "$2" run -- touch ran' - $files "$ALLOGRAM"
        if [ "$status" -eq 0 ]; then
            skip "this user may raise the limit"
        fi
        [ "$status" -eq 125 ]
        one_line
        [[ $output == *"cannot start "*": Too many open files; the hard limit of open files (ulimit -Hn) has to be higher" ]]
        [ ! -e ran ]
        [ "$(traces)" -eq 0 ]
    done
}

@test "suggested commands can be pasted into a shell, whatever the name of the trace is" {
    mkdir "a b"
    for name in 'a b/my $trace;x' "it's" -t '~' 'a*b' 'ä'; do
        said=$("$ALLOGRAM" run -o"$name" -- true 2>&1)
        command=${said##*->  allogram }
        (eval '"$ALLOGRAM" '"$command") | grep -q allocat
        rm -- "$name"
    done
    "$ALLOGRAM" run -o t -- true 2>&1 | grep -q -- '->  allogram report t$'
    said=$("$ALLOGRAM" run -o 'a b/%e $%p' -- sh -c 'true; /bin/true; true' 2>&1)
    command=$(grep -o 'report .*--view=process_tree' <<<"$said")
    [[ $command == *"a b/'*' \$'*'' "* ]]
    (eval '"$ALLOGRAM" '"$command")
    rm -r "a b"
    run "$ALLOGRAM" control 'a b'
    [[ $output == *"allogram control 'a b' pause"* ]]
}

@test "the limit of the stack applies to the program and not to allogram" {
    for kib in 32 64; do
        run bash -c 'ulimit -Ss "$1"; "$2" run -q -o "t$1" -- bash -c "ulimit -Ss"' - $kib "$ALLOGRAM"
        [ "$status" -eq 0 ]
        [ "$output" = $kib ]
        (ulimit -Ss $kib; "$ALLOGRAM" report t$kib >/dev/null; "$ALLOGRAM" explain t$kib >/dev/null; "$ALLOGRAM" view t$kib -o t$kib.html)
    done
}

@test "a stack that may not be enlarged is refused in one line, and nothing is left behind" {
    # the environment is on the stack, too: with a large one, 16 KiB are sometimes too few for any program
    for kib in 16 128; do
        run env -i PATH="$PATH" bash -c 'ulimit -Ss "$1"; ulimit -Hs "$1"; exec "$2" run -- touch ran' - $kib "$ALLOGRAM"
        if [ "$status" -eq 0 ]; then
            skip "this user may raise the limit"
        fi
        [ "$status" -eq 125 ]
        one_line
        [[ $output == *"(ulimit -Hs) is $kib KiB"* ]]
        [ ! -e ran ]
        [ "$(traces)" -eq 0 ]
    done
}

@test "LISTEN_PID and WATCHDOG_PID get the pid of the program, if they contain that of run" {
    # shellcheck disable=SC2016 # the inner shells expand the variables
    run bash -c 'LISTEN_PID=$$ LISTEN_PIDFDID=1 WATCHDOG_PID=$$ exec "$1" run -q -o t -- bash -c "[ \$LISTEN_PID,\$WATCHDOG_PID,\$LISTEN_PIDFDID = \$\$,\$\$, ]"' - "$ALLOGRAM"
    [ "$status" -eq 0 ]
    LISTEN_PID=1 run "$ALLOGRAM" run -q -o t -- bash -c 'echo "$LISTEN_PID"'
    [ "$output" = 1 ]
}

@test "a program that is started by its dynamic loader is recorded" {
    run "$ALLOGRAM" run -o t -- /lib64/ld-linux-x86-64.so.2 "$PROGRAM"
    [ "$status" -eq 0 ]
    [[ $output == *" allocations, "*"nothing lost"* ]]
    run "$ALLOGRAM" report t --view=sites --by=function
    [[ $output == *" main "* ]]
}

@test "run passes signals on to the program, and also those of a timer that was set before" {
    cat >signals.py <<'EOF'
import os, signal, sys
numbers = [int(n) for n in sys.argv[1:]]
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
print("ready", flush=True)
for _ in numbers:
    info = signal.sigtimedwait(numbers, 10)
    print(info.si_signo if info else "none", flush=True)
EOF
    numbers=(1 2 3 4 5 6 10 12 13 14 15 16 20 23 24 25 26 27 29 30 31 34 40 64)
    "$ALLOGRAM" run -q -o t -- python3 signals.py "${numbers[@]}" >seen &
    runner=$!
    until grep -q ready seen; do sleep 0.05; done
    for number in "${numbers[@]}"; do
        kill "-$number" $runner
    done
    wait $runner
    [ "$(tail -n +2 seen | sort -n | paste -sd ' ')" = "${numbers[*]}" ]
    run perl -e 'alarm 1; exec @ARGV' "$ALLOGRAM" run -q -o t2 -- sleep 10
    [ "$status" -eq 142 ]
}

@test "^Z stops run when the program stops, and not before" {
    cat >terminal.py <<'EOF'
# Acts as a shell: starts the command in the foreground of a new terminal, and writes the command's stops and its end to `events`. ^Z is typed when
# the command prints "ready".
import os, pty, signal, sys
leader, terminal = pty.fork()
if leader:
    seen = b""
    while b"over" not in seen:
        seen += os.read(terminal, 100)
        if b"ready" in seen:
            os.write(terminal, b"\x1a")
            seen = b""
    os.waitpid(leader, 0)
    sys.exit(0)
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
begun = os.pipe()
command = os.fork()
if command == 0:
    os.read(begun[0], 1)
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.argv[1], sys.argv[1:])
os.setpgid(command, command)
os.tcsetpgrp(0, command)
os.write(begun[1], b".")
with open("events", "w") as events:
    while True:
        _, status = os.waitpid(command, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            break
        print("stopped by", os.WSTOPSIG(status), "cleaned", os.path.exists("cleaned"), file=events)
        os.killpg(command, signal.SIGCONT)
    print("status", os.waitstatus_to_exitcode(status), file=events)
os.write(1, b"over")
EOF
    cat >stops.py <<'EOF'
import signal, sys, time
n_continued = 0
def clean(*_):
    time.sleep(0.3)
    open("cleaned", "w").close()
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    signal.raise_signal(signal.SIGTSTP)
def count(*_):
    global n_continued
    n_continued += 1
signal.signal(signal.SIGCONT, count)
signal.signal(signal.SIGTSTP, signal.SIG_IGN if sys.argv[1] == "ignores" else clean)
print("ready", flush=True)
end = time.monotonic() + 1
while time.monotonic() < end:
    time.sleep(0.01)
sys.exit(10 + n_continued)
EOF
    python3 terminal.py "$ALLOGRAM" run -q -o t -- python3 stops.py ignores
    [ "$(cat events)" = "status 10" ]
    python3 terminal.py "$ALLOGRAM" run -q -o t2 -- python3 stops.py cleans
    [ "$(cat events)" = $'stopped by 20 cleaned True\nstatus 11' ]
}

@test "with -q, the reader of the program's standard error gets the end of file when the program closes it" {
    begin=$SECONDS
    ({ "$ALLOGRAM" run -q -o t -- bash -c 'exec 2>&- >&-; sleep 8' 2>&1 >/dev/null & } | cat)
    [ $((SECONDS - begin)) -lt 7 ]
}

@test "an existing trace is never overwritten" {
    echo mine >t.x
    "$ALLOGRAM" run -q -o t.x -- true
    "$ALLOGRAM" run -q -o t.x -- true
    [ "$(cat t.x)" = mine ]
    "$ALLOGRAM" check t-2.x
    "$ALLOGRAM" check t-3.x
}

@test "each option has an environment variable, and the command line takes precedence" {
    ALLOGRAM_OUTPUT=env.x ALLOGRAM_QUIET=1 run "$ALLOGRAM" run -- true
    [ -z "$output" ]
    [ -f env.x ]
    ALLOGRAM_OUTPUT=env2.x run "$ALLOGRAM" run -q -o line.x -- true
    [ -f line.x ]
    [ ! -f env2.x ]
    ALLOGRAM_DEPTH=many run "$ALLOGRAM" run -- true
    [ "$status" -eq 125 ]
    [[ $output == *ALLOGRAM_DEPTH=many* ]]
}

@test "a missing command, an unknown option or an invalid value gives one line and status 125" {
    for words in "" "--frobnicate true" "--depth=0 true" "--mode=guess true" "--interval=4K true" \
        "--follow=some true" "--max-size=big true" "--filter=size=2..1 true" "--filter=type true" "--filter=size=1.., true" "--duration=0 true" "--signal=KILL true" "-o %q true" \
        "--mode=sample --interval=0 true" "--mode=sample --interval=16T true" "--mode=sample --seed=-1 true" \
        "--adapters=brainfuck true" "--adapters=none, true" "--budget=0 true" "--budget=101 true" "--budget=2 --mode=exact true"; do
        # shellcheck disable=SC2086 # the words are split on purpose
        run "$ALLOGRAM" run $words
        echo "$words: $status $output"
        [ "$status" -eq 125 ]
        one_line
    done
    [ "$(traces)" -eq 0 ]
}

@test "the status is 127 if the command is not found, 126 if it cannot be executed" {
    run "$ALLOGRAM" run nosuchcommand
    [ "$status" -eq 127 ]
    one_line
    run "$ALLOGRAM" run ./nosuchfile
    [ "$status" -eq 127 ]
    touch plain
    run "$ALLOGRAM" run ./plain
    [ "$status" -eq 126 ]
    one_line
    run "$ALLOGRAM" run /
    [ "$status" -eq 126 ]
    [ "$(traces)" -eq 0 ]
}

@test "a script whose interpreter is missing fails as it would alone, and leaves no trace" {
    printf '#!/no/such/interpreter\n' >script
    chmod +x script
    run "$ALLOGRAM" run ./script
    [ "$status" -eq 127 ]
    one_line
    sleep 0.5
    [ "$(traces)" -eq 0 ]
}

@test "if no trace can be created in the folder, the program is not started" {
    run "$ALLOGRAM" run -o /nonexistent/t -- touch ran
    [ "$status" -eq 125 ]
    one_line
    run "$ALLOGRAM" run -o /proc/t -- touch ran
    [ "$status" -eq 125 ]
    one_line
    [ ! -e ran ]
}

@test "static programs are refused, and the message names allogram observe" {
    echo 'int main(void) { return 0; }' >static.c
    cc -static -o static static.c || skip "no static libc here"
    run "$ALLOGRAM" run ./static
    [ "$status" -eq 125 ]
    one_line
    [[ $output == *"statically linked"*"allogram observe"* ]]
    cc -static-pie -o static static.c || skip "no static-pie here"
    run "$ALLOGRAM" run ./static
    [ "$status" -eq 125 ]
    [ "$(traces)" -eq 0 ]
}

@test "if AddressSanitizer ends the program, a message says how it can be recorded" {
    echo '#include <stdlib.h>
int main(void) { free(malloc(3)); return 0; }' >asan.c
    gcc -fsanitize=address -o asan asan.c || skip "gcc cannot link with -fsanitize=address"
    unset ASAN_OPTIONS
    run "$ALLOGRAM" run ./asan
    [ "$status" -eq 1 ]
    [[ $output == *"nothing was recorded"*"ASAN_OPTIONS=verify_asan_link_order=0"* ]]
    [ "$(traces)" -eq 0 ]
    run env ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0 "$ALLOGRAM" run -o asan.allogram ./asan
    [ "$status" -eq 0 ]
    [[ $output != *"verify_asan_link_order"* ]]
    "$ALLOGRAM" report asan.allogram --view=sites --json |
        jq -e '[.sites[] | select(.function == "main") | .own | .allocated_blocks, .allocated_bytes, .freed_blocks] == [1, 3, 1]'
    run "$ALLOGRAM" run -o other.allogram -- env -i true
    [[ $output != *"AddressSanitizer"* ]]
}

@test "allocations before the libc has set its environment are recorded" {
    cat >early.c <<'END'
#include <stdlib.h>
void *volatile block;
static void early(void) { block = malloc(1234); }
__attribute__((section(".preinit_array"), used)) static void (*first)(void) = early;
int main(void) { return getenv("PATH") ? 3 : 4; }
END
    cc -o early early.c
    run "$ALLOGRAM" run -q -o t -- ./early
    [ "$status" -eq 3 ]
    "$ALLOGRAM" report t --view=blocks --json | jq -e '.blocks | map(.size) == [1234]'
}

@test "a program with a getenv of its own, which works only later, is recorded" {
    cat >own_getenv.c <<'END'
#include <stdlib.h>
#include <string.h>
static char **variables;
char *getenv(const char *name) {
    for (char **at = variables; *at; at++) {
        if (strncmp(*at, name, strlen(name)) == 0 && (*at)[strlen(name)] == '=') {
            return *at + strlen(name) + 1;
        }
    }
    return NULL;
}
static void take(int argc, char **argv, char **environment) { variables = environment; }
__attribute__((section(".preinit_array"), used)) static void (*taken)(int, char **, char **) = take;
int main(void) { free(malloc(1234)); return getenv("MINE") ? 3 : 0; }
END
    gcc -w -o own_getenv own_getenv.c
    run env MINE=1 "$ALLOGRAM" run -q -o getenv.allogram ./own_getenv
    [ "$status" -eq 3 ]
    [ -z "$output" ]
    "$ALLOGRAM" report getenv.allogram --view=blocks --state=closed --json | jq -e '[.blocks[].size] | index(1234) != null'
}

@test "programs of musl are recorded, too" {
    printf '#include <stdlib.h>\nint main(void) { for (int i = 0; i < 50; i++) free(realloc(malloc(i + 1), 100)); return 7; }\n' >c.c
    musl-gcc -fno-builtin -o c c.c || skip "no musl here"
    run "$ALLOGRAM" run -q -o t -- ./c
    [ "$status" -eq 7 ]
    [ -z "$output" ]
    "$ALLOGRAM" check t
    "$ALLOGRAM" report t --json | jq -e '.allocated_blocks == 100 and .freed_blocks == 100 and .allocated_bytes == 6275'
    "$ALLOGRAM" report t --view=sites --json | jq -e '.sites[0].function == "main"'
}

@test "if the program's file was replaced after the recording, the report says so" {
    cp "$(type -P ls)" changed
    "$ALLOGRAM" run -q -o t -- ./changed /
    cp "$(type -P cat)" changed
    run "$ALLOGRAM" report t --view=sites
    [ "$status" -eq 0 ]
    [[ $output == *"names: changed: build id differs"* ]]
    rm changed
    run "$ALLOGRAM" report t
    [[ $output == *"names: changed: "*"No such file"* ]]
    run "$ALLOGRAM" report t --view=heaps
    [[ $output != *"names: "* ]]
}

@test "setuid and setgid programs are refused" {
    cp "$(type -P true)" own
    for mode in u+s g+s; do
        chmod u-s,g-s own
        chmod "$mode" own
        run "$ALLOGRAM" run ./own
        [ "$status" -eq 125 ]
        one_line
        [[ $output == *setuid* ]]
    done
}

@test "programs for other CPUs and damaged programs are refused" {
    cp "$(type -P true)" other
    printf '\267' | dd of=other bs=1 seek=18 conv=notrunc status=none # e_machine: aarch64
    run "$ALLOGRAM" run ./other
    [ "$status" -eq 125 ]
    one_line
    head -c 40 "$(type -P true)" >short
    chmod +x short
    run "$ALLOGRAM" run ./short
    [ "$status" -eq 125 ]
    one_line
}

@test "scripts are recorded through their interpreter, with and without a #! line" {
    printf '#!/bin/sh\necho "with $1"\n' >with
    printf 'echo "without $1"\n' >without
    chmod +x with without
    run "$ALLOGRAM" run -q -o a.x -- ./with word
    [ "$output" = "with word" ]
    run "$ALLOGRAM" run -q -o b.x -- ./without word
    [ "$output" = "without word" ]
    "$ALLOGRAM" check a.x
    "$ALLOGRAM" check b.x
}

@test "children have traces of their own, or none with --follow=none" {
    "$ALLOGRAM" run -q -- bash -c '(true; ls / >ls.out); ls / >ls.out; true'
    [ "$(traces)" -ge 3 ]
    rm -- *.allogram
    "$ALLOGRAM" run -q --follow=none -- bash -c '(true; :); :'
    [ "$(traces)" -eq 1 ]
    rm -- *.allogram
    "$ALLOGRAM" run -q --follow=none -- bash -c '(exec ls / >ls.out); ls / >ls.out; :'
    [ "$(traces)" -eq 1 ]
    rm -- *.allogram
    "$ALLOGRAM" run -q --follow=none -- bash -c 'exec ls / >ls.out' # two traces: of bash, and of ls, which replaces it by exec
    [ "$(traces)" -eq 2 ]
}

@test "traces of children that ended before the program are whole when run returns" {
    for round in 1 2 3 4 5 6; do
        "$ALLOGRAM" run -q -o "$round.%p.allogram" -- sh -c '/bin/true; for i in 1 2 3; do /bin/true & done; wait; /bin/true'
        run "$ALLOGRAM" report --json "$round".*.allogram
        [ "$status" -eq 0 ]
        [ "$(grep -c '"end": "exit"' <<<"$output")" -ge 6 ]
        [ "$(grep -c '"end": "running"' <<<"$output")" -eq 0 ]
        rm "$round".*.allogram
    done
}

@test "signals sent to run reach the program" {
    "$ALLOGRAM" run -q -- bash -c 'trap "echo got; exit 9" USR1 TERM; echo ready; while :; do sleep 0.05; done' >out &
    for _ in $(seq 100); do
        grep -q ready out && break
        sleep 0.05
    done
    kill -USR1 $!
    wait $! && false
    [ $? -eq 9 ]
    grep -q got out
}

@test "a program that signals its whole process group gets the signal once" {
    # setsid starts a process group that contains only `run` and the program
    cat >group.sh <<'SCRIPT'
count=0
trap 'count=$((count + 1))' USR1
kill -USR1 0
sleep 0.3
echo "$count"
SCRIPT
    run setsid -w "$ALLOGRAM" run -q -- bash group.sh
    [ "$output" = 1 ]
}

@test "a program that stops itself stops run, too, and continues when run is continued" {
    setsid "$ALLOGRAM" run -q -- bash -c 'kill -STOP $$; exit 5' &
    runner=$!
    for _ in $(seq 100); do
        [[ $(ps -o stat= -p $runner) == T* ]] && break
        sleep 0.05
    done
    [[ $(ps -o stat= -p $runner) == T* ]]
    kill -CONT $runner
    wait $runner && false
    [ $? -eq 5 ]
}

@test "a reader of the program's output gets the end of the file when the program closes its output" {
    mkfifo output
    "$ALLOGRAM" run -q -- bash -c 'echo first; exec >&-; sleep 2; touch ended' >output &
    [ "$(cat output)" = first ]
    [ ! -e ended ]
    wait $!
    [ -e ended ]
}

@test "run returns with the program; a daemon is recorded to its end" {
    # the daemon ends after the test creates the file go, which is after `run` has returned
    "$ALLOGRAM" run -q -o t.%p -- bash -c '(trap "" HUP; for i in {1..300}; do [ -e go ] && break; sleep 0.1; done; ls / >late) >/dev/null 2>&1 & exit 6' || status=$?
    [ "$status" -eq 6 ]
    [ ! -e late ]
    touch go
    for _ in $(seq 600); do
        [ -s late ] && break
        sleep 0.05
    done
    for trace in t.*; do
        for _ in $(seq 100); do # the writer may seal the trace after the end of the daemon
            "$ALLOGRAM" check "$trace" >/dev/null && break
            sleep 0.1
        done
        "$ALLOGRAM" check "$trace"
    done
    [ "$(find . -name 't.*' | wc -l)" -ge 3 ]
}

@test "the trace is no larger than --max-size, and the program continues" {
    run "$ALLOGRAM" run --max-size=64K -o t.x -- bash -c 'for i in {1..20000}; do x=$x$i; done; echo done'
    [ "$status" -eq 0 ]
    [[ $output == *done* ]]
    [[ $output == *"recording stopped"*--max-size* ]]
    [ "$(stat -c %s t.x)" -le 65536 ]
    "$ALLOGRAM" check t.x
}

@test "on a full disk the trace is cut, and the program continues" {
    mkdir small
    mount -t tmpfs -o size=64K none small 2>/dev/null || skip "no mount here"
    run "$ALLOGRAM" run -o small/t.x -- bash -c 'for i in {1..20000}; do x=$x$i; done; echo done'
    "$ALLOGRAM" check --json small/t.x >verdict || true
    umount small
    [ "$status" -eq 0 ]
    [[ $output == *done* ]]
    [[ $output == *"recording stopped: No space left on device"* ]]
    grep -q '"whole": true' verdict
}

@test "a limit on file sizes that leaves no room gives one line; the program is not started" {
    run bash -c 'ulimit -Sf 1000; ulimit -Hf 1000; "$1" run -- touch ran' - "$ALLOGRAM"
    if [ "$status" -eq 0 ]; then
        skip "this user may raise the limit"
    fi
    [ "$status" -eq 125 ]
    one_line
    [[ $output == *"ulimit -f"* ]]
    [ ! -e ran ]
}

@test "the program keeps its soft limit on file sizes" {
    run bash -c 'ulimit -Sf 1000; "$1" run -q -o t.x -- bash -c "ulimit -Sf"' - "$ALLOGRAM"
    [ "$output" = 1000 ]
    "$ALLOGRAM" check t.x
}

@test "if the writer (the process that writes traces) is killed, run starts another, and nothing is missing" {
    "$ALLOGRAM" run -q -o t.x -- bash -c 'for i in {1..30000}; do x=$x$i; done; echo ready; read -t 0.3 < <(sleep 1); exit 0' >out &
    runner=$!
    for _ in 1 2 3; do
        sleep 0.1
        pkill -KILL -P $runner -x allogram-writer || true
    done
    wait $runner
    "$ALLOGRAM" check t.x
}

@test "if the program and allogram are killed, all commands read what was recorded, and only check seals (completes) the trace" {
    mkfifo never
    "$ALLOGRAM" run -q -o t.x -- bash -c 'for i in {1..1000}; do x=$x$i; done; echo ready; read -t 60 <>never' >out &
    runner=$!
    for _ in $(seq 100); do
        grep -q ready out && break
        sleep 0.05
    done
    pids=$(pgrep -P $runner)
    # shellcheck disable=SC2086 # there are several pids
    kill -KILL $runner $pids
    sleep 0.2
    wait $runner || true
    sum=$(sha256sum t.x)
    "$ALLOGRAM" report --json t.x | jq 'del(.profiler)' >before
    "$ALLOGRAM" export t.x --to=folded -o folded
    "$ALLOGRAM" view t.x --no-open -o page.html
    [ "$(jq .allocated_blocks before)" -gt 1000 ]
    [ "$(sha256sum t.x)" = "$sum" ]
    run "$ALLOGRAM" check t.x
    [ "$status" -eq 0 ]
    [ "${lines[0]}" = "allogram: check: t.x: sealed; events that the killed recording had not written were added" ]
    [ "$(sha256sum t.x)" != "$sum" ]
    "$ALLOGRAM" report --json t.x | jq 'del(.profiler)' | diff before -
    "$ALLOGRAM" export t.x --to=folded | diff folded -
    run "$ALLOGRAM" check t.x
    one_line
}

@test "--free-stacks takes no value, and ALLOGRAM_FREE_STACKS=0 switches it off" {
    run "$ALLOGRAM" run --free-stacks=yes -- true
    [ "$status" -eq 125 ]
    one_line
    [[ $output == *"--free-stacks=yes takes no value"* ]]
    for twin in 0 1; do
        ALLOGRAM_FREE_STACKS=$twin "$ALLOGRAM" run -q -o "$BATS_TEST_TMPDIR/$twin.allogram" -- "$PROGRAM" >/dev/null
        [ "$("$ALLOGRAM" dump "$BATS_TEST_TMPDIR/$twin.allogram" | grep -c ' free_stack stack=[0-9]*$')" -ge "$twin" ]
    done
    [ "$("$ALLOGRAM" dump "$BATS_TEST_TMPDIR/0.allogram" | grep -c ' free_stack ')" -eq 0 ]
}

@test "two traces in one file are damaged, and one message says so" {
    cd "$BATS_TEST_TMPDIR"
    run "$ALLOGRAM" run -q -o t.allogram -- ls
    cat t.allogram t.allogram >two.allogram
    run "$ALLOGRAM" report two.allogram
    [[ $output == "damaged, a chunk is not valid at byte "* ]]
}
