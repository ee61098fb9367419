#!/usr/bin/env python3
"""check_vectors OBJECT...: machine code that may run inside a hook uses general registers only.

The compiler of a program may know that a function does not change vector registers, and rely on this in the function's callers. So if the
agent replaces that function by a hook, the code of the hook must not change vector registers either (hook/kept_call.h). OBJECT is an archive
or an object file. The check skips vector_state.S, and skip.c, whose functions are called through vector_state.S.
"""

import re
import subprocess
import sys

LEFT_OUT = re.compile(r"(^|[_/])(skip\.c|vector_state\.S)\.o$")
VECTORS = re.compile(r"%([xyz]?mm\d+|k[0-7]\b|st\b)|\b(f?xsave|f?xrstor|vzero|emms|ldmxcsr|fld|fst)")


def findings(path):
    output = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, check=True).stdout
    member, function, reported = "", "", set()
    for line in output.split("\n"):
        if match := re.match(r"(\S+):\s+file format", line):
            member = match.group(1)
        elif match := re.match(r"[0-9a-f]+ <(.*)>:$", line):
            function = match.group(1)
        elif "\t" in line and not LEFT_OUT.search(member) and function not in reported:
            instruction = line.split("\t", 1)[1].split("#")[0].split("<")[0]
            if VECTORS.search(instruction):
                reported.add(function)
                yield f"{path}: {member}: {function} uses a vector or floating-point register: {instruction.strip()}"
    if not function:
        yield f"{path}: has no code"


def main():
    found = [finding for path in sys.argv[1:] for finding in findings(path)]
    for finding in found:
        print(finding)
    sys.exit(1 if found or len(sys.argv) < 2 else 0)


if __name__ == "__main__":
    main()
