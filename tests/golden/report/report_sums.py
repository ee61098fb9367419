#!/usr/bin/env python3
"""report_sums ALLOGRAM FOLDER: checks the numbers of reports, as JSON, against the descriptions of the traces in report_traces.py.

This file knows the rules of docs/reference/report-schema.md, and shares no code with allogram. It applies the events of a description in their
order, and adds up what each view must show. A trace that contains an index of its own (hostile) is not checked here, because its sums do
not follow from its events. Prints TAP.
"""

import json
import math
import os
import subprocess
import sys
from collections import Counter

import report_traces
from report_traces import CUT, LABEL, MANAGED, NOT_KEPT, START_NS, TYPE

METRICS = ["allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes", "peak_blocks", "temporary_blocks", "freed_bytes",
           "freed_blocks"]
FRAME_KEYS = ("function", "file", "line", "image", "runtime")


class Sums(dict):
    def __init__(self, values=()):
        super().__init__(dict.fromkeys(METRICS, 0))
        self.update(values)

    def add(self, name, blocks, n_bytes=None):
        self[name + "_blocks"] += blocks
        if n_bytes is not None:
            self[name + "_bytes"] += n_bytes

    def include(self, other):
        for name in METRICS:
            self[name] += other[name]


def total_of(rows):
    total = Sums()
    for row in rows:
        total.include(row)
    return total


class Block:
    def __init__(self, line, interval):
        self.address, self.size, self.stack, self.via = (line.fields.get(name, 0) for name in ("address", "size", "stack", "via"))
        self.stream, self.born_ns, self.died_ns = line.stream, line.time_ns, None
        self.blocks, self.bytes = 1, self.size
        if interval:  # a block of a sampled trace represents several blocks
            chance = 1 - math.exp(-(self.size + 1) / interval)
            self.blocks, self.bytes = 1 / chance, self.size / chance


class Mapping:
    def __init__(self, key, line, low, high, is_own):
        self.key, self.time_ns, self.stream, self.size, self.is_own = key, line.time_ns, line.stream, high - low, is_own
        self.pieces, self.peak_bytes = [(low, high)], 0

    def bytes(self):
        return sum(high - low for low, high in self.pieces)

    def cut(self, low, high):
        self.pieces = [(begin, end) for piece in self.pieces for begin, end in ((piece[0], min(piece[1], low)), (max(piece[0], high), piece[1]))
                       if begin < end]


