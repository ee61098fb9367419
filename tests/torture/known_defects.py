"""Recognizes torture programs (see run_torture.py) that would fail because of a known defect of allogram. Such a program is not run in the modes
in which the defect occurs, and is counted as left out.

A row of ROWS has: the number and text of the defect, its modes, and a function that decides whether a program with this tree and variant shows the
defect. The commit that fixes a defect removes its row. `run_torture.py --all` ignores the table.
"""

RUN = ["exact", "sample", "killed", "removed", "truncated"]


def executes_unreported(act, variant, around=0, is_orphan=False):
    """Whether an orphan executes a program in a mount namespace with another /dev/shm, where the executed program finds no live file (the shared
    memory of the recording). `run` has ended before this, so no process can report that the program is unrecorded. `around`: the sum of the
    kinds of the namespaces around `act` (2: mounts, 32: another /dev/shm)."""
    around |= act.numbers[1] & 34 if act.name == "namespaces" else 0
    is_orphan |= act.name == "orphan"
    return (is_orphan and around == 34 and act.name in ("spawn", "execute", "shell")) or any(
        executes_unreported(below, variant, around, is_orphan) for below in act.children)


ROWS = [
    ("9: programs that orphans execute where the live file cannot be found are not reported after `run` has ended", RUN, executes_unreported),
]


def hit(tree, variant, mode, ignored=()):
    """Returns the defects that this program shows in this mode. `ignored`: numbers of defects that are not returned."""
    return [defect for defect, modes, does in ROWS
            if mode in modes and defect.partition(":")[0] not in ignored and does(tree, variant)]
