"""Compares the counts of a torture program (see run_torture.py) with its traces.

The program's counts (the truth) are in the file that host/truth.h describes. A site is a function of the program that allocates; its number is
part of its name. `allogram dump` prints every event of a trace with its stack. The site of an event is the innermost frame of the stack that is
not in a library. This file finds the name of that frame with readelf, so the comparison does not depend on allogram's symbolizer. `allogram check`
reports damage and losses; `allogram report` is used only for losses.

Each process allocates one block at site 30, the mark. Its size is 4096 + the number of the process, so it shows to which process a trace belongs.
"""

import functools
import json
import re
import resource
import struct
import subprocess

HEADER_BYTES, PROCESSES, SITES = 65536, 4096, 96
PROCESS_BYTES = 16 + SITES * 48
TRUTH_BYTES = HEADER_BYTES + PROCESSES * PROCESS_BYTES
MARK_SITE, MARK_BYTES = 30, 4096
OTHER_PROGRAM = "/bin/true"  # executed by the act vfork
FRAMES_OF_LIBRARIES = 3
SITE_NAME = re.compile(r"(?:^|_)site_(\d+)(?:_|\.|$)")


class Counts:
    """The counts of one site in one process: blocks, bytes and frees, each as [least, most]."""

    def __init__(self, blocks, n_bytes, frees):
        self.blocks, self.bytes, self.frees = sorted(blocks), sorted(n_bytes), sorted(frees)


class TrueProcess:
    def __init__(self, number, pid, is_executed, sites):
        self.number, self.pid, self.is_executed, self.sites = number, pid, is_executed, sites


def read_truth(path):
    """Returns all processes with at least one count."""
    with open(path, "rb") as file:
        n = struct.unpack("<I", file.read(4))[0]
        if n > PROCESSES:
            raise OverflowError("more processes than the file of counts holds")
        file.seek(HEADER_BYTES)
        data = file.read(n * PROCESS_BYTES)
    found = []
    for number in range(n):
        at = number * PROCESS_BYTES
        pid, is_executed = struct.unpack_from("<II", data, at)
        words = struct.unpack_from("<%dQ" % (SITES * 6), data, at + 16)
        sites = {}
        for site in range(SITES):
            six = words[site * 6 : site * 6 + 6]
            if any(six):
                six = [value - (1 << 64) if value >> 63 else value for value in six]
                sites[site] = Counts(six[0:2], six[2:4], six[4:6])
        if sites:
            found.append(TrueProcess(number, pid, bool(is_executed), sites))
    return found


def _header(path):
    """Returns the words is_running and n_others of the file of counts."""
    with open(path, "rb") as file:
        return struct.unpack("<4I", file.read(16))[2:]


def was_running(path):
    return _header(path)[0] == 1


def others_without_trace(path, traces):
    """Returns how many executions of OTHER_PROGRAM have no trace. That program has no counts; if it is recorded, it has a trace."""
    return _header(path)[1] - sum(1 for trace in traces if trace.recorded.program.endswith(OTHER_PROGRAM))


# ---- traces ----


@functools.lru_cache(maxsize=512)
def functions_of(path):
    """Returns [(low address, high address, site or None)] of the functions of a program or library, sorted."""
    lines = subprocess.run(["readelf", "-W", "--symbols", path], capture_output=True, text=True, check=False).stdout.splitlines()
    found = set()
    for line in lines:
        fields = line.split() # number, value, size, type, binding, visibility, section, name
        if len(fields) >= 8 and fields[3] == "FUNC" and fields[6] != "UND" and fields[2] != "0":
            match = SITE_NAME.search(fields[7])
            low = int(fields[1], 16)
            found.add((low, low + int(fields[2], 0), int(match[1]) if match else None))
    return sorted(found, key=lambda row: row[:2])


@functools.lru_cache(maxsize=65536)
def site_at(path, offset):
    for low, high, site in functions_of(path):
        if low <= offset < high:
            return site
    return None


class Recorded:
    """The counts of a trace: blocks and bytes of each site, blocks in use, and the number of addresses with impossible numbers of events."""

    def __init__(self):
        self.sites = {}
        self.in_use = {}  # site: number of blocks in use at the end
        # Addresses with too many allocations for their frees, or too many frees. If the trace has one stream, the order of all events is known:
        # then also addresses that were allocated or freed twice in a row.
        self.odd_addresses = 0
        self.n_events = 0
        self.number = None  # the number of the process, from its mark
        self.program = ""  # the path of the executed file
        self.n_without_stack = self.n_frees = self.n_threads = 0


FIELD = re.compile(r"(\w+)=(\"[^\"]*\"|\S+)")


