"""Programs that hit a defect which is known and open: left out mode by mode, and counted, until it is fixed.

A row: which defect, in which modes, and whether a program of this tree and this variant hits it. The commit that fixes a defect
takes its row away; `run_torture.py --all` ignores the table.
"""

RUN = ["exact", "sample", "killed", "removed", "truncated"]


def executes_without_session(act, variant, around=0):
    """Below namespaces with a /dev/shm of their own, where an executed program finds no live file. They may be nested."""
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
