"""Recognizes torture programs (see run_torture.py) that would fail because of a known defect of allogram that is not fixed yet. They are not
run in the modes in which the defect occurs, and are counted.

A row of ROWS has: the defect, its modes, and a function that decides whether a program with this tree and variant has it. The commit that
fixes a defect removes its row. `run_torture.py --all` ignores the table.
"""

RUN = ["exact", "sample", "killed", "removed", "truncated"]


def executes_unreported(act, variant, around=0, is_orphan=False):
    """Whether an orphan executes a program in mount namespaces with another /dev/shm, where the executed program finds no live file. `run` has
    then ended, and no process is left that could report the program. `around`: the kinds of the namespaces around `act`, which may be nested."""
    around |= act.numbers[1] & 34 if act.name == "namespaces" else 0
    is_orphan |= act.name == "orphan"
    return (is_orphan and around == 34 and act.name in ("spawn", "execute", "shell")) or any(
        executes_unreported(below, variant, around, is_orphan) for below in act.children)


ROWS = [
    ("9: programs that orphans execute where the live file cannot be found are not reported after `run` has ended", RUN, executes_unreported),
]


def hit(tree, variant, mode, ignored=()):
    """The defects that this program hits in this mode. `ignored`: numbers of defects whose rows do not count."""
    return [defect for defect, modes, does in ROWS
            if mode in modes and defect.partition(":")[0] not in ignored and does(tree, variant)]