def read_dump(text, ours):
    """Reads the output of `allogram dump`. `ours(path)`: whether the program or library has sites."""
    recorded = Recorded()
    images, nodes = {}, {}
    events, streams = [], set()
    for line in text.splitlines(): # time, stream, kind, fields; definitions may follow the events that refer to them
        stream, _, rest = line.partition(" ")[2].partition(" ")
        kind, _, rest = rest.partition(" ")
        if kind in ("alloc", "free", "realloc_free", "undo_free"):
            events.append((kind, rest))
            streams.add(stream)
        elif kind == "image_load":
            fields = dict(FIELD.findall(rest))
            path = fields["path"].strip('"')
            images[fields["image"]] = (path, int(fields["bias"], 16)) if ours(path) else None
        elif kind == "process":
            recorded.program = dict(FIELD.findall(rest))["exe"].strip('"')
        elif kind == "thread":
            recorded.n_threads += 1
        elif kind == "nodes":
            fields = dict(FIELD.findall(rest))
            nodes[fields["id"]] = (int(fields["pc"], 16), fields.get("image"), fields.get("parent"))
    _read_events(recorded, events, {number: _site_of_stack(number, nodes, images) for number in nodes})
    if len(streams) == 1:
        recorded.odd_addresses = max(recorded.odd_addresses, _n_out_of_turn(events))
    return recorded


def _site_of_stack(number, nodes, images):
    """Returns the site that allocated, directly or through a function of a library (strdup, operator new)."""
    for _ in range(1 + FRAMES_OF_LIBRARIES):
        if number not in nodes:
            return None
        pc, image_number, number = nodes[number]
        image = images.get(image_number)
        if image:
            return site_at(image[0], pc - 1 - image[1])
    return None


def _n_out_of_turn(events):
    """Returns the number of addresses whose events do not alternate. The first event of an address may be the free of a block that was allocated
    before the recording."""
    is_live, odd = {}, set()
    for kind, rest in events:
        address = rest[8:].split(" ")[0]
        becomes_live = kind in ("alloc", "undo_free")
        if is_live.get(address, not becomes_live) == becomes_live:
            odd.add(address)
        is_live[address] = becomes_live
    return len(odd)


def _read_events(recorded, events, sites):
    balance, owner, foreign = {}, {}, set()
    for kind, rest in events:
        recorded.n_events += 1
        if kind == "undo_free": # a realloc that was refused
            address = rest[8:].split(" ")[0]
            balance[address] = balance.get(address, 0) + 1
            continue
        if kind != "alloc":
            address = rest[8:].split(" ")[0]
            recorded.n_frees += 1
            if address not in balance:
                foreign.add(address)
            balance[address] = balance.get(address, 0) - 1
            continue
        parts = rest.split(" ")
        address, size, stack = parts[0][8:], int(parts[1][5:]), parts[2][6:]
        site = sites.get(stack)
        recorded.n_without_stack += stack == "0"
        balance[address] = balance.get(address, 0) + 1
        owner[address] = site
        if site is not None:
            counts = recorded.sites.setdefault(site, [0, 0])
            counts[0] += 1
            counts[1] += size
            if site == MARK_SITE:
                recorded.number = size - MARK_BYTES
    # With several threads the dump does not show which event of an address came first, so the first may be a free.
    is_open = recorded.n_threads > 1
    for address, n in balance.items():
        if n not in ((-1, 0, 1) if is_open or address in foreign else (0, 1)):
            recorded.odd_addresses += 1
        if n == 1 and owner.get(address) is not None:
            recorded.in_use[owner[address]] = recorded.in_use.get(owner[address], 0) + 1


def _cpu_of_children():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Trace:
    """A trace, read by commands of allogram. `faults`: messages about commands that failed, were too slow, or reported damage."""

    def __init__(self, allogram, path, ours, timeout):
        self.allogram, self.path, self.timeout = allogram, path, timeout
        self.faults, self.lost, self.recorded = [], 0, Recorded()
        check = self._ask([allogram, "check", "--json", path], timeout)
        checked = json.loads(check or "{}")
        if check is not None and not checked.get("whole"):
            self.faults.append("check: not whole: " + check.strip()[:200])
        self.lost = checked.get("lost_events", {}).get("total", 0)
        dump = self._ask([allogram, "dump", path], timeout)
        if dump is not None:
            self.recorded = read_dump(dump, ours)

    def _ask(self, command, timeout):
        before = _cpu_of_children()
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=10 * timeout, check=False, errors="replace")
        except subprocess.TimeoutExpired:
            self.faults.append("%s: more than %d s" % (command[1], 10 * timeout))
            return None
        if _cpu_of_children() - before > timeout: # CPU time, which does not depend on other load of the machine
            self.faults.append("%s: more than %d s of CPU" % (command[1], timeout))
        if done.returncode != 0:
            self.faults.append("%s: status %d: %s" % (command[1], done.returncode, (done.stderr or done.stdout).strip()[:200]))
        return done.stdout

    @functools.cached_property
    def summary(self):
        """Returns the output of `allogram report`. It is used only for one trace of a run and for traces that differ, because `report` takes half of
        the time of a comparison."""
        text = self._ask([self.allogram, "report", "--json", self.path], self.timeout)
        return json.loads(text) if text else {}

    @property
    def says_loss(self):
        """Whether the trace itself reports a loss."""
        if self.lost > 0:
            return True
        missing = self.summary.get("missing") or {}
        return any(missing.values())