class Program:
    """What a description defines, and the sums of its events."""

    def __init__(self, trace):
        self.is_forked = trace.lines[0].fields.get("origin") == 1
        self.records = [line for line in trace.lines if line.kind not in ("alloc", "free")]
        self.nodes = {row["id"]: row for row in self.all("nodes")}
        self.functions = {row["frame"]: row for row in self.all("frame")}
        self.images = {row["image"]: row["path"] for row in self.all("image_load")}
        self.heaps = {row["heap"]: row for row in self.all("heap")}
        self.vias = {row["via"]: row for row in self.all("via")}
        self.threads = {row["stream"]: row for row in self.all("thread")}
        self.names = {TYPE: {row["type"]: row["name"] for row in self.all("type")}, LABEL: {row["label"]: row["name"] for row in self.all("label")}}
        self.places = {}
        for row in self.all("code"):
            self.places.setdefault(row["pc"], []).append((row["frame"], row["line"]))
        self.total, self.rows, self.of_thread, self.pairs, self.collector = Sums(), {}, {}, {}, {}
        self.live, self.blocks, self.ghosts, self.states = {}, [], [], [(START_NS, (0, 0, 0))]
        self.inherited = {}  # by address: the first free, in a forked process, of a block that was not allocated in it
        self.last_of_thread, self.peak, self.mapped = {}, (0, 0), 0
        self.mappings, self.own_peak, self.last_unmapped = [], 0, None
        self.start_ns, self.interval, self.peak_high, self.buried, windows = START_NS, 0, 0, 0, []
        for line in trace.lines:
            if line.stream is not None and line.kind not in ("stamp", "map", "unmap", "sampling"):
                windows = [window for window in windows if window[0] + trace.resolution_ns > line.time_ns]
                if not windows or windows[-1][:2] != [line.time_ns, line.stream]:
                    windows.append([line.time_ns, line.stream, self.total["in_use_bytes"], 0])
                self.apply(line)
                in_use = self.total["in_use_bytes"]
                windows[-1][3] = max(windows[-1][3], in_use - windows[-1][2])
                if in_use > self.peak[0]:
                    self.take_peak()
                # Threads whose windows (times between two stamps) overlap may have had their peaks at the same moment.
                self.peak_high = max(self.peak_high, windows[0][2] + sum(window[3] for window in windows))
            elif line.kind in ("map", "unmap"):
                self.apply_mapping(line)
            elif line.kind == "sampling":
                self.interval = line.fields["interval_bytes"]

    def all(self, kind):
        return [line.fields for line in self.records if line.kind == kind]

    # ---- events ----

    def row(self, block):
        return self.rows.setdefault((block.stack, block.via), Sums())

    def thread(self, stream):
        return self.of_thread.setdefault(stream, Sums())

    def take_peak(self):
        self.peak = (self.total["in_use_bytes"], self.total["in_use_blocks"])
        for row in self.rows.values():
            row.update(peak_bytes=row["in_use_bytes"], peak_blocks=row["in_use_blocks"])

    def apply(self, line):
        kind, address = line.kind, line.fields.get("address", 0)
        if kind == "alloc":
            if address in self.live:  # the free of that block was not recorded
                self.buried += 1
                self.die(line, self.live.pop(address), is_recorded=False)
            block = self.live[address] = Block(line, self.interval)
            self.blocks.append(block)
            self.last_of_thread[line.stream] = block
            for sums in (self.total, self.row(block), self.thread(line.stream)):
                sums.add("allocated", block.blocks, block.bytes)
                sums.add("in_use", block.blocks, block.bytes)
        elif kind in ("move", "promote"):
            block = self.live.pop(address)
            self.live[line.fields.get("to", address)] = block
            self.count(block, "moved" if kind == "move" else "promoted")
        elif kind == "reset":
            self.start_ns, self.peak, self.states = line.time_ns, (0, 0), []
            for sums in (self.total, *self.rows.values(), *self.of_thread.values()):
                sums.update({name: 0 for name in METRICS if not name.startswith("in_use")})
        elif address in self.live:
            self.die(line, self.live.pop(address))
        elif self.is_forked and address not in self.inherited:
            self.inherited[address] = line
        else:
            self.ghosts.append(line)
        self.states.append((line.time_ns, tuple(self.total[name] for name in ("in_use_bytes", "in_use_blocks", "allocated_bytes"))))

    def apply_mapping(self, line):
        fields = line.fields
        low, high, via, before = fields["address"], fields["address"] + fields["bytes"], fields.get("via", 0), self.own_bytes()
        is_late = line.kind == "unmap" and via != 0  # `flags` has the lower half of the time at which the call began
        call_ns = line.time_ns - (line.time_ns - fields["flags"]) % (1 << 32) if is_late else line.time_ns
        via_before = None
        for mapping in self.mappings:
            if is_late and mapping.time_ns > call_ns and mapping.stream != line.stream:
                continue
            if any(begin < high and low < end for begin, end in mapping.pieces):
                via_before = mapping.key[1]
            mapping.cut(low, high)
        if line.kind == "map":
            name, flags = self.vias[via]["name"], fields.get("flags", 0)
            if flags & 3 and not flags & 0x20:
                name = "mmap of a file"
            elif flags & 3 and not fields.get("protection", 0):
                name = "mmap without access"
            elif name == "mremap" and self.last_unmapped in ("mmap of a file", "mmap without access"):
                name = self.last_unmapped
            is_own = bool(self.heap_of(via).get("is_backing"))
            self.mappings.append(Mapping((fields["stack"], name), line, low, high, is_own))
            if self.own_bytes() >= self.own_peak and is_own:
                self.own_peak = self.own_bytes()
                for mapping in self.mappings:
                    mapping.peak_bytes = mapping.bytes()
        self.last_unmapped = via_before if line.kind == "unmap" else None
        self.mapped = sum(mapping.bytes() for mapping in self.mappings)

    def own_bytes(self):
        return sum(mapping.bytes() for mapping in self.mappings if mapping.is_own)

    def mapping_rows(self):
        rows = {}
        for mapping in self.mappings:
            if mapping.is_own:
                sums, left = rows.setdefault(mapping.key, Sums()), mapping.bytes()
                sums.include({**Sums(), "allocated_blocks": 1, "allocated_bytes": mapping.size, "in_use_blocks": int(left > 0),
                              "in_use_bytes": left, "freed_blocks": int(left == 0), "freed_bytes": mapping.size - left,
                              "peak_blocks": int(mapping.peak_bytes > 0), "peak_bytes": mapping.peak_bytes})
        return rows

    def die(self, line, block, is_recorded=True):
        block.died_ns = line.time_ns
        is_temporary = is_recorded and line.stream == block.stream and self.last_of_thread[block.stream] is block
        for sums in (self.total, self.row(block)):
            sums.add("in_use", -block.blocks, -block.bytes)
            sums.add("temporary", block.blocks if is_temporary else 0)
        for sums in (self.total, self.row(block)) + ((self.thread(line.stream),) if is_recorded else ()):
            sums.add("freed", block.blocks, block.bytes)
        self.pairs.setdefault((block.stream, line.stream), Sums()).add("freed", block.blocks, block.bytes)
        if line.kind == "collect":
            self.count(block, "collected")

    def count(self, block, what):
        counts = self.collector.setdefault(self.vias[block.via]["heap"], {})
        counts[what] = counts.get(what, 0) + 1

    # ---- names ----

    def frame(self, number, line=0, inlined=False):
        row = self.functions[number]
        image = "" if row["runtime"] == "c" else "[%s]" % row["runtime"]
        return (text(row["function"]), row["file"] or None, line or row["line"] or None, image, row["runtime"], inlined)

    def frames_of(self, stack):
        """The frames of a stack, innermost first."""
        if stack == NOT_KEPT:
            return [("[stack not kept]", None, None, "", "c", False)]
        found = []
        while stack in self.nodes:
            node = self.nodes[stack]
            pc, image, stack = node["pc"], node["image"], node["parent"]
            if image == MANAGED:
                found.append(self.frame(pc & 0xFFFFFF, pc >> 24))
            elif image in self.images:
                name = self.images[image].rpartition("/")[2]
                found.append(("0x%x [%s]" % (pc, name), None, None, name, "c", False))
            elif pc in self.places and image == 0:
                places = self.places[pc]
                found += [self.frame(number, line, inlined=i + 1 < len(places)) for i, (number, line) in enumerate(places)]
        return found

    def state_of(self, stack):
        while stack in self.nodes:
            stack = self.nodes[stack]["parent"]
        return {0: "complete", CUT: "cut", NOT_KEPT: "not_kept"}.get(stack, "incomplete")

    def leaf_of(self, stack, image):
        """The type (image TYPE) or the label of the blocks of a stack."""
        while stack in self.nodes and self.nodes[stack]["image"] in (TYPE, LABEL):
            if self.nodes[stack]["image"] == image:
                return self.names[image][self.nodes[stack]["pc"]]
            stack = self.nodes[stack]["parent"]
        return None

    def without_leaf(self, stack):
        while stack in self.nodes and self.nodes[stack]["image"] in (TYPE, LABEL):
            stack = self.nodes[stack]["parent"]
        return stack

    def heap_of(self, via):
        return self.heaps[self.vias[via]["heap"]]


