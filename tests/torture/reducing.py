"""Reduces a failing torture program (see run_torture.py): removes one act after the other, or replaces an act by its inner acts, as long as the
program fails in the same mode with a finding of the same kind."""

import program_text

TRIES = 3  # runs of each smaller program, because a failure may be rare
MOST_RUNS = 120


def reduce(judge, executable, program, modes, findings):
    wanted = {(finding.mode, finding.kind) for finding in findings}
    wanted_modes = [mode for mode in modes if any(mode == mode_found for mode_found, _ in wanted)]
    n_runs = 0

    def fails(tree):
        nonlocal n_runs
        for attempt in range(TRIES):
            n_runs += 1
            found, unstable = judge.judge([executable, tree.text()], wanted_modes, "%s %d" % (program.seed, attempt))
            if unstable:
                return False
            if any((finding.mode, finding.kind) in wanted for finding in found):
                return True
        return False

    tree, is_smaller = program.tree, True
    while is_smaller and n_runs < MOST_RUNS:
        is_smaller = False
        for path in tree.paths():
            for candidate in _smaller(tree, path):
                if n_runs < MOST_RUNS and fails(candidate):
                    tree, is_smaller = candidate, True
                    break
            if is_smaller:
                break
    return tree


def _smaller(tree, path):
    """Returns smaller trees: one without the act at a path, and one with the inner acts in place of the act."""
    act = tree.at(path)
    if len(tree.children) > 1 or len(path) > 1:
        parent = tree.at(path[:-1])
        if len(parent.children) > 1:
            yield tree.without(path)
    if act.children and act.name != "program":
        yield tree.replaced(path, program_text.Act("program", act.numbers[:1], act.children))
