#!/usr/bin/env python3
"""check_symbols AGENT LIST [--partial]: the agent imports and exports only the symbols of LIST.

The agent is a shared object that is loaded into arbitrary programs. So it may import and export only symbols of LIST, import nothing
newer than GLIBC_2.17, and need no library but libc. LIST has the lines

    import NAME          the agent may import this symbol
    weak NAME            the same, but only as a weak reference
    export NAME          the agent exports this symbol (an interposed function)
    needed NAME          the agent may need this library

with # comments that give the reason. A line that is no longer needed is a finding, too, except with --partial: then the agent was built
without some runtimes.
"""

import re
import subprocess
import sys

NEWEST = (2, 17)


def read_list(path):
    allowed = {"import": set(), "weak": set(), "export": set(), "needed": set()}
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            if len(words) != 2 or words[0] not in allowed:
                sys.exit(f"{path}:{number}: not a line of this list: {line.strip()}")
            allowed[words[0]].add(words[1])
    return allowed


def dynamic_symbols(agent, which):
    """(name, version, type letter) of each dynamic symbol."""
    command = ["nm", "-D", which, "--with-symbol-versions", agent]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    for line in output.split("\n"):
        match = re.match(r"\s*(?:[0-9a-f]+\s+)?([A-Za-z])\s+([^@\s]+)(?:@+(\S+))?$", line)
        if match:
            yield match.group(2), match.group(3) or "", match.group(1)


def needed_libraries(agent):
    output = subprocess.run(["readelf", "-dW", agent], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[(.*?)\]", output))


def is_too_new(version):
    number = re.match(r"GLIBC_(\d+)\.(\d+)", version)
    return bool(number) and (int(number.group(1)), int(number.group(2))) > NEWEST


def imports_findings(agent, allowed, is_partial):
    seen = {"import": set(), "weak": set()}
    for name, version, letter in dynamic_symbols(agent, "--undefined-only"):
        kind = "weak" if letter in "wv" else "import"
        seen[kind].add(name)
        if name not in allowed[kind]:
            yield f"{agent}: imports {name}{'@' + version if version else ''} ({kind}), which the list does not allow"
        if is_too_new(version):
            yield f"{agent}: imports {name}@{version}, newer than GLIBC_{NEWEST[0]}.{NEWEST[1]}"
    for kind, names in seen.items():
        for name in sorted(set() if is_partial else allowed[kind] - names):
            yield f"{agent}: the list allows `{kind} {name}`, which nothing needs: take the line out"


def other_findings(agent, allowed, is_partial):
    exports = {name for name, _, letter in dynamic_symbols(agent, "--defined-only") if letter not in "A"}
    for name in sorted(exports - allowed["export"]):
        yield f"{agent}: exports {name}, which the list does not allow"
    for name in sorted(set() if is_partial else allowed["export"] - exports):
        yield f"{agent}: does not export {name}, which the list promises"
    for name in sorted(needed_libraries(agent) - allowed["needed"]):
        yield f"{agent}: needs {name}, which the list does not allow"


def main():
    agent, path = sys.argv[1:3]
    allowed = read_list(path)
    is_partial = "--partial" in sys.argv
    findings = [*imports_findings(agent, allowed, is_partial), *other_findings(agent, allowed, is_partial)]
    for finding in findings:
        print(finding)
    sys.exit(1 if findings else 0)


main()