def text(value):
    return value.decode(errors="surrogateescape") if isinstance(value, bytes) else value


# ---- the comparison ----


class Check:
    def __init__(self, allogram, trace, program):
        self.allogram, self.trace, self.program, self.failures = allogram, trace, program, []

    def report(self, *options):
        done = subprocess.run([self.allogram, "report", self.trace.name + ".allogram", "--json", *options], capture_output=True, check=True)
        return json.loads(done.stdout)

    def equal(self, what, found, expected):
        """Compares numbers, lists or dicts. Estimates from a sample may differ by 1, because they are rounded once or twice."""
        if isinstance(expected, dict) and isinstance(found, dict):
            for name in expected:
                self.equal(f"{what}.{name}", found.get(name, "missing"), expected[name])
        elif isinstance(expected, float) and isinstance(found, int):
            if abs(found - expected) > 1:
                self.failures.append(f"{what}: {found}, not {expected}")
        elif found != expected:
            self.failures.append(f"{what}: {str(found)[:300]}, not {str(expected)[:300]}")

    def metrics(self, what, found, expected):
        expected = dict(expected)
        if self.program.interval:
            self.equal(what + ".temporary_blocks", found["temporary_blocks"], None)
            del expected["temporary_blocks"]
        self.equal(what, found, expected)

    def rows(self, what, found, expected, key_of):
        """Compares the rows of a report, in any order, with the expected rows. A row with only zeros may be missing."""
        keyed = {key_of(row): row for row in found}
        self.equal(what + ": number of rows", len(keyed), len(found))
        for key in set(keyed) | {key for key, row in expected.items() if any(row.values())}:
            self.equal(f"{what}: has {key}", key in keyed, key in expected)
            if key in keyed and key in expected:
                self.metrics(f"{what}: {key}", keyed[key], expected[key])

    # ---- one function for each view ----

    def summary(self):
        program, found = self.program, self.report()
        total, states = total_of(program.rows.values()), [program.state_of(stack) for stack, _ in self.stacks()]
        expected = {name: total[name] for name in METRICS if not name.startswith(("in_use", "peak"))}
        if program.interval:
            del expected["temporary_blocks"]
        peaks_ns = {time_ns - START_NS for time_ns, state in program.states if state[:2] == program.peak} or {0}
        self.equal("summary: peak_time_ns is the time of a peak", found["peak_time_ns"] in peaks_ns, True)
        lost = sum(row["events"] for row in program.all("lost"))
        self.equal("summary", found, {
            **expected, "in_use_blocks_at_end": total["in_use_blocks"], "in_use_bytes_at_end": total["in_use_bytes"], "peak_bytes": program.peak[0],
            "peak_blocks": program.peak[1], "ghost_frees": len(program.ghosts), "inherited_frees": len(program.inherited),
            "truncated_stacks": states.count("cut"), "incomplete_stacks": states.count("incomplete"), "order_repairs": program.buried,
            "threads": len(program.of_thread), "rss_peak_bytes": max((row["bytes"] for row in program.all("resident")), default=0),
            "unique_stacks": len({program.without_leaf(stack) for stack, _ in self.stacks()})})
        self.equal("summary", found["lost_events"]["total"], lost)
        self.equal("summary: lost stacks", found["missing"]["lost_stacks"],
                   sum(row["allocated_blocks"] for (stack, _), row in program.rows.items() if stack == NOT_KEPT))
        self.equal("summary: peak range", found.get("peak_bytes_range", [program.peak[0]] * 2), [program.peak[0], program.peak_high])
        self.equal("summary: runtimes", [(row["name"], row["coverage"]) for row in found["runtimes"]],
                   [(row["name"], row["reported"] / row["counted"] if row.get("counted") else None) for row in program.all("runtime")])

    def stacks(self):
        return [key for key, row in self.program.rows.items() if row["allocated_blocks"]]

    def sites_by(self, key, name_of_stack, key_of):
        """name_of_stack(stack, via) returns the keys of the rows in which the stack counts; the first of these rows counts it in `own`."""
        expected = {}
        for (stack, via), sums in self.program.rows.items():
            names = name_of_stack(stack, via)
            for name in dict.fromkeys(names):
                row = expected.setdefault(name, (Sums(), Sums()))
                if name == names[0]:
                    row[0].include(sums)
                row[1].include(sums)
        found = self.report("--view=sites", "--by=" + key)["sites"]
        for i, part in enumerate(("own", "total")):
            self.rows(f"sites by {key}, {part}", [{**row[part], "key": key_of(row)} for row in found],
                      {name: row[i] for name, row in expected.items()}, lambda row: row["key"])

    def sites(self):
        program = self.program
        for key, parts in (("function", (0, 4)), ("line", (0, 1, 2, 4)), ("image", (3, 4))):
            self.sites_by(key, lambda stack, via: [tuple(frame[i] for i in parts) for frame in program.frames_of(stack)],
                          lambda row: tuple(row[FRAME_KEYS[i]] for i in parts))
        self.sites_by("type", lambda stack, via: [program.leaf_of(stack, TYPE)], lambda row: row["type"])
        self.sites_by("label", lambda stack, via: [program.leaf_of(stack, LABEL)], lambda row: row["label"])
        self.sites_by("heap", lambda stack, via: [program.heap_of(via)["name"]], lambda row: row["heap"])
        found = {row["thread"]: row["own"]["allocated_bytes"] for row in self.report("--view=sites", "--by=thread")["sites"]}
        self.equal("sites by thread", found, {
            "%s (%d)" % (program.threads[stream]["name"], program.threads[stream]["thread_id"]): sums["allocated_bytes"]
            for stream, sums in program.of_thread.items() if sums["allocated_blocks"]})

    def tree(self):
        for options, order in ((("--min=0",), reversed), (("--min=0", "--bottom-up"), list)):
            root = [Sums(), Sums(), {}]
            for (stack, _), sums in self.program.rows.items():
                path = [root]
                for frame in order(self.program.frames_of(stack)):
                    path.append(path[-1][2].setdefault(frame[:5], [Sums(), Sums(), {}]))
                for node in path:
                    node[0].include(sums)
                path[1 if order is list else -1][1].include(sums)
            self.branches("tree " + options[-1], self.report("--view=tree", *options)["root"], root)

    def branches(self, what, found, expected):
        pending = [(what, found, expected)]
        while pending:
            what, found, (total, own, children) = pending.pop()
            self.metrics(what, found, total)
            self.metrics(what + " own", found["own"], own)
            keyed = {tuple(child[key] for key in FRAME_KEYS): child for child in found["children"]}
            self.equal(what + ": children", set(keyed), {key for key, child in children.items() if any(child[0].values())})
            pending += [(key[0], child, children[key]) for key, child in keyed.items() if key in children]

    def stack_lists(self):
        for view, metric in (("leaks", "in_use_blocks"), ("peak", "peak_blocks"), ("temporary", "temporary_blocks")):
            if view == "temporary" and self.program.interval:
                continue
            expected = {}
            for (stack, via), sums in self.program.rows.items():
                if sums[metric] > 0:
                    key = (tuple(self.program.frames_of(stack)), self.program.vias[via]["name"], self.program.state_of(stack))
                    expected.setdefault(key, Sums()).include(sums)
            found = self.report("--view=" + view)
            self.rows(view, found["stacks"], expected, lambda row: (
                tuple(tuple(frame[key] for key in FRAME_KEYS) + (frame["inlined"],) for frame in row["frames"]), row["via"], row["state"]))
            self.metrics(view + " total", found["total"], total_of(expected.values()))

    def types(self):
        expected = {}
        for (stack, _), sums in self.program.rows.items():
            expected.setdefault(self.program.leaf_of(stack, TYPE), Sums()).include(sums)
        self.rows("types", self.report("--view=types")["types"], expected, lambda row: row["type"])

    def mappings(self):
        found, program, expected = self.report("--view=mappings"), self.program, {}
        for (stack, via), sums in program.mapping_rows().items():
            expected.setdefault((tuple(frame[0] for frame in program.frames_of(stack)), via), Sums()).include(sums)
        self.rows("mappings", found["mappings"], expected, lambda row: (tuple(frame["function"] for frame in row["frames"]), row["via"]))
        total = total_of(expected.values())
        self.equal("mappings: total", found["total"], {**total, "n_mappings": total["allocated_blocks"], "mapped_bytes": total["in_use_bytes"]})

    def heaps(self):
        found = self.report("--view=heaps")
        expected = {row["name"]: Sums() for row in self.program.heaps.values()}
        for (_, via), sums in self.program.rows.items():
            expected[self.program.heap_of(via)["name"]].include(sums)
        names = ("allocated_bytes", "allocated_blocks", "in_use_bytes", "in_use_blocks", "peak_bytes")
        keyed = {row["name"]: row for row in found["heaps"]}
        for name, sums in expected.items():
            if any(sums.values()) or name in keyed:
                self.equal("heap " + name, keyed[name], {key: sums[key] for key in names})
        for number, counts in self.program.collector.items():
            for what, blocks in counts.items():
                self.equal("heap: " + what, keyed[self.program.heaps[number]["name"]][what + "_blocks"], blocks)
        self.equal("heaps: mapped", sum(row["mapped_bytes"] for row in found["heaps"]), self.program.mapped)
        for memory in self.program.all("memory"):
            in_use = sum(row["in_use_bytes"] for row in found["heaps"] if row["runtime"] == "c")
            row = next(row for row in found["memory"] if row["name"] == "c")
            self.equal("memory", row, {**{key: memory[key] for key in ("reserved_bytes", "committed_bytes", "free_bytes")},
                                       "in_use_bytes": in_use, "fragmentation_bytes": memory["committed_bytes"] - in_use})

    def thread_lists(self):
        found, program = self.report("--view=threads"), self.program
        self.rows("threads", [{**row, "temporary_blocks": None} for row in found["threads"]],
                  {program.threads[stream]["thread_id"]: {key: sums[key] for key in METRICS if key.startswith(("allocated", "freed"))}
                   | ({"temporary_blocks": None} if program.interval else {}) for stream, sums in program.of_thread.items()}, lambda row: row["id"])
        expected = {tuple(program.threads[stream]["thread_id"] for stream in pair): (sums["freed_blocks"], sums["freed_bytes"])
                    for pair, sums in program.pairs.items() if pair[0] != pair[1]}
        self.equal("pairs", {(row["allocated_by"], row["freed_by"]): (row["blocks"], row["bytes"]) for row in found["pairs"]}, expected)

    def lifetimes(self):
        if self.program.interval or self.program.start_ns != START_NS:
            return
        found, expected = self.report("--view=lifetimes"), {}
        for block in self.program.blocks:
            expected.setdefault(self.program.frames_of(block.stack)[0][:2], []).append(block)
        self.equal("lifetimes: number of rows", len(found["sites"]), len(expected))
        for row in found["sites"]:
            blocks = expected.get((row["function"], row["file"]), [])
            ages = sorted(block.died_ns - block.born_ns for block in blocks if block.died_ns is not None)
            what = "lifetimes of " + row["function"]
            self.equal(what, row, {"blocks": len(blocks), "bytes": sum(block.size for block in blocks), "ended": len(ages)})
            if ages:
                self.equal(what, row["lifetime_ns"], {"min": ages[0], "max": ages[-1]})
                for name, value in (("mean", sum(ages) / len(ages)), *(("p%d" % part, ages[(len(ages) * part - 1) // 100]) for part in (50, 90, 99))):
                    if abs(row["lifetime_ns"][name] - value) > value / 32 + 1:
                        self.failures.append(f"{what}: {name} is {row['lifetime_ns'][name]}, not {value}")
        ages = [(block.died_ns - block.born_ns, block.size) for block in self.program.blocks if block.died_ns is not None]
        for step in found["histogram"]:
            sizes = [size for age, size in ages if step["from_ns"] <= age < step["to_ns"]]
            self.equal("histogram", (step["blocks"], step["bytes"]), (len(sizes), sum(sizes)))
        self.equal("histogram: all", sum(step["blocks"] for step in found["histogram"]), len(ages))

    def timeline(self):
        """Every point shows a state of the program: one at the time of the point's last event, or the last state before that time."""
        if self.program.interval:
            return
        points = self.report("--view=timeline")["points"]
        for point in points:
            time_ns = point["time_ns"] + START_NS
            last_ns = max((at for at, _ in self.program.states if at <= time_ns), default=START_NS)
            state = (point["in_use_bytes"], point["in_use_blocks"], point["allocated_bytes"])
            before = [state for at, state in self.program.states if at < last_ns][-1:]
            if state not in [state for at, state in self.program.states if at == last_ns] + before:
                self.failures.append(f"timeline: {point} is no state of the program")
        if self.program.blocks:
            self.equal("timeline: peak", max(point["in_use_bytes"] for point in points), self.program.peak[0])

    def block_list(self):
        if self.program.start_ns != START_NS:
            return
        program = self.program
        expected = [("open" if block.died_ns is None else "closed", block.size, block.born_ns - START_NS,
                     None if block.died_ns is None else block.died_ns - START_NS, program.leaf_of(block.stack, TYPE),
                     program.leaf_of(block.stack, LABEL), program.frames_of(block.stack)[0][0]) for block in program.blocks]
        expected += [("ghost", None, None, line.time_ns - START_NS, None, None, None) for line in program.ghosts]
        expected += [("inherited", None, None, line.time_ns - START_NS, None, None, None) for line in program.inherited.values()]
        found = [(row["state"], row["size"], row["allocated_ns"], row["freed_ns"], row["type"], row["label"],
                  row["stack"][0]["function"] if row["stack"] else None) for row in self.report("--view=blocks")["blocks"]]
        found, expected = Counter(found), Counter(expected)
        self.equal("blocks", found - expected, expected - found)

    # ---- function counters and collections ----

    def functions(self):
        program, rows, paths, callers = self.program, {}, {}, {}
        for tree in program.all("functions"):
            nodes = {row["node"]: row for row in program.all("calls") if row["tree"] == tree["tree"]}
            for row in nodes.values():
                path, at = [], row
                while at:
                    path.append(program.frame(at["frame"])[0])
                    at = nodes.get(at["parent"])
                counts = (row["calls"], row.get("own_words", 0), row["own_ns"])
                self.add_counts(rows, path[0], counts + (0, 0))
                self.add_counts(callers, (path[0], path[1] if len(path) > 1 else "[root]"), counts)
                for i, name in enumerate(path):
                    self.add_counts(paths, tuple(reversed(path[i:])), (counts if i == 0 else (0, 0, 0)) + counts[1:])
                    if name not in path[:i]:
                        self.add_counts(rows, name, (0, 0, 0) + counts[1:])
        found = self.report("--view=functions")
        keys = ("calls", "own_words", "own_ns", "acc_words", "acc_ns")
        self.equal("functions", {row["function"]: tuple(row[key] for key in keys) for row in found["functions"]}, rows)
        total = [sum(row[i] for row in rows.values()) for i in range(3)]
        self.equal("functions: total", [found["total"][key] for key in keys[:3]], total)
        for row in found["functions"]:
            self.equal("functions: percent of " + row["function"], row["percent"], round(100 * row["own_words"] / total[1], 2) if total[1] else 0)
        for key, count, words in (("messages", "messages", "message_words"), ("spawn_arguments", "spawns", "spawn_words"),
                                  ("profiler", "profiler_events", "profiler_words")):
            self.equal("functions: " + key, [found[key]["count"], found[key]["words"]],
                       [sum(tree.get(name, 0) for tree in program.all("functions")) for name in (count, words)])
        pending = [((), child) for child in self.report("--view=functions", "--tree", "--min=0")["root"]["children"]]
        while pending:
            path, node = pending.pop()
            path += (node["function"],)
            self.equal(f"functions by path {path}", tuple(node[key] for key in keys), paths.pop(path, None))
            pending += [(path, child) for child in node["children"]]
        self.equal("functions by path, not found", paths, {})
        for function in rows:
            found = self.report("--view=functions", "--callers=" + function)["callers"]
            self.equal("callers of " + function, {row["function"]: (row["calls"], row["words"]) for row in found},
                       {caller: counts[:2] for (callee, caller), counts in callers.items() if callee == function})

    @staticmethod
    def add_counts(sums, key, counts):
        sums[key] = tuple(a + b for a, b in zip(sums.get(key, (0,) * len(counts)), counts))

    def collections(self):
        program, rows, causes = self.program, self.program.all("gc"), {}
        found = self.report("--view=gc")
        fields = (("pause_ns", 1), ("heap_before_bytes", 2), ("heap_after_bytes", 2), ("needed_bytes", 4), ("promoted_bytes", 8))
        self.equal("gc", [[row["start_ns"]] + [row[name] for name, _ in fields] for row in found["collections"]],
                   [[row["start_ns"] - START_NS] + [row.get(name, 0) if row["known"] & flag else None for name, flag in fields] for row in rows])
        for row in rows:
            cause = program.frame(row["frame"])[0] if row.get("frame") else program.frames_of(row["stack"])[0][0] if row.get("stack") else None
            promoted = row["promoted_bytes"] if row["known"] & 8 else 0 # these bytes left the young generation, but are no garbage
            reclaimed = row["heap_before_bytes"] - row["heap_after_bytes"] - promoted if row["known"] & 2 else 0
            self.add_counts(causes, cause, (1, row.get("needed_bytes", 0), reclaimed, row.get("pause_ns", 0)))
        keys = ("collections", "bytes", "reclaimed_bytes", "pause_ns")
        self.equal("gc: blame", {row["function"]: tuple(row[key] for key in keys) for row in found["blame"]}, causes)
        for row in self.report()["gc"]:
            pauses = [gc.get("pause_ns", 0) for gc in rows if gc["runtime"] == row["runtime"]]
            self.equal("gc of " + row["runtime"], [row["collections"], row["pause_total_ns"], row["pause_max_ns"]],
                       [len(pauses), sum(pauses), max(pauses)])


def process_tree(allogram):
    """Compares --view=process_tree with the description of its processes. Returns what is wrong."""
    parents = {"make": None, "sh-cc": "make", "cc": "sh-cc", "as": "cc", "sh-daemon": "make", "daemon": "sh-daemon", "ld": "make", "other": None,
               "sampled": "make"}
    files = {trace.name[len("family-"):]: trace.name + ".allogram" for trace in report_traces.FAMILY}
    outcome = subprocess.run([allogram, "report", *files.values(), "--view=process_tree", "--json"], capture_output=True, check=True)
    report = json.loads(outcome.stdout)
    rows = {row["file"]: row for row in report["processes"]}
    failures = []

    def expect(what, found, expected):
        if found != expected:
            failures.append("%s: %s, not %s" % (what, found, expected))

    expect("processes", sorted(rows), sorted(files[name] for name in parents))
    expect("numbers of processes, programs, repeated traces", [report["total"]["processes"], report["total"]["programs"], report["repeated_traces"]],
           [len(parents) - 1, len(parents), 1])
    own = {}
    for trace in report_traces.FAMILY:
        program = Program(trace)
        own[trace.name + ".allogram"] = Sums(program.total)
        own[trace.name + ".allogram"].update(peak_bytes=program.peak[0], peak_blocks=program.peak[1])
    all_sums = {files[name]: Sums() for name in parents}
    for name in parents:
        row, ancestor = rows[files[name]], name
        expect(name + ": parent", row["parent_file"], files.get(parents[name]))
        expect(name + ": executed by its parent", row["was_executed"], name == "cc")
        while ancestor is not None:
            all_sums[files[ancestor]].include({metric: row[metric] or 0 for metric in METRICS})
            ancestor = parents[ancestor]
        if name != "sampled":
            expect(name + ": sums", {metric: row[metric] for metric in METRICS}, dict(own[files[name]]))
    for name in parents:
        if name not in ("sampled", "make"):  # of samples, it is not known which blocks were temporary
            expect(name + ": sums with descendants", {metric: rows[files[name]]["with_descendants"][metric] or 0 for metric in METRICS if metric != "temporary_blocks"},
                   {metric: all_sums[files[name]][metric] for metric in METRICS if metric != "temporary_blocks"})
    return failures


def identified_parents(allogram):
    """Processes of different PID namespaces have the same pids. The identities in their traces name their parents. Returns what is wrong."""
    parents = {"starter": None, "fork-a": "starter", "fork-b": "starter", "init-a": "fork-a", "init-b": "fork-b", "work-a": "init-a", "work-b": "init-b",
               "orphan": None}
    files = {trace.name[len("containers-"):]: trace.name + ".allogram" for trace in report_traces.CONTAINERS}
    outcome = subprocess.run([allogram, "report", *reversed(files.values()), "--view=process_tree", "--json"], capture_output=True, check=True)
    found = {row["file"]: (row["parent_file"], row["was_executed"], int(row["identity"], 16)) for row in json.loads(outcome.stdout)["processes"]}
    expected = {files[name]: (files.get(parent), name.startswith("init"), number) for number, (name, parent) in enumerate(parents.items(), 1)}
    return ["%s: %s, not %s" % (name, found[name], expected[name]) for name in expected if found[name] != expected[name]]


def main():
    allogram, folder = sys.argv[1:]
    sys.setrecursionlimit(10000)  # a tree of 600 frames
    allogram = os.path.abspath(allogram)
    os.chdir(folder)
    checks = [Check(allogram, trace, Program(trace)) for trace in report_traces.ALL if not any(line.time_ns is None for line in trace.lines)]
    tests = [(check, view) for check in checks for view in (
        Check.summary, Check.sites, Check.tree, Check.stack_lists, Check.types, Check.heaps, Check.mappings, Check.thread_lists, Check.lifetimes, Check.timeline,
        Check.block_list, Check.functions, Check.collections)]
    print("1..%d" % (len(tests) + 2))
    for number, (check, view) in enumerate(tests, 1):
        check.failures = []
        view(check)
        print("ok" if not check.failures else "not ok", number, check.trace.name, view.__name__)
        for failure in check.failures[:20]:
            print("#", failure)
    for number, of_tree in enumerate((process_tree, identified_parents), len(tests) + 1):
        failures = of_tree(allogram)
        print("ok" if not failures else "not ok", number, of_tree.__name__)
        for failure in failures:
            print("#", failure)


if __name__ == "__main__":
    main()
