#!/usr/bin/env bats
# `allogram doctor` prints what can be profiled on this machine. The agent is the library that allogram
# loads into programs.

@test "doctor finds the agent of its build, and prints the agent's path" {
    run "$ALLOGRAM" doctor
    [[ $output =~ ok\ +agent\ +/.*liballogram-agent.so ]]
}

@test "doctor names the runtimes that have an adapter" {
    run "$ALLOGRAM" doctor
    [[ $output =~ ok\ +adapters ]]
    for adapter in $RUNTIMES; do
        [[ $output =~ ok\ +adapters\ [^$'\n']*"$adapter ("[0-9a] ]]
    done
}

@test "each check has a name, a verdict, a reason, and, if it is not ok, what to do" {
    run bash -c "'$ALLOGRAM' doctor --json"
    python3 - "$output" <<'PYTHON'
import json, sys
checks = json.loads(sys.argv[1])["checks"]
assert len(checks) >= 5
for check in checks:
    assert set(check) == {"name", "ok", "why", "fix"}, check
    assert check["why"]
    assert check["ok"] is True and check["fix"] is None or check["ok"] is False and check["fix"], check
PYTHON
}

@test "if the agent cannot be found, doctor fails and says what to do" {
    ALLOGRAM_AGENT=/nowhere/agent.so run "$ALLOGRAM" doctor
    [ "$status" -eq 1 ]
    [[ $output == *"needed"*"/nowhere/agent.so"* ]]
    [[ $output == *"set ALLOGRAM_AGENT"* ]]
}

@test "doctor takes no arguments" {
    run "$ALLOGRAM" doctor now
    [ "$status" -eq 2 ]
}
