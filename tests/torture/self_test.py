"""Tests judging.py: it must find each of several deliberate faults of allogram, as a finding of the right kind.

For each fault, a shell script takes the place of allogram. It calls the real allogram and drops an event or a trace, changes output or status,
leaves a process or a file, reports an unrecorded process, never ends, or damages a trace. Three more cases run the real allogram: twice without
a fault, and once with counts that are wrong by one. The last case has a program that is unstable.
"""

import os

import judging

TEXT = "program(1,1,churn(1,60),threads(2,2,0,0,churn(3,40)),fork(4,0,1,churn(5,40)),execute(6,0,churn(7,20)),vfork(8,2,1))"

# name: (the kind of finding, the text of a shell script that runs `$real "$@"` and adds a fault)
FAULTS = {
    "an event is missing": ("counts", 'if [ "$1" = dump ]; then "$real" "$@" | sed "0,/ alloc address=.* size=[5-9][0-9] /{/ alloc address=.* size=[5-9][0-9] /d}"; else "$real" "$@"; fi'),
    "a free is missing": ("counts", 'if [ "$1" = dump ]; then "$real" "$@" | sed "0,/ free address=/{/ free address=/d}"; else "$real" "$@"; fi'),
    "a free comes after the next allocation of its address": ("counts", """if [ "$1" = dump ]; then "$real" "$@" | awk '
        !held && / free address=/ {held = $0; address = $4; next}
        {print}
        held && !is_done && / alloc / && $4 == address {print held; is_done = 1}
        END {if (held && !is_done) print held}'; else "$real" "$@"; fi"""),
    "all of a process is missing": ("counts", '"$real" "$@"; s=$?; [ "$1" = run ] && rm "$(ls -S "$(dirname "$TORTURE_TRUTH")"/*.allogram | head -1)"; exit $s'),
    "a line is added to the output": ("output", '"$real" "$@"; s=$?; [ "$1" = run ] && echo more; exit $s'),
    "a line is added to the errors": ("stderr", '"$real" "$@"; s=$?; [ "$1" = run ] && echo more >&2; exit $s'),
    "the status is lost": ("status", '"$real" "$@"; s=$?; [ "$1" = run ] && exit 0; exit $s'),
    "a process is left": ("left", '"$real" "$@"; s=$?; [ "$1" = run ] && sleep 600 & exit $s'),
    "a file is left": ("left", '"$real" "$@"; s=$?; [ "$1" = run ] && touch "$(dirname "$TORTURE_TRUTH")/left"; exit $s'),
    "run reports an unrecorded process although all have traces": ("unrecorded", '"$real" "$@"; s=$?; [ "$1" = run ] && echo "allogram: 1 process was not recorded, because it is made up" >&2; exit $s'),
    "run never ends": ("hang", '[ "$1" = run ] && exec sleep 600; "$real" "$@"'),
    "a trace is damaged": ("trace", '"$real" "$@"; s=$?; [ "$1" = run ] && for t in "$(dirname "$TORTURE_TRUTH")"/*.allogram; do truncate -s 300 "$t"; done; exit $s'),
}


def miscount(trues):
    counts = trues[-1].sites[max(trues[-1].sites)]
    counts.blocks = [n + 1 for n in counts.blocks]


def run(real, builds, variant, folder, has_own_shm):
    """Runs all cases. Returns [(name of the case, error or None)]."""
    command = [builds.path(variant), TEXT]
    cases = []

    def case(name, wanted, judge, mode="exact"):
        findings, unstable = judge.judge(command, [mode], 1)
        kinds = {finding.kind for finding in findings}
        wrong = None
        if unstable:
            wrong = "the program is unstable: " + unstable
        elif (wanted is None and kinds) or (wanted is not None and wanted not in kinds):
            wrong = "found %s, wanted %s: %s" % (sorted(kinds), wanted, "; ".join(str(finding) for finding in findings))
        cases.append((name, wrong))

    case("the real allogram gives no finding", None, judging.Judge(real, builds, folder, has_own_shm))
    case("the real allogram gives no finding in mode whole", None, judging.Judge(real, builds, folder, has_own_shm), "whole")
    case("wrong counts", "counts", judging.Judge(real, builds, folder, has_own_shm, falsify=miscount))
    for name, (wanted, text) in FAULTS.items():
        script = os.path.join(folder, "allogram-with-fault")
        with open(script, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\nreal=%s\n%s\n" % (real, text))
        os.chmod(script, 0o755)
        case(name, wanted, judging.Judge(script, builds, folder, has_own_shm, slowness=0.1))
        if name == "an event is missing":
            case("attached, an event is missing", wanted, judging.Judge(script, builds, folder, has_own_shm), "whole")
    cases.append(_rarely_illegal(real, builds, variant, folder, has_own_shm))
    return cases


def _rarely_illegal(real, builds, variant, folder, has_own_shm):
    """Tests a program whose two plain runs agree, but which complains when it repeats its acts. The program is unstable, so no difference may
    count as a finding."""
    program, allogram = os.path.join(folder, "rarely-illegal"), os.path.join(folder, "allogram-with-fault")
    for path, text in ((program, '[ -n "$TORTURE_MILLISECONDS" ] && echo more >&2\nexec %s "$@"\n' % builds.path(variant)),
                       (allogram, 'real=%s\n%s\n' % (real, FAULTS["a line is added to the errors"][1]))):
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + text)
        os.chmod(path, 0o755)
    findings, unstable = judging.Judge(allogram, builds, folder, has_own_shm).judge([program, TEXT], ["exact"], 1)
    wrong = None if unstable and not findings else "found %s" % "; ".join(str(finding) for finding in findings)
    return "a program that rarely complains without allogram gives no finding", wrong
