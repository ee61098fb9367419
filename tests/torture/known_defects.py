"""Recognizes torture programs (see run_torture.py) that would fail because of a known defect of allogram that is not fixed yet. They are not
run in the modes in which the defect occurs, and are counted.

A row of ROWS has: the defect, its modes, and a function that decides whether a program with this tree and variant has it. The commit that
fixes a defect removes its row. `run_torture.py --all` ignores the table.
"""

RUN = ["exact", "sample", "killed", "removed", "truncated"]


def executes_without_session(act, variant, around=0):
    """Whether the program executes a program in mount namespaces with another /dev/shm, where the executed program finds no live file. `around`:
    the kinds of the namespaces around `act`, which may be nested."""
    around |= act.numbers[1] & 34 if act.name == "namespaces" else 0
    return around == 34 and act.name in ("spawn", "execute", "shell") or any(
        executes_without_session(below, variant, around) for below in act.children)


ROWS = [
    ("9: programs executed where the live file cannot be found, if they end soon, are not counted as unrecorded", RUN, executes_without_session),
]


def hit(tree, variant, mode, ignored=()):
    """The defects that this program hits in this mode. `ignored`: numbers of defects whose rows do not count."""
    return [defect for defect, modes, does in ROWS
            if mode in modes and defect.partition(":")[0] not in ignored and does(tree, variant)]
