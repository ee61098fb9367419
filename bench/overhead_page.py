#!/usr/bin/env python3
"""overhead_page.py [--check] [RESULT...]: writes the table and the chart of docs/explanation/overhead.md from results of run_bench.py.

RESULT is a file that `run_bench.py --write` wrote, with the tables "program" and "sampled program". Without a RESULT, the files that the page
names are used. With --check nothing is written, and the status is 1 if the page or the chart differs from the results."""

import os
import re
import sys

TREE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
PAGE, CHART = "docs/explanation/overhead.md", "docs/explanation/overhead.svg"
BEGIN, END = "<!-- by bench/overhead_page.py of", "<!-- end -->"
ORDER = ["jq", "z3", "redis-server", "cover", "factor", "lua5.4"]
WHAT = {"jq": "17 MB of JSON", "z3": "600 problems", "redis-server": "redis-benchmark", "cover": "177,000 stacks", "factor": "malloc and free only",
        "lua5.4": "tables and strings"}
WIDTH, LEFT, RIGHT, ROW, TOP = 760, 210, 70, 52, 46


def read(path):
    with open(os.path.join(TREE, path), encoding="utf-8") as file:
        return file.read()


def number(text):
    """(median, low, high) for a text such as "1.60 [1.49, 1.71]"; None for "-"."""
    found = [float(part) for part in re.findall(r"-?\d+(?:\.\d+)?", text.split("/")[0])]
    return (found * 3)[:3] if found else None


def rows_of(text):
    """For each program: wall and CPU time of exact recordings, bytes of the trace per event, wall time of sampled recordings."""
    rows = {}
    for line in text.split("\n"):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        name = re.split(r"[ ,]", cells[0])[0]
        if name in ORDER and len(cells) == 10:
            rows.setdefault(name, {}).update(wall=number(cells[3]), cpu=number(cells[4]), trace=number(cells[9]))
        elif name in ORDER and len(cells) == 6 and "." in cells[3]:
            rows.setdefault(name, {}).update(sampled=number(cells[3]))
    return {name: rows[name] for name in ORDER if name in rows}


def machine(text):
    return re.search(r"^\d{4}-.*?commit [^\n]*?(?=; load)", text, re.M)[0]


def ratio(value):
    return "-" if not value else "%.2f [%.2f, %.2f]" % tuple(value)


def table(rows):
    yield "| program | exact: time | exact: CPU of all processes | sampled: time | trace, bytes per event |"
    yield "|---|---:|---:|---:|---:|"
    for name, row in rows.items():
        trace = row.get("trace")
        yield "| %s, %s | %s | %s | %s | %s |" % (name, WHAT[name], ratio(row.get("wall")), ratio(row.get("cpu")), ratio(row.get("sampled")),
                                                  "%.2f" % trace[0] if trace else "-")


def chart(rows, title):
    """An SVG picture with two bars for each program. A line on each bar shows the interval of the value; the value follows the bar."""
    most = max(value[2] for row in rows.values() for value in (row.get("wall"), row.get("sampled")) if value)
    top = -(-most // 1)
    scale = (WIDTH - LEFT - RIGHT) / top
    height = TOP + ROW * len(rows) + 34
    out = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="13">' % (WIDTH, height),
           '<title>%s</title>' % title, '<rect width="%d" height="%d" fill="#fff"/>' % (WIDTH, height),
           '<text x="12" y="22" font-weight="bold">Time with allogram over time without it</text>',
           '<rect x="460" y="12" width="12" height="12" fill="#0b62a3"/><text x="478" y="22">exact</text>',
           '<rect x="540" y="12" width="12" height="12" fill="#7fb2d9"/><text x="558" y="22">sampled, 512 KiB</text>']
    for tick in range(int(top) + 1):
        x = LEFT + tick * scale
        out.append('<line x1="%.1f" y1="%d" x2="%.1f" y2="%d" stroke="%s"/>' % (x, TOP - 8, x, height - 26, "#667085" if tick == 1 else "#e4e2dd"))
        out.append('<text x="%.1f" y="%d" text-anchor="middle" fill="#667085">%dx</text>' % (x, height - 10, tick))
    for i, (name, row) in enumerate(rows.items()):
        y = TOP + i * ROW
        out.append('<text x="12" y="%d">%s</text><text x="12" y="%d" fill="#667085" font-size="11">%s</text>' % (y + 16, name, y + 31, WHAT[name]))
        for value, color, at in ((row.get("wall"), "#0b62a3", y), (row.get("sampled"), "#7fb2d9", y + 19)):
            if value:
                median, low, high = (LEFT + part * scale for part in value)
                out.append('<rect x="%d" y="%d" width="%.1f" height="15" fill="%s"/>' % (LEFT, at, median - LEFT, color))
                out.append('<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#1d2430" stroke-width="2"/>' % (low, at + 7.5, high, at + 7.5))
                out.append('<text x="%.1f" y="%d">%.2f</text>' % (high + 8, at + 12, value[0]))
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    arguments = [argument for argument in sys.argv[1:] if argument != "--check"]
    page = read(PAGE)
    named = re.search(re.escape(BEGIN) + r" (.*?) -->", page)
    results = [os.path.relpath(os.path.abspath(path), TREE) for path in arguments] or named[1].split()
    texts = [read(path) for path in results]
    rows = rows_of("\n".join(texts))
    lines = ["%s %s -->" % (BEGIN, " ".join(results)), "", *table(rows), "", "Measured: %s." % machine(texts[0]), "", END]
    before, _, rest = page.partition(BEGIN)
    new = {PAGE: before + "\n".join(lines) + rest.partition(END)[2], CHART: chart(rows, "allogram's overhead; " + machine(texts[0]))}
    if "--check" in sys.argv:
        stale = [path for path, text in new.items() if not os.path.exists(os.path.join(TREE, path)) or read(path) != text]
        print("\n".join("%s: differs from its results; run bench/overhead_page.py" % path for path in stale))
        return 1 if stale else 0
    for path, text in new.items():
        with open(os.path.join(TREE, path), "w", encoding="utf-8") as file:
            file.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
