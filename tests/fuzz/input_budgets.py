#!/usr/bin/env python3
"""Every reader that has a fuzz target must keep a limit of time and memory (its budget), for its corpus and for inputs that are made to be
expensive. Prints TAP.

    input_budgets.py PROGRAM... [--only=CASE]...

The programs are the fuzz targets fuzz_SUBJECT.c, linked with read_input.c and named input_SUBJECT: there must be one program for each
target. For N bytes of input a program may use 2 s + N / (10 MB/s) of CPU time and 256 MiB + 64 N of memory, as a command of allogram may.
The inputs in the corpus have at most some KB, so only a quarter of the fixed parts is allowed for them. reader_budgets.py measures commands on
whole traces, tests/unit/symbol_budgets.py measures the symbolizer on programs and libraries."""

import glob
import os
import resource
import struct
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../conformance"), os.path.join(HERE, "../unit")]
import tap  # noqa: E402

MIB = 1 << 20
CPU_SECONDS_MOST = 60
KEPT_SHARE = 0.25
CASES = []


def case(subject):
    def add(function):
        CASES.append((subject, function))
        return function
    return add


# ---- outside: the first byte selects the kind of input (fuzz_outside.c) ----

MAPS, PERF_MAP, JITDUMP, OBJECT, TABLES = (bytes([i]) for i in range(5))


@case("outside")
def maps_with_many_lines():
    return MAPS + b"".join(b"%x-%x r-xp 0 0:0 0 /f\n" % (i << 12, (i + 1) << 12) for i in range(100000))


@case("outside")
def perf_map_of_short_lines():
    return PERF_MAP + b"".join(b"%x 1 a\n" % i for i in range(400000))


@case("outside")
def perf_map_of_functions_on_top_of_each_other():
    return PERF_MAP + b"".join(b"1000 %x a\n" % i for i in range(1, 400000))


@case("outside")
def jitdump_of_short_records():
    record = struct.pack("<IIQ", 0, 58, 0) + struct.pack("<IIQQQQ", 0, 0, 0, 0x1000, 1, 0) + b"a\0"
    return JITDUMP + struct.pack("<IIIIQQQ", 0x4A695444, 1, 40, 0, 0, 0, 0) + record * 50000


def elf(sections):
    """An ELF file of sections (name, type, flags, bytes, link, entsize)."""
    body, headers, names = b"", bytes(64), b"\0"
    for name, kind, flags, data, link, entsize in sections + [(".shstrtab", 3, 0, None, 0, 0)]:
        names += name.encode() + b"\0"
        data = names if data is None else data
        headers += struct.pack("<IIQQQQIIQQ", len(names) - len(name) - 1, kind, flags, 0, 64 + len(body), len(data), link, 1, 8, entsize)
        body += data
    return (b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64,
                                                            len(sections) + 2, len(sections) + 1) + body + headers)


def symbols(n, name):
    return bytes(24) + b"".join(struct.pack("<IBBHQQ", name(i), 0x12, 0, 1, 0x1000 + 16 * i, 16) for i in range(n))


@case("outside")
def object_whose_names_are_each_other_s_ends():
    return OBJECT + elf([(".symtab", 2, 0, symbols(120000, lambda i: 1 + i), 2, 24), (".strtab", 3, 0, b"\0" + b"n" * (4 * MIB) + b"\0", 0, 0)])


@case("outside")
def object_with_many_headers_of_one_table():
    one = (".symtab", 2, 0, symbols(1000, lambda i: 1), 60001, 24)
    many = [(".symtab", 2, 0, b"", 1, 24)] * 60000
    return OBJECT + elf(many + [(".strtab", 3, 0, b"\0a\0", 0, 0), one])


