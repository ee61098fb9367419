"""Programs that hit a defect which is known and open: left out mode by mode, and counted, until it is fixed.

A row: which defect, in which modes, and whether a program of this tree and this variant hits it. The commit that fixes a defect
takes its row away; `run_torture.py --all` ignores the table.
"""

RUN = ["exact", "sample", "killed", "removed", "truncated"]
ATTACH = ["whole", "attach"]
ALL = RUN + ATTACH


def has(*names):
    return lambda tree, variant: any(act.name in names for act in tree.walk())


def has_within(outer, *names):
    return lambda tree, variant: any(act.name == outer and any(below.name in names for below in act.walk()) for act in tree.walk())


def has_number(name, index, *values):
    return lambda tree, variant: any(act.name == name and act.numbers[index] in values for act in tree.walk())


ROWS = [
    ("2: calls of a handler that interrupted an allocator of the program", ALL,
     lambda tree, variant: variant.own_malloc and has("timer", "handler")(tree, variant)),
    ("4: fork in a signal handler after the live file was removed", ["removed"], has_number("timer", 1, 1)),
    ("8: processes are known by pid", ALL, has("namespaces")),
    ("9: change of user followed by exec", ATTACH, has_within("user", "spawn", "execute")),
    ("9: a program that starts after the live file was removed, on a busy machine the first one", ["removed"], lambda tree, variant: True),
    ("10: sandboxes", ALL, has("seccomp")),
    ("15: truncating a live file", ["truncated"], lambda tree, variant: True),
]


def hit(tree, variant, mode, ignored=()):
    """The defects that this program hits in this mode. `ignored`: numbers of defects whose rows do not count."""
    return [defect for defect, modes, does in ROWS
            if mode in modes and defect.partition(":")[0] not in ignored and does(tree, variant)]
