"""Checks that the function counters in `allogram diff` and in `report --fail-if` agree with the view `functions` of the same traces."""

import json
import os

import recorded

METRICS = "calls own_words own_bytes own_ns acc_words acc_bytes acc_ns".split()


def counts_of(view):
    """Returns {(runtime, file, function, index): {metric: count}}. If functions agree in runtime, file and name, index numbers them in the
    order of their lines."""
    counts, numbers = {}, {}
    for row in sorted(view["functions"], key=lambda row: row["line"] or 0):
        key = row["runtime"], os.path.basename(row["file"] or ""), row["function"]
        numbers[key] = numbers.get(key, -1) + 1
        counts[key + (numbers[key],)] = {metric: row[metric] for metric in METRICS}
    return counts


def change_of(before, after):
    return tuple(after.get(metric, 0) - before.get(metric, 0) for metric in METRICS)


def gate(tools, trace, condition, *options):
    """Returns the exit status of `report --fail-if`: 3 if the condition is true, 0 if it is false, 1 after an error."""
    return recorded.run([tools.allogram, "report", trace, "--json", *options, "--fail-if=" + condition]).status


def compare(tools, before, after, failures):
    """Checks that the change of each function, and of the totals, is the difference between the two traces' views. Returns {function: its
    changes} for functions with unique names."""
    views = [recorded.report(tools, trace, "--view=functions", "--limit=0") for trace in (before, after)]
    counts = [counts_of(view) for view in views]
    outcome = recorded.run([tools.allogram, "diff", before, after, "--json"])
    difference = json.loads(outcome.stdout)
    wanted = {}
    for key in set(counts[0]) | set(counts[1]):
        change = change_of(counts[0].get(key, {}), counts[1].get(key, {}))
        if any(change):
            wanted.setdefault(key[:3], []).append(change)
    found = {}
    for row in difference["functions"]:
        key = row["runtime"], os.path.basename(row["file"] or ""), row["function"]
        if any(row[metric] for metric in METRICS):
            found.setdefault(key, []).append(tuple(row[metric] for metric in METRICS))
    failures.expect("changes of functions", {key: sorted(rows) for key, rows in found.items()},
                    {key: sorted(rows) for key, rows in wanted.items()})
    failures.expect("change of the totals", tuple(difference["functions_total"][metric] for metric in METRICS),
                    change_of(views[0]["total"], views[1]["total"]))
    compare_gates(tools, before, after, views, failures)
    return {key[2]: dict(zip(METRICS, rows[0])) for key, rows in found.items() if len(rows) == 1}


def compare_gates(tools, before, after, views, failures):
    """Checks conditions on each total, and on the counts of the first functions of the view: it is true that a count equals the number in the view,
    and false that it differs from this number."""
    names = [row["function"] for row in views[1]["functions"]]
    rows = [row for row in views[1]["functions"] if names.count(row["function"]) == 1 and '"' not in row["function"]][:5]
    for metric in METRICS:
        total = views[1]["total"][metric]
        if total == 0 and metric.endswith("_ns"):
            continue # times were not counted
        counts = [(metric, total)] + [('functions["%s"].%s' % (row["function"], metric), row[metric]) for row in rows]
        if views[0]["functions"] and (views[0]["total"][metric] > 0 or not metric.endswith("_ns")):
            conditions = ["%s - base.%s == %d" % (metric, metric, total - views[0]["total"][metric])]
            conditions += ["%s == %d" % count for count in counts]
            failures.expect(metric + ": all conditions", gate(tools, after, " and ".join(conditions), "--base=" + before), 3)
        failures.expect(metric + ": no condition", gate(tools, after, " or ".join("%s != %d" % count for count in counts)), 0)