def debug_frame(instructions, n):
    """A CIE, and N functions with the same unwind instructions."""
    cie = struct.pack("<IIB", 9 + 4, 0xFFFFFFFF, 4) + b"\0\x08\0\x01\x78\x10\0\0"
    cie = struct.pack("<I", len(cie) - 4) + cie[4:]
    fdes = b"".join(struct.pack("<IIQQ", 20 + len(instructions), 0, 0x10 * i, 0x10) + instructions for i in range(n))
    return TABLES + elf([(".debug_frame", 1, 0, cie + fdes, 0, 0)])


@case("outside")
def many_functions_without_rules():
    return debug_frame(b"", 80000)


@case("outside")
def a_function_with_a_million_rules():
    return debug_frame(b"\x0a\x0b" * 500000, 2)


@case("outside")
def functions_that_advance_by_nothing():
    return debug_frame(b"\x40" * 20000, 100)


# ---- unwind: the input is a pc, .eh_frame_hdr, .eh_frame (fuzz_unwind.c) ----


def eh_frame(instructions):
    cie_body = struct.pack("<IB", 0, 1) + b"zR\0\x01\x78\x10\x01\x1b\x0c\x07\x08"
    cie = struct.pack("<I", len(cie_body)) + cie_body
    header = 12 + 8
    fde_at = header + len(cie)
    fde_body = struct.pack("<IiI", len(cie) + 4, 0 - (fde_at + 8), 1 << 20) + b"\0" + instructions
    fde = struct.pack("<I", len(fde_body)) + fde_body
    table = struct.pack("<BBBBiI", 1, 0x1B, 0x03, 0x3B, header - 4, 1) + struct.pack("<ii", 0, fde_at)
    return struct.pack("<i", 0x100) + table + cie + fde


@case("unwind")
def a_million_instructions():
    return eh_frame(b"\x40\x0e\x10" * 600000)


@case("unwind")
def states_remembered_and_restored():
    return eh_frame((b"\x0a" * 3 + b"\x0b" * 3) * 300000)


@case("unwind")
def an_expression_of_a_megabyte():
    return eh_frame(b"\x0f" + b"\x80\x80\x40" + b"\x96" * MIB)


# ---- node: the file that an Erlang node's JIT compiler passes to debuggers (node_code.c) ----


def node_file(ranges):
    return struct.pack("<IIQIIH", 1, 0, 0x1000, len(ranges), 1 << 30, 2) + b"m\0" + bytes(6) + b"".join(ranges)


@case("node")
def node_with_many_functions():
    return node_file([struct.pack("<IIIH", 16 * i, 16 * i + 16, 0, 2) + b"f\0" + bytes(2) for i in range(150000)])


@case("node")
def node_with_a_function_of_many_lines():
    line = struct.pack("<IIH", 0, 1, 2) + b"f\0" + bytes(2)
    return node_file([struct.pack("<IIIH", 0, 16, 200000, 2) + b"f\0" + bytes(2) + line * 200000])


# ---- crystal: a 0 and a table of types, or the size of the result and a name (fuzz_crystal.c) ----


@case("crystal")
def types_on_many_lines():
    return b"\0" + b"".join(b"{%d - %d}: T\n" % (i % 65536, i % 65536) for i in range(200000))


@case("crystal")
def types_in_one_line_without_an_end():
    return b"\0{1 - 1}: " + b"T" * (4 * MIB)


@case("crystal")
def types_with_long_numbers():
    return b"\0" + (b"{" + b"1" * 200 + b" - 1}: T\n") * 20000


@case("crystal")
def name_with_parentheses_in_parentheses():
    return b"\xff*(A)::new" + b":(" * 5000 + b")" * 5000 + b"x"


# ---- ocaml: the release, then the memory from 0x10000 on, at most 4 KiB (fuzz_ocaml.c) ----


@case("ocaml")
def frame_tables_again_and_again():
    table = 0x10000 + 8 * 200
    return b"\1" + struct.pack("<Q", table) * 199 + bytes(8) + struct.pack("<Q", 1 << 60) + struct.pack("<QHH4x", 0x20000, 8, 0) * 150


