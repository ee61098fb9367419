#!/usr/bin/env python3
"""report_traces ASSEMBLER FOLDER: describes the traces of the report tests, and writes them with assemble_trace to FOLDER/NAME.allogram.

Each trace is a list of lines, as `allogram dump` prints them. report_sums.py reads the same list, and computes from it what the reports must show.
Times are in ms since the start of the process's recording, which is START_NS after the start of the session (`allogram run`). All events of a
moment are between two stamps (records of the time) that are RESOLUTION_NS apart.
"""

import subprocess
import sys

START_NS = 1000000
KIB, MIB = 1 << 10, 1 << 20
CUT, NOT_KEPT = 2, 3  # stacks that are not nodes, and parents of nodes: enum ag_root
MANAGED, TYPE, LABEL = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD  # images of nodes that are not code of a file
MALLOC, REALLOC, NEW, MMAP = 0, 1, 2, 3  # vias: numbers of allocation functions


class Line:
    def __init__(self, time_ns, stream, kind, fields):
        self.time_ns, self.stream, self.kind, self.fields = time_ns, stream, kind, fields

    def __str__(self):
        seconds = "-" if self.time_ns is None else "%d.%09d" % divmod(self.time_ns, 10**9)
        stream = "-" if self.stream is None else str(self.stream)
        return " ".join([seconds, stream, self.kind] + [name + "=" + quoted(value) for name, value in self.fields.items()])


def quoted(value):
    """A number, or a text in which quotes, backslashes and all bytes but printable ASCII are escaped."""
    if isinstance(value, int):
        return str(value)
    data = value if isinstance(value, bytes) else value.encode()
    return '"%s"' % "".join(chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else "\\x%02x" % byte for byte in data)


class Trace:
    resolution_ns = 1000

    def __init__(self, name, command=("jq", "length", "big.json"), exe="/usr/bin/jq", **process):
        self.name, self.lines = name, []
        self.record("process", pid=4711, depth=256, start_ns=START_NS, exe=exe, n_arguments=len(command),
                    command=b"".join((word if isinstance(word, bytes) else word.encode()) + b"\0" for word in command), **process)

    def record(self, kind, /, **fields):
        self.lines.append(Line(START_NS, None, kind, fields))

    def index(self, kind, /, **fields):
        self.lines.append(Line(None, None, kind, fields))

    def heap(self, number, name, allocator, runtime, vias, **more):
        self.record("heap", heap=number, name=name, allocator=allocator, runtime=runtime, **more)
        for via, function in vias.items():
            self.record("via", via=via, heap=number, name=function)

    def frames(self, frames):
        for number, (function, file, line, runtime) in frames.items():
            self.record("frame", frame=number, line=line, runtime=runtime, function=function, file=file)

    def node(self, number, parent, frame=None, line=0, pc=0, image=0):
        if frame is not None:
            pc, image = frame | line << 24, MANAGED
        self.record("nodes", id=number, parent=parent, pc=pc, image=image)

    def moment(self, ms, *events, stream=1):
        """Each event is (kind, address), ("alloc", address, size, stack[, via]) or (kind, {field: value})."""
        begin_ns = START_NS + round(ms * 1000000)
        for kind, *what in events:
            fields = what[0] if isinstance(what[0], dict) else dict(zip(("address", "size", "stack", "via"), what))
            self.lines.append(Line(begin_ns, stream, kind, fields))
        self.lines.append(Line(begin_ns + self.resolution_ns, stream, "stamp", {}))

    def resident(self, step_ms, sizes_mib):
        for i, mib in enumerate(sizes_mib):
            self.record("resident", time_ns=START_NS + i * step_ms * 1000000, bytes=mib * MIB)

    def end(self, ms, how=1, known=1, **more):
        self.record("end", how=how, wait_status_known=known, time_ns=START_NS + ms * 1000000, **more)


# ---- the stacks of jq ----

VECTOR = ("std::vector<std::pair<std::__cxx11::basic_string<char>, int>, std::allocator<std::pair<std::__cxx11::basic_string<char>, int> > >::"
          "_M_realloc_insert(std::pair<std::__cxx11::basic_string<char>, int>&&)")