def _compare_parts(trues, traces):
    """Compares traces that contain only a part of the events. Returns the sites for which all traces together have more blocks than the program
    counted."""
    most, recorded = {}, {}
    for true in trues:
        for site, counts in true.sites.items():
            most[site] = most.get(site, 0) + counts.blocks[1]
    for trace in traces:
        for site, (blocks, _) in trace.recorded.sites.items():
            recorded[site] = recorded.get(site, 0) + blocks
    return ["site %d: %d blocks in all traces, the program counted %d" % (site, n, most.get(site, 0))
            for site, n in sorted(recorded.items()) if n > most.get(site, 0)]


def differences(true, recorded):
    """Returns the differences between the counts of a process and its trace."""
    found = []
    for site, counts in sorted(true.sites.items()):
        blocks, n_bytes = recorded.sites.get(site, [0, 0])
        least, most = counts.blocks
        if blocks > most or n_bytes > counts.bytes[1] or blocks < least or n_bytes < counts.bytes[0]:
            found.append("site %d: %d blocks of %d bytes in the trace, the program counted %s of %s" % (
                site, blocks, n_bytes, _range(counts.blocks), _range(counts.bytes)))
        elif recorded.n_threads <= 1: # with several threads, the last block at an address is not known
            in_use = recorded.in_use.get(site, 0)
            low, high = least - counts.frees[1], most - counts.frees[0]
            if not low <= in_use <= high:
                found.append("site %d: %d blocks in use at the end of the trace, the program counted %s" % (
                    site, in_use, _range([low, high])))
    n_frees = sum(counts.frees[0] for counts in true.sites.values())
    if recorded.n_frees < n_frees:
        found.append("%d frees in the trace, the program counted %d" % (recorded.n_frees, n_frees))
    for site in sorted(set(recorded.sites) - set(true.sites)):
        found.append("site %d: %d blocks in the trace, none counted" % (site, recorded.sites[site][0]))
    return found


def _range(pair):
    return str(pair[0]) if pair[0] == pair[1] else "%d to %d" % tuple(pair)


def compare(trues, traces, is_part=False, may_miss_programs=False):
    """Compares all processes of a run with their traces. Returns the findings and the number of reported losses. A difference is a reported loss
    and no finding if the trace itself reports a loss. An executed program without a trace is a reported loss, too, if `run` reports that
    programs could not be recorded (may_miss_programs)."""
    if is_part:
        return _compare_parts(trues, traces), 0
    findings, n_reported = [], 0
    by_number = {}
    for trace in traces:
        number = trace.recorded.number
        if number is not None:
            by_number.setdefault(number, []).append(trace)
        elif trace.recorded.sites:
            by_number.setdefault(None, []).append(trace)
    for true in trues:
        candidates = by_number.pop(true.number, [])
        if len(candidates) > 1:
            findings.append("process %d: %d traces have the mark of this process" % (true.number, len(candidates)))
        trace = candidates[0] if candidates else None
        if trace is None:
            trace = _unmarked(true, by_number)
        if trace is None:
            counted = sum(counts.blocks[0] for counts in true.sites.values())
            if counted > 0 and may_miss_programs and true.is_executed:
                n_reported += 1
            elif counted > 0:
                findings.append("process %d (pid %d) has no trace, but counted %d blocks" % (true.number, true.pid, counted))
            continue
        different = differences(true, trace.recorded)
        if different and trace.says_loss:
            n_reported += 1
            continue
        findings += ["process %d: %s" % (true.number, text) for text in different]
        if trace.recorded.odd_addresses and not different and not trace.says_loss:
            findings.append("process %d: %d addresses allocated or freed twice in a row" % (
                true.number, trace.recorded.odd_addresses))
    for number, left in by_number.items():
        for trace in left:
            findings.append("a trace of no process of the program (mark %s): %s" % (number, dict(list(trace.recorded.sites.items())[:5])))
    return findings, n_reported


def _unmarked(true, by_number):
    """Of the traces without a mark, finds the one that differs least from the counts of the process. Returns it if it has a site in common with the
    counts, otherwise None."""
    left = by_number.get(None, [])
    best = min(left, key=lambda trace: len(differences(true, trace.recorded)), default=None)
    if best is not None and set(best.recorded.sites) & set(true.sites):
        left.remove(best)
        if not left:
            by_number.pop(None, None)
        return best
    return None