@case("ocaml")
def places_inlined_into_each_other():
    return b"\1" + struct.pack("<II", 2048 | 1, 2048 | 1) * 256 + b"\xff" * 2040 + bytes(8)


# ---- chunk: the kind of chunk, then its body (fuzz_chunk.c) ----


@case("chunk")
def events_of_a_byte():
    return b"\0" + b"\0" * (4 * MIB)


@case("chunk")
def records_of_no_length():
    return b"\1" + b"\0" * (4 * MIB)


@case("chunk")
def records_of_unknown_kinds():
    return b"\1" + b"\x7f\0" * (2 * MIB)


# ---- json: a JSON text (fuzz_json.c) ----


@case("json")
def open_brackets():
    return b"[" * MIB


@case("json")
def json_of_escapes():
    return b'{"' + b"\\u00e9" * (MIB // 8) + b'":"' + b"\\ud83d" * (MIB // 8) + b'"}'


@case("json")
def many_members():
    return b"{" + b",".join(b'"%d":0' % number for number in range(2000)) + b"}"


def measure(program, path, share):
    """Runs the program on the file. Returns the reasons why it exceeds its budget or fails."""
    n_bytes = os.path.getsize(path)

    def limits():
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS_MOST, CPU_SECONDS_MOST))
        resource.setrlimit(resource.RLIMIT_AS, (6 << 30, 6 << 30))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    process = subprocess.Popen([program, path], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=limits)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10
    most_seconds, most_memory = share * 2 + n_bytes / 10e6, int(share * 256 * MIB) + 64 * n_bytes
    print("# %s: %.1f MB, %.2f of %.2f s, %d of %d MiB" % (os.path.basename(path), n_bytes / 1e6, seconds, most_seconds,
                                                         memory // MIB, most_memory // MIB))
    failures = []
    if process.returncode != 0:
        failures.append("%s: status %d" % (path, process.returncode))
    if seconds > most_seconds:
        failures.append("%s: %.2f s of CPU time, the budget is %.2f s" % (path, seconds, most_seconds))
    if memory > most_memory:
        failures.append("%s: %d MiB of memory, the budget is %d MiB" % (path, memory // MIB, most_memory // MIB))
    return failures


def main():
    only = [word[len("--only="):] for word in sys.argv[1:] if word.startswith("--only=")]
    programs = {os.path.basename(path)[len("input_"):]: path for path in sys.argv[1:] if not path.startswith("--")}
    targets = sorted(os.path.basename(path)[len("fuzz_"):-2] for path in glob.glob(os.path.join(HERE, "fuzz_*.c")))
    corpora = sorted(os.listdir(os.path.join(HERE, "corpus")))
    plan = tap.Plan(1 + len(corpora) + len(CASES))

    def complete():
        failures = ["%s: fuzz_%s.c is not measured" % (name, name) for name in targets if name not in programs]
        failures += ["corpus/%s has no target" % name for name in corpora if name not in targets]
        return failures + ["fuzz_%s.c has neither a corpus nor a case" % name for name in targets
                           if name not in corpora and name not in [subject for subject, _ in CASES]]

    def kept(subject):
        failures = []
        for path in sorted(glob.glob(os.path.join(HERE, "corpus", subject, "*"))):
            failures += measure(programs[subject], path, KEPT_SHARE)
        return failures

    def made(subject, make):
        with tempfile.TemporaryDirectory(prefix="input_budgets.") as folder:
            path = os.path.join(folder, make.__name__)
            with open(path, "wb") as out:
                out.write(make())
            return measure(programs[subject], path, 1)

    plan.run("every fuzz target is measured", complete)
    for subject in corpora:
        if not only:
            plan.run("corpus of " + subject, lambda subject=subject: kept(subject))
    for subject, make in CASES:
        if not only or make.__name__ in only:
            plan.run("%s: %s" % (subject, make.__name__.replace("_", " ")), lambda subject=subject, make=make: made(subject, make))
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