STRING, PAIRS, UNKNOWN, OTHER_STRING, SCRIPT = 28, 30, 24, 27, 32  # stacks of allocations


def define_jq(trace):
    trace.record("thread", stream=1, thread_id=4711, name="jq")
    trace.record("runtime", hooked=1, name="libc", version="2.36")
    trace.record("runtime", hooked=1, name="lua", version="5.4", reported=3, counted=4)
    trace.heap(0, "malloc", "glibc", "c", {MALLOC: "malloc", REALLOC: "realloc"})
    trace.heap(1, "tables", "lua", "lua", {NEW: "new"})
    trace.heap(2, "mappings", "kernel", "c", {MMAP: "mmap"}, is_backing=1)
    trace.record("image_load", image=1, low=0x1000, high=0x2000, path="/nowhere/libunknown.so")
    trace.frames({1: ("jv_mem_alloc", "/build/jq-1.6/src/jv_alloc.c", 144, "c"), 2: ("jv_string_new", "/build/jq-1.6/src/jv.c", 412, "c"),
                  3: ("stream_token", "/build/jq-1.6/src/jv_parse.c", 118, "c"), 4: ("jv_parser_next", "/build/jq-1.6/src/jv_parse.c", 700, "c"),
                  5: ("process", "/build/jq-1.6/src/main.c", 170, "c"), 6: ("main", "/build/jq-1.6/src/main.c", 400, "c"),
                  7: ("__libc_start_call_main", "", 0, "c"), 8: (VECTOR, "/usr/include/c++/12/bits/vector.tcc", 459, "c"),
                  9: ("build", "script.lua", 10, "lua")})
    for pc in (0x7000, 0x7008):  # two calls on one line: two stacks for the recorder, one for the reader
        trace.record("code", pc=pc, place=0, n_places=2, frame=3, line=118)
        trace.record("code", pc=pc, place=1, n_places=2, frame=4, line=700)
    trace.node(16, 0, frame=7)
    trace.node(17, 16, frame=6)
    trace.node(18, 17, frame=5)
    trace.node(19, 18, pc=0x7000)
    trace.node(20, 19, frame=2)
    trace.node(21, 20, frame=1)
    trace.node(22, 18, frame=4)
    trace.node(23, 22, frame=8)
    trace.node(24, 17, pc=0x1235, image=1)
    trace.node(25, 18, pc=0x7008)
    trace.node(26, 25, frame=2)
    trace.node(27, 26, frame=1)
    trace.node(28, 21, pc=1, image=TYPE)
    trace.node(29, 23, pc=2, image=TYPE)
    trace.node(30, 29, pc=1, image=LABEL)
    trace.node(32, 17, frame=9, line=12)
    trace.record("type", type=1, name="jv_string", runtime="c")
    trace.record("type", type=2, name="std::vector<std::pair<std::string, int>>", runtime="c")
    trace.record("label", label=1, name="request 17")


def jq():
    """Temporary strings, a vector that doubles and holds half of the peak, two outsized tables, a free of an unknown block, a mapping, the sizes of a
    heap's memory."""
    trace = Trace("jq")
    define_jq(trace)
    trace.record("profiler", rss_bytes=9 * MIB, cpu_ns=400000000, target_cpu_ns=1500000000)
    trace.record("memory", heap=0, known=3, time_ns=START_NS + 1600000000, reserved_bytes=232 * MIB, committed_bytes=231 * MIB, free_bytes=230 * MIB)
    trace.resident(40, [17 + 11 * min(i + 1, 15, 40 - i) for i in range(40)])
    trace.moment(1, ("map", {"address": 0x7F0000000000, "bytes": 240 * MIB, "stack": UNKNOWN, "via": MMAP}))
    trace.moment(5, ("alloc", 0x1000, 24, STRING), ("free", 0x1000))
    trace.moment(6, ("alloc", 0x2000, 4096, PAIRS), ("alloc", 0x3000, 32, UNKNOWN))
    trace.moment(7, ("alloc", 0x4000, 0, OTHER_STRING))
    trace.moment(8, ("free", {"address": 0x10, "stack": 23}), *[("alloc", 0x5000 + 64 * i, 64, SCRIPT, NEW) for i in range(20)])
    trace.moment(9, ("alloc", 0x50000000, 25 * MIB, SCRIPT, NEW), ("alloc", 0x58000000, 8 * MIB, SCRIPT, NEW),
                 *[("free", 0x5000 + 64 * i) for i in (0, *range(10, 20))])
    for i in range(100):
        trace.moment(10 + 5 * i, *[event for _ in range(120) for event in (("alloc", 0x1000, 100, STRING), ("free", 0x1000))])
    place, size = 0x10000000, MIB
    trace.moment(510, ("alloc", place, size, PAIRS, REALLOC))
    while size < 64 * MIB:
        trace.moment(510 + 3 * size // MIB, ("realloc_free", place), ("alloc", place + size, 2 * size, PAIRS, REALLOC))
        place, size = place + size, 2 * size
    for i in range(62):
        trace.moment(620 + 5 * i, ("alloc", 0x20000000 + i * MIB, MIB, PAIRS), ("alloc", 0x30000000 + i * MIB, MIB, STRING))
    trace.moment(928, ("free", {"address": 0x2000, "stack": 23}), ("free", 0x3000))
    trace.moment(930, *[("alloc", 0x40000000 + i * MIB, MIB, STRING) for i in range(26)])
    trace.moment(1200, ("free", place), *[("free", base + i * MIB) for i in range(62) for base in (0x20000000, 0x30000000)])
    trace.moment(1300, ("free", 0x50000000), ("free", 0x58000000))
    trace.moment(1400, *[("free", 0x40000000 + i * MIB) for i in range(26)])
    trace.moment(1500, ("alloc", 0x6000, 32 * KIB, STRING), ("alloc", 0x10000, 32 * KIB, STRING), ("alloc", 0x20000, 16 * KIB, PAIRS, REALLOC))
    trace.end(1600)
    return trace


def threads():
    """A leak, a block that grows by steps of 64 bytes, and blocks that another thread frees; at 1100 ms the two threads race for the peak."""
    trace = Trace("threads")
    trace.resolution_ns = 4000
    define_jq(trace)
    trace.record("thread", stream=2, thread_id=4712, name="worker")
    trace.moment(1, ("alloc", 0x100000, 64, PAIRS, REALLOC))
    for i in range(320):
        if i < 200:
            trace.moment(2 + 3 * i, ("realloc_free", 0x100000), ("alloc", 0x100000, 64 * (i + 2), PAIRS, REALLOC))
        trace.moment(3 + 3 * i, ("alloc", 0x200000 + 4096 * i, 3277, STRING), *[("alloc", 0x1000 + 64 * j, 48, UNKNOWN) for j in range(6)])
        trace.moment(4 + 3 * i, *[("free", 0x1000 + 64 * j) for j in range(6)], stream=2)
    trace.moment(1100, ("alloc", 0x700000, 64 * KIB, SCRIPT), ("free", 0x700000))
    trace.moment(1100.001, ("alloc", 0x800000, 32 * KIB, SCRIPT), ("free", 0x800000), stream=2)
    trace.end(1200, how=2, wait_status=11)
    return trace


HOSTILE = b"evil\x1b[31m\nname\xff\xe2\x80\xae\""


def hostile():
    """Names that could act on a terminal, and an index with the largest numbers, which do not follow from the events."""
    trace = Trace("hostile", ("./a\x1b[2Jb", b"\xc3\x28", 'quote"back\\slash'), "/tmp/a\x1b[2Jb")
    trace.record("thread", stream=1, thread_id=4711, name="evil\x1b]0;thread\a")
    trace.record("runtime", name="jemalloc", version="5.3", note="inside the executable\x1b[1m")
    trace.record("image_load", image=1, low=0x1000, high=0x2000, path=b"/nowhere/\x1b[5mlibunknown.so")
    trace.record("image_load", image=2, low=0x3000, high=0x4000, path=b"/nowhere/\xc2\x9b31m.so")
    trace.heap(0, "mal\x1bloc", "gl\x1bibc", "c", {MALLOC: "mal\x1bloc"})
    trace.frames({1: (HOSTILE, "/tmp/\x1b]0;owned\x07.c", 7, "c"), 2: ("lists:map/2", "lists.erl", 1594, "be\x1bam")})
    trace.node(16, 0, pc=0x1235, image=1)
    trace.node(17, 16, pc=0x3001, image=2)
    trace.node(18, 17, frame=2)
    trace.node(19, 18, frame=1)
    trace.node(20, 19, pc=1, image=TYPE)
    trace.node(21, 20, pc=1, image=LABEL)
    trace.record("type", type=1, name=b"evil\x1b[31m\ntype<\xff>", runtime="c")
    trace.record("label", label=1, name="evil\x1b[31m\nlabel")
    trace.moment(1, *[("alloc", 0x1000 + 64 * i, 48, 21) for i in range(1000)])
    trace.moment(2, *[("alloc", 0x10000000 << i, MIB << i, 21) for i in range(3)], ("free", 0x1000), ("free", 0x10))
    trace.end(1600, how=3)
    most, half = (1 << 64) - 1, 1 << 63
    trace.index("summary", duration_ns=1600000000, time_resolution_ns=1000, allocated_blocks=most, allocated_bytes=most, freed_blocks=half,
                freed_bytes=half, in_use_blocks=half - 1, in_use_bytes=half - 1, peak_blocks=most, peak_bytes=most, peak_time_ns=START_NS + 930000000,
                peak_low_bytes=most, peak_high_bytes=most, temporary_blocks=most, ghost_frees=most, unique_stacks=most, truncated_stacks=most,
                incomplete_stacks=most, threads=most, order_repairs=most, rss_peak_bytes=most, events=5000000)
    trace.index("stack_sums", stack=21, via=0, allocated_blocks=most, allocated_bytes=most, freed_blocks=half, freed_bytes=half,
                peak_blocks=most, peak_bytes=most, temporary_blocks=most)
    trace.index("thread_sums", stream=1, thread_id=4711, allocated_blocks=most, allocated_bytes=most, freed_blocks=most, freed_bytes=most)
    trace.index("heap_sums", heap=0, allocated_blocks=most, allocated_bytes=most, in_use_bytes=half - 1, in_use_blocks=half - 1, peak_bytes=most,
                mapped_bytes=most)
    trace.index("thread_pairs", allocated_by=1, freed_by=2, blocks=most, bytes=most)
    for i in range(40):
        part = most // 40 * (i + 1)
        trace.index("timeline", time_ns=START_NS + i * 40000000, in_use_bytes=part, in_use_blocks=most, allocated_bytes=part, rss_bytes=most)
    return trace


def lost():
    """A recording with a filter, which stopped before the program ended and has lost events and stacks."""
    trace = Trace("lost")
    define_jq(trace)
    trace.record("filter", expression="size>=8,type=jv_*")
    trace.record("undecided", via=NEW)
    trace.record("lost", cause=0, events=1234)
    trace.record("lost", cause=2, events=1000000)
    trace.node(33, 1, frame=6)
    trace.moment(1, ("alloc", 0x1000, 100, STRING), ("alloc", 0x2000, 200, NOT_KEPT), ("alloc", 0x3000, 300, 33))
    trace.moment(2, ("free", 0x2000))
    trace.end(10, how=4, known=0)
    return trace


def empty():
    trace = Trace("empty")
    trace.record("runtime", hooked=1, name="libc", version="2.36")
    trace.end(1600)
    return trace


def deep():
    """A stack of 600 recursive frames, which the recorder cut off. The recording was reset at 2 ms."""
    trace = Trace("deep", command=())
    trace.record("thread", stream=1, thread_id=4711, name="recursion")
    trace.heap(0, "malloc", "glibc", "c", {MALLOC: "malloc"})
    trace.frames({1: ("recurse", "/src/recursion.c", 12, "c"), 2: ("main", "/src/recursion.c", 40, "c")})
    for i in range(600):
        trace.node(16 + i, 15 + i if i else CUT, frame=1 if i else 2)
    trace.moment(1, ("alloc", 0x1000, 7, 615))
    trace.moment(2, ("reset", 0))
    trace.moment(3, *[("alloc", 0x2000 + 16 * i, 16, 615) for i in range(3)], ("free", 0x1000))
    trace.end(10, wait_status=256)
    return trace


ENCODE, SETELEMENT, CONNECTION, NONCE = 1, 2, 3, 4
YOUNG, OLD = 4, 5  # heaps with an address space of their own, whose number is in the bits from 48 of an address


def forum():
    """Function counters and collections of a virtual machine, and a heap of blocks that it moves and collects."""
    trace = Trace("forum", ("erl", "-run", "forum"), "/usr/lib/erlang/bin/beam.smp")
    trace.record("thread", stream=1, thread_id=4711, name="scheduler")
    trace.record("runtime", hooked=1, name="beam", version="25")
    trace.heap(YOUNG, "young", "beam", "beam", {YOUNG: "new"}, kind=1, unit="words")
    trace.heap(OLD, "old", "beam", "beam", {OLD: "new"}, kind=2)
    trace.frames({ENCODE: ("tls_record_1_3:encode_tls_cipher_text/2", "tls_record_1_3.erl", 61, "beam"),
                  SETELEMENT: ("erlang:setelement/3", "", 0, "beam"), CONNECTION: ("tls_sender:connection/3", "tls_sender.erl", 233, "beam"),
                  NONCE: (b"ssl_cipher:nonce\x1b[2J/1", "ssl_cipher.erl", 7, "beam")})
    trace.node(16, 0, frame=CONNECTION)
    trace.node(17, 16, frame=SETELEMENT)
    functions = {"epoch": 1, "word_bytes": 8, "runtime": "beam", "snapshot": 1}
    trace.record("functions", tree=1, n_calls=3, time_ns=START_NS, messages=900000, message_words=12100000, spawns=12, spawn_words=3120,
                 process="tls_sender\x1b[1m", initial_call="proc_lib:init_p/5", **functions)
    calls = [(1, 0, CONNECTION, 1199900, 0, 900000000), (2, 1, ENCODE, 1199900, 49195900, 4100000000),
             (3, 2, SETELEMENT, 8400000, 109200000, 1300000000)]
    trace.record("functions", tree=2, n_calls=5, time_ns=START_NS, profiler_events=600000000, profiler_words=1200000000, process="<0.80.0>",
                 **functions)
    more = [(1, 0, NONCE, 3, 9, 0), (2, 0, SETELEMENT, 1, 1, 10), (3, 0, CONNECTION, 100, 0, 5), (4, 3, SETELEMENT, 1237068, 11472223, 200000000)]
    for tree, rows in ((1, calls), (2, more)):  # one row of tree 2 is missing
        for node, parent, frame, n, words, ns in rows:
            trace.record("calls", tree=tree, snapshot=1, node=node, parent=parent, frame=frame, calls=n, own_words=words, own_ns=ns)
    end, heap, need, promoted = 1, 2, 4, 8
    trace.record("gc", known=end | heap | need | promoted, start_ns=START_NS + 100000000, pause_ns=2000000, heap_before_bytes=MIB,
                 heap_after_bytes=MIB // 2, needed_bytes=4096, promoted_bytes=MIB // 4, runtime="beam", kind="minor", process="tls_sender\x1b[1m",
                 frame=SETELEMENT)
    trace.record("gc", known=end | heap | need, start_ns=START_NS + 300000000, pause_ns=30000000, heap_before_bytes=3 * MIB, heap_after_bytes=MIB,
                 needed_bytes=MIB // 16, runtime="beam", kind="major", stack=17)
    trace.record("gc", known=need, start_ns=START_NS + 1500000000, needed_bytes=800, runtime="beam", kind="minor", process="<0.80.0>")
    young, old = YOUNG << 48 | 0x1000, OLD << 48 | 0x1000
    trace.moment(1, *[("alloc", young + 16 * i, 16, 17, YOUNG) for i in range(8)], ("alloc", old, 1000, 16, OLD))
    trace.moment(100, *[("move", {"address": young + 16 * i, "to": young + 4096 + 16 * i}) for i in range(4)],
                 *[("collect", young + 16 * i) for i in range(4, 8)], ("promote", young + 4096))
    trace.moment(300, ("collect", young + 4112), ("collect", old))
    trace.end(1600)
    return trace


def sampled():
    """A sampled trace with an interval of 512 KiB; a block of 64 MiB is certainly in the sample."""
    trace = Trace("sampled", mode=1)
    define_jq(trace)
    trace.record("sampler", cpu_ns=1000, budget_millionths=20000, least_interval_bytes=512 * KIB, most_interval_bytes=512 * KIB)
    sampling = {"interval_bytes": 512 * KIB, "seed": 42}
    trace.record("sampling", **sampling)
    trace.moment(1, ("sampling", sampling), *[("alloc", 0x1000 + 256 * i, 152, STRING) for i in range(280)],
                 ("alloc", 0x4000000, 64 * MIB, PAIRS), *[("alloc", 0x100000 + 16 * KIB * i, 16 * KIB, UNKNOWN) for i in range(3)])
    trace.moment(2, *[("free", 0x1000 + 256 * i) for i in range(280)])
    trace.end(10)
    return trace


def observed():
    """CPU samples of a process that was observed from outside."""
    trace = Trace("observed")
    trace.record("thread", stream=0, thread_id=4711, name="jq")
    trace.record("observed", rate_hz=99, samples=6, lost=1, stale=2, complete_stacks=5, target_cpu_ns=70000000, sample_cost_ns=4500)
    trace.frames({1: ("parse", "parse.c", 10, "c"), 2: ("main", "main.c", 20, "c"), 3: ("loop", "script.lua", 3, "lua")})
    trace.node(16, 0, frame=2)
    trace.node(17, 16, frame=1)
    trace.node(18, 16, frame=3)
    for i, stack in enumerate((17, 17, 17, 18, 18, 16)):
        trace.record("cpu_samples", time_ns=START_NS + i * 10000000, thread_id=4711, stack=stack, weight_ns=10000000 + i)
    trace.record("functions", tree=1, snapshot=1, epoch=1, n_calls=3, word_bytes=8, thread_id=4711, time_ns=START_NS)
    for node, parent, frame, n, ns in ((1, 0, 2, 1, 10000005), (2, 1, 1, 3, 30000003), (3, 1, 3, 2, 20000007)):
        trace.record("calls", tree=1, snapshot=1, node=node, parent=parent, frame=frame, calls=n, own_ns=ns)
    trace.record("gc", known=1 | 16, start_ns=START_NS + 5000000, pause_ns=1000000, allocated_bytes=4 * MIB, weight_bytes=4 * MIB, runtime="lua",
                 kind="full", stack=18)
    trace.end(80, how=0)
    return trace


def unseen():
    """Frees of blocks whose allocations are not recorded, and allocations of blocks whose frees are not recorded."""
    trace = Trace("unseen")
    define_jq(trace)
    for i in range(30):
        trace.moment(1 + i, *[event for _ in range(50) for event in (("free", {"address": 0x10, "stack": 23}), ("alloc", 0x1000, 100, STRING))])
    trace.end(100)
    return trace


ANONYMOUS, FIXED, OF_FILE = 0x22, 0x32, 0x02  # flags of mmap
READ, WRITE = 1, 2  # protection
LOAD, GROW, RESERVE, MAPS_OF_HEAP, SPARE = 20, 21, 22, 23, 24  # stacks of mappings
MREMAP, SBRK, HEAP_MAP = 4, 5, 6  # vias


def mapped():
    """Memory that a program maps itself: a file, reserved addresses, parts that are unmapped and mapped over, a file that mremap moves, while another
    thread gets its old place; and mappings of a heap with an allocator of its own."""
    trace = Trace("mapped", ("luajit", "grow.lua"), "/usr/bin/luajit")
    for stream in (1, 2):
        trace.record("thread", stream=stream, thread_id=4710 + stream, name="luajit")
    trace.heap(0, "malloc", "glibc", "c", {MALLOC: "malloc"})
    trace.heap(2, "mmap", "mmap", "c", {MMAP: "mmap", MREMAP: "mremap", SBRK: "sbrk"}, is_backing=1)
    trace.heap(3, "objects", "own", "c", {HEAP_MAP: "objects"})
    trace.frames({number: (name, "/src/arena.c", line, "c") for number, (name, line) in enumerate(
        (("main", 90), ("load", 12), ("grow", 34), ("reserve", 56), ("objects_map", 70), ("spare", 78)), 1)})
    trace.node(16, 0, frame=1)
    for stack, frame in ((LOAD, 2), (GROW, 3), (RESERVE, 4), (MAPS_OF_HEAP, 5), (SPARE, 6)):
        trace.node(stack, 16, frame=frame)

    def mapping(address, n_bytes, stack, flags=ANONYMOUS, protection=READ | WRITE, via=MMAP):
        return "map", {"address": address, "bytes": n_bytes, "stack": stack, "via": via, "protection": protection, "flags": flags}

    def unmapping(address, n_bytes, **more):
        return "unmap", {"address": address, "bytes": n_bytes, **more}

    arena, file, moved, reserved, heap, top = (0x7F0000000000 + i * 0x10000000 for i in range(6))
    trace.resident(10, [4, 40, 160, 120])
    trace.moment(1, ("alloc", 0x1000, MIB, 16), mapping(arena, 128 * MIB, GROW), mapping(file, 8 * MIB, LOAD, OF_FILE, READ))
    trace.moment(2, mapping(reserved, 256 * MIB, RESERVE, ANONYMOUS, 0), mapping(heap, 32 * MIB, MAPS_OF_HEAP, 0, 0, HEAP_MAP))
    trace.moment(3, unmapping(arena + 16 * MIB, 4 * MIB), mapping(arena + 64 * MIB, 2 * MIB, SPARE, FIXED), stream=2)
    trace.moment(4, mapping(reserved + 8 * MIB, 4 * MIB, SPARE, FIXED))
    call_ns = START_NS + 5000000
    # mremap of thread 1 frees the old place at 5 ms and is recorded at 7 ms; thread 2 gets the place at 6 ms
    trace.moment(6, mapping(file, 4 * MIB, SPARE), ("alloc", 0x9000, 100, SPARE), stream=2)
    trace.moment(7, unmapping(file, 8 * MIB, via=MREMAP, flags=call_ns & 0xFFFFFFFF), mapping(moved, 16 * MIB, LOAD, 0, 0, MREMAP))
    trace.moment(20, mapping(top, MIB + 100, GROW, 0, READ | WRITE, SBRK), unmapping(top + MIB, 100))
    trace.moment(25, mapping(arena + 100 * MIB, 12 * MIB, MAPS_OF_HEAP, 0, 0, HEAP_MAP), unmapping(heap, 32 * MIB))
    trace.moment(28, unmapping(file, 4 * MIB), stream=2)
    trace.moment(30, unmapping(arena, 64 * MIB), unmapping(0x100000000000, MIB), ("free", 0x1000))
    trace.end(40)
    return trace


def forked():
    """A forked process frees two blocks that its parent had allocated, one of them twice, and a block of its own."""
    trace = Trace("forked", ("worker",), "/usr/bin/worker", identity=0x2222, parent_identity=0x1111, origin=1)
    trace.record("thread", stream=1, thread_id=4711, name="worker")
    trace.heap(0, "malloc", "glibc", "c", {MALLOC: "malloc"})
    trace.frames({1: ("main", "/src/main.c", 10, "c")})
    trace.node(16, 0, frame=1)
    trace.moment(1, ("free", 0x9000), ("alloc", 0x1000, 100, 16), ("free", 0x9000))
    trace.moment(2, ("free", 0xa000), ("alloc", 0xa000, 200, 16), ("free", 0x1000))
    trace.end(3)
    return trace


SESSION = 0x1122334455667788
SECOND_NS = 10**9


def family_member(name, pid, parent_pid, start_ms, end_ms, sizes_kib, command, end, session=SESSION, family_name="family", **process):
    """A process of a recording that began at START_NS: it allocates blocks of these sizes, and then frees the first one."""
    begin_ns = START_NS + start_ms * 1000000
    trace = Trace(family_name + "-" + name, command, "/usr/bin/" + command[0].split("/")[-1], parent_pid=parent_pid, session=session,
                  start_realtime_ns=1700000000 * SECOND_NS + begin_ns, **process)
    trace.lines[0].fields.update(pid=pid, start_ns=begin_ns)
    trace.record("thread", stream=1, thread_id=pid, name=command[0])
    trace.heap(0, "malloc", "glibc", "c", {MALLOC: "malloc"})
    trace.frames({1: ("main", "/src/main.c", 10, "c")})
    trace.node(16, 0, frame=1)
    if process.get("mode"):
        trace.record("sampling", interval_bytes=512 * KIB, seed=42)
    trace.moment(start_ms + 1, *[("alloc", 0x100000 + i * MIB, size * KIB, 16) for i, size in enumerate(sizes_kib)])
    if end is not None:
        trace.moment(end_ms - 1, ("free", 0x100000))
        trace.record("resident", time_ns=START_NS + (end_ms - 1) * 1000000, bytes=(sum(sizes_kib) + 2048) * KIB)
        trace.end(end_ms, **end)
    return trace


def family():
    """The traces of one recording: make starts two shells. One of them executes cc, which starts the program `as` and is killed; `as` had
    the pid that ld gets later. The other shell forks a daemon and ends; the trace of the daemon is there twice, the shorter one is a
    snapshot. A process of another recording has the pid of make."""
    return [
        family_member("make", 100, 1, 0, 900, [64, 32], ("make", "-j2"), {"wait_status": 2 << 8}),
        family_member("sh-cc", 101, 100, 10, 20, [8], ("sh", "-c", "cc -c big.c"), {"how": 1, "known": 0}),
        family_member("cc", 101, 100, 21, 500, [4096, 2048, 512], ("/usr/lib/cc", "-c", "big.c"), {"how": 2, "wait_status": 9}),
        family_member("as", 102, 101, 30, 200, [700], ("as", "-o", "big.o"), {}),
        family_member("sh-daemon", 103, 100, 40, 60, [16], ("sh", "start-daemon"), {}),
        family_member("daemon", 104, 103, 50, 800, [100, 1000], ("daemon", "--log=/var/log/daemon.log", "--verbose"), {"how": 4, "known": 0}),
        family_member("daemon-early", 104, 103, 50, 100, [100], ("daemon", "--log=/var/log/daemon.log", "--verbose"), None),
        family_member("ld", 102, 100, 600, 700, [3000], ("ld", "-o", "program"), {}),
        family_member("other", 100, 1, 5, 10, [1], ("true",), {}, session=SESSION + 1),
        family_member("sampled", 105, 100, 610, 690, [2048, 512], ("python3", "tests.py"), {}, mode=1),
    ]


FORKED, EXECUTED, SPAWNED = 1, 2, 3


def containers():
    """The traces of a recording whose processes have identities. A program starts two PID namespaces, in which the same pids occur at the
    same time. In both, a forked process executes another program as pid 1, which starts a process with pid 2. The parent of the process
    with pid 3 has no trace; other processes have this parent's pid."""

    def member(name, pid, parent_pid, start_ms, identity, parent, origin):
        return family_member(name, pid, parent_pid, start_ms, 900, [identity], (name,), {"how": 1, "known": 0}, session=SESSION + 2,
                             family_name="containers", identity=identity, parent_identity=parent, origin=origin)

    return [
        member("starter", 500, 1, 0, 1, 0, 0),
        member("fork-a", 1, 0, 10, 2, 1, FORKED),
        member("fork-b", 1, 0, 11, 3, 1, FORKED),
        member("init-a", 1, 0, 20, 4, 2, EXECUTED),
        member("init-b", 1, 0, 21, 5, 3, EXECUTED),
        member("work-a", 2, 1, 30, 6, 4, SPAWNED),
        member("work-b", 2, 1, 31, 7, 5, FORKED),
        member("orphan", 3, 2, 40, 8, 99, SPAWNED),
    ]


ALL = [make() for make in (jq, threads, hostile, lost, empty, deep, forum, sampled, observed, unseen, mapped, forked)]
FAMILY, CONTAINERS = family(), containers()


def main():
    assembler, folder = sys.argv[1:]
    for trace in ALL + FAMILY + CONTAINERS:
        text = "".join(str(line) + "\n" for line in trace.lines)
        subprocess.run([assembler, f"{folder}/{trace.name}.allogram"], input=text.encode(), check=True)


if __name__ == "__main__":
    main()
