#!/usr/bin/env python3
"""symbol_budgets PROGRAM: the time and memory to symbolize expensive files must stay within a budget. Prints TAP.

PROGRAM (symbolize_file.c) looks up addresses in files, as a report does. If the files occupy N bytes, PROGRAM may use 2 s + N / (10
MB/s) of CPU time and 256 MiB + 64 N of memory. This test makes the files, of at most a few MB each. If the symbolizer leaves something
out because of a limit, it has to report that."""

import functools
import os
import resource
import struct
import subprocess
import sys
import tempfile
import zlib

PROGRAM = sys.argv[1]
TEXT, TEXT_BYTES, DATA = 0x1000, 0x100000, 0x400000
MIB = 1 << 20
LOOK_UPS = 40000
SHORTFALLS = ("read only in part, because", "some line numbers are not read", "would grow more than")
cases = []


def case(copies=1, is_left_out=True, runtime=None):
    """Registers a case. copies: the number of copies of the file; is_left_out: the symbolizer reaches a limit, and must report in a line
    what it leaves out; runtime: the runtime whose decoder reads the file."""
    def add(function):
        cases.append((function, copies, is_left_out, runtime))
        return function
    return add


def uleb(value):
    out = b""
    while True:
        byte, value = value & 0x7F, value >> 7
        out += bytes([byte | (0x80 if value else 0)])
        if not value:
            return out


@functools.lru_cache(maxsize=4)
def deflated_zeros(n_bytes):
    """Returns n_bytes of zeros, compressed. Compresses them in pieces, so that this process needs little memory: the programs that it
    starts inherit its peak memory."""
    machine, piece = zlib.compressobj(1), bytes(MIB)
    return b"".join(machine.compress(piece) for _ in range(n_bytes // MIB)) + machine.flush()


class File:
    """An ELF file. A section is a list: name, type, flags, bytes, link, entsize, address, size (None: that of the bytes), and the index of
    the section whose bytes it shares (None: it has its own)."""

    def __init__(self):
        self.sections = []
        self.loaded = None  # index of the section that is loaded as data, or None
        self.add(".text", 1, 6, b"", address=TEXT, size=TEXT_BYTES, kind=8)

    def add(self, name, kind_, flags, data, link=0, entsize=0, address=0, size=None, kind=None):
        self.sections.append([name, kind if kind is not None else kind_, flags, data, link, entsize, address, size, None])
        return len(self.sections)

    def symbols(self, entries, strings):
        """Adds a symbol table; entries: (name offset, address, size)."""
        at = len(self.sections) + 1
        table = bytes(24) + b"".join(struct.pack("<IBBHQQ", name, 0x12, 0, 1, address, size) for name, address, size in entries)
        self.add(".symtab", 2, 0, table, link=at + 1, entsize=24)
        self.add(".strtab", 3, 0, strings)

    def plain_symbols(self):
        self.symbols([(1, TEXT, TEXT_BYTES)], b"\0whole\0")

    def debug(self, name, data, is_compressed=False):
        self.add(name, 1, 0x800 if is_compressed else 0, data)

    def again(self, index, times):
        """Adds further headers of an existing section, with the same bytes."""
        for _ in range(times):
            copy = list(self.sections[index - 1])
            copy[8] = index - 1
            self.sections.append(copy)

    def bytes(self):
        names, offsets, at, body = b"\0", [], 64, b""
        for section in self.sections:
            offsets.append(at if section[8] is None else offsets[section[8]])
            if section[8] is None:
                data = section[3] + bytes(-len(section[3]) % 8)
                body += data
                at += len(data)
        headers = bytes(64)
        known = {}
        for section, offset in zip(self.sections, offsets):
            if section[0] not in known:
                known[section[0]] = len(names)
                names += section[0].encode() + b"\0"
            size = section[7] if section[7] is not None else len(section[3])
            headers += struct.pack("<IIQQQQIIQQ", known[section[0]], section[1], section[2], section[6], offset, size, section[4], 1, 8,
                                   section[5])
        known_names = len(names)
        names += b".shstrtab\0"
        headers += struct.pack("<IIQQQQIIQQ", known_names, 3, 0, 0, at, len(names), 0, 0, 1, 0)
        body += names + bytes(-len(names) % 8)
        at += len(names) + (-len(names) % 8)
        n_loaded = 0
        if self.loaded is not None:
            section, n_loaded = self.sections[self.loaded - 1], 2
            headers += struct.pack("<IIQQQQQQ", 1, 4, offsets[self.loaded - 1], section[6], section[6], len(section[3]),
                                   len(section[3]), 8)
            headers += struct.pack("<IIQQQQQQ", 1, 5, 0, TEXT, TEXT, TEXT_BYTES, TEXT_BYTES, 8)
        ident = b"\x7fELF\x02\x01\x01" + bytes(9)
        header = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, TEXT, at + 64 * (len(self.sections) + 2), at, 0, 64, 56, n_loaded, 64,
                                     len(self.sections) + 2, len(self.sections) + 1)
        return header + body + headers


def unit(body, abbrev_offset=0):
    """A DWARF 4 unit."""
    rest = struct.pack("<HIB", 4, abbrev_offset, 8) + body
    return struct.pack("<I", len(rest)) + rest


# abbreviation 1: a compile unit with children: low_pc, high_pc (data8), stmt_list
UNIT = b"\x01\x11\x01\x11\x01\x12\x07\x10\x17\0\0"
UNIT_BODY = b"\x01" + struct.pack("<QQI", TEXT, TEXT_BYTES, 0)
# abbreviation 2: a function with ranges and a name, without children
RANGED = b"\x02\x2e\x00\x55\x17\x03\x08\0\0"


def many_functions(n, ranges):
    file = File()
    file.plain_symbols()
    file.debug(".debug_abbrev", UNIT + RANGED + b"\0")
    file.debug(".debug_info", unit(UNIT_BODY + n * (b"\x02" + struct.pack("<I", 0) + b"f\0") + b"\0"))
    file.debug(".debug_ranges", ranges + bytes(16))
    return file.bytes()


@case()
def ranges_that_all_functions_share():
    return many_functions(20000, b"".join(struct.pack("<QQ", 16 * i + 1, 16 * i + 9) for i in range(50000)))


@case()
def ranges_that_yield_nothing():
    return many_functions(20000, struct.pack("<QQ", (1 << 64) - 1, TEXT) * 50000)


@case()
def units_that_share_a_long_table_of_abbreviations():
    table = b"".join(uleb(i) + b"\x2e\x00\x03\x08\0\0" for i in range(2, 60000))
    last = uleb(60000) + b"\x11\x00\x11\x01\x12\x07\0\0"
    one = unit(uleb(60000) + struct.pack("<QQ", TEXT, TEXT_BYTES))
    file = File()
    file.plain_symbols()
    file.debug(".debug_abbrev", table + last + b"\0")
    file.debug(".debug_info", one * 16000)
    return file.bytes()


def line_header(rest_bytes, gap):
    """A DWARF 4 line program header; the program begins GAP bytes after the header."""
    tables = bytes([1, 1, 1, 251, 14, 13]) + bytes([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]) + b"\0" + b"a.c\0\0\0\0" + b"\0"
    return struct.pack("<IHI", rest_bytes + len(tables) + 6 + gap, 4, len(tables) + gap) + tables


@case()
def units_whose_line_programs_overlap():
    n, program = 8000, b"\x00\x09\x02" + struct.pack("<Q", TEXT) + bytes([0x20]) * 400000 + b"\x00\x01\x01"
    size = len(line_header(0, 0))
    lines = b"".join(line_header(len(program), (n - 1 - i) * size) for i in range(n)) + program
    body = b"".join(unit(b"\x01" + struct.pack("<QQI", TEXT + 64 * i, 64, size * i) + b"\0") for i in range(n))
    file = File()
    file.plain_symbols()
    file.debug(".debug_abbrev", UNIT + b"\0")
    file.debug(".debug_info", body)
    file.debug(".debug_line", lines)
    return file.bytes()


def bomb(name, gnu, n_bytes=400 * MIB):
    file = File()
    file.plain_symbols()
    if gnu:
        file.debug(".z" + name[1:], b"ZLIB" + struct.pack(">Q", n_bytes) + deflated_zeros(n_bytes))
    else:
        file.debug(name, struct.pack("<IIQQ", 1, 0, n_bytes, 1) + deflated_zeros(n_bytes), is_compressed=True)
    file.debug(".debug_abbrev", UNIT + b"\0")
    return file.bytes()


@case()
def debug_information_that_grows_a_thousandfold():
    return bomb(".debug_info", gnu=False)


@case()
def debug_information_in_the_older_form_that_grows_a_thousandfold():
    return bomb(".debug_info", gnu=True)


@case(is_left_out=False)
def a_name_of_a_file_that_grows_a_thousandfold():
    return bomb(".gnu_debuglink", gnu=False)


@case(is_left_out=False)
def a_thousand_headers_of_one_symbol_table():
    file = File()
    file.symbols([(1, TEXT + 16 * i, 16) for i in range(40000)], b"\0name\0")
    file.again(2, 1000)
    return file.bytes()


@case(is_left_out=False)
def symbols_whose_names_are_each_other_s_ends():
    file = File()
    file.symbols([(1 + i, TEXT, TEXT_BYTES) for i in range(20000)], b"\0" + b"n" * 900000 + b"\0")
    return file.bytes()


@case()
def symbols_of_long_names_at_many_addresses():
    file = File()
    file.symbols([(1 + i, TEXT + 16 * i, 16) for i in range(40000)], b"\0" + b"n" * 900000 + b"\0")
    return file.bytes()


@case()
def functions_whose_names_are_each_other_s_ends():
    file = File()
    n = 120000  # three times as many as the budget of a file of this size allows
    file.plain_symbols()
    file.debug(".debug_abbrev", UNIT + b"\x02\x2e\x00\x11\x01\x12\x06\x03\x0e\0\0" + b"\0")
    file.debug(".debug_info", unit(UNIT_BODY + b"".join(b"\x02" + struct.pack("<QII", TEXT + 8 * i, 8, i) for i in range(n)) + b"\0"))
    file.debug(".debug_str", b"n" * 200000 + b"\0")
    return file.bytes()


@case()
def calls_inlined_into_each_other_without_an_end():
    n = 60000
    file = File()
    file.plain_symbols()
    inlined = b"\x03\x1d\x01\x55\x17\0\0"
    function = b"\x02\x2e\x01\x11\x01\x12\x06\x03\x08\0\0"
    file.debug(".debug_abbrev", UNIT + function + inlined + b"\0")
    file.debug(".debug_info", unit(UNIT_BODY + b"\x02" + struct.pack("<QI", TEXT, TEXT_BYTES) + b"f\0" +
                                   (b"\x03" + struct.pack("<I", 0)) * n + bytes(n + 3)))
    file.debug(".debug_ranges", b"".join(struct.pack("<QQ", 8 * i + 1, TEXT_BYTES - 1) for i in range(30000)) + bytes(16))
    return file.bytes()


@case()
def calls_inlined_beside_each_other():
    n = 60000
    file = File()
    file.plain_symbols()
    inlined = b"\x03\x1d\x00\x55\x17\0\0"
    function = b"\x02\x2e\x01\x11\x01\x12\x06\x03\x08\0\0"
    file.debug(".debug_abbrev", UNIT + function + inlined + b"\0")
    file.debug(".debug_info", unit(UNIT_BODY + b"\x02" + struct.pack("<QI", TEXT, TEXT_BYTES) + b"f\0" +
                                   (b"\x03" + struct.pack("<I", 0)) * n + bytes(3)))
    file.debug(".debug_ranges", b"".join(struct.pack("<QQ", 8 * i + 1, TEXT_BYTES - 1) for i in range(30000)) + bytes(16))
    return file.bytes()


@case(is_left_out=False)
def a_form_that_names_itself_again_and_again():
    file = File()
    file.plain_symbols()
    file.debug(".debug_abbrev", UNIT + b"\x02\x2e\x00\x03\x16\0\0" + b"\0")
    file.debug(".debug_info", unit(UNIT_BODY + (b"\x02" + b"\x16" * 900000)))
    return file.bytes()


@case()
def empty_units_without_an_end():
    file = File()
    file.plain_symbols()
    file.debug(".debug_abbrev", UNIT + b"\x02\x11\x00\0\0" + b"\0")
    file.debug(".debug_info", unit(b"\x02") * 90000)
    return file.bytes()


@case(is_left_out=False)
def names_that_demangle_to_more_than_they_are():
    file = File()
    name = b"_Z1f" + b"1AI" + b"".join(b"1BIS%c_S%c_E" % (c, c) for c in b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[:30]) + b"Ev"
    nested = b"_Z1fI" + b"J" * 200 + b"E" * 200 + b"Evv"
    packs = b"_Z1fIJ" + b"JEE" * 100 + b"EEv" + b"Dp" * 150 + b"T_"
    strings, entries = b"\0", []
    for i in range(3000):
        entries.append((len(strings), TEXT + 16 * i, 16))
        strings += (name, nested, packs)[i % 3] + b"%d\0" % i
    file.symbols(entries, strings)
    return file.bytes()


@case(copies=300)
def many_files_that_grow_a_thousandfold():
    return bomb(".debug_info", gnu=False, n_bytes=15 * MIB)


@case(copies=300)
def many_files_whose_functions_share_their_ranges():
    return many_functions(400, b"".join(struct.pack("<QQ", 16 * i + 1, 16 * i + 9) for i in range(1000)))


# Data that runtimes keep for their own use is read by decoders (src/symbol/decoder.h), within the same budget.

OCAML = b"\0caml_frametable\0caml_memprof_sample_young\0"


def ocaml_data(file, data, address=DATA):
    """Adds loaded data that begins with the list of frame tables."""
    file.loaded = file.add(".data", 1, 3, data, address=address)
    file.symbols([(1, address, 8), (17, address, 8)], OCAML)


@case(copies=100, is_left_out=False, runtime="ocaml")
def frame_tables_that_are_listed_again_and_again():
    n_times, n_descriptors = 8000, 1000
    table = DATA + 8 * (n_times + 1)
    descriptors = b"".join(struct.pack("<QHH4x", (7919 * i) % 65536, 8, 0) for i in range(n_descriptors))
    file = File()
    ocaml_data(file, struct.pack("<Q", table) * n_times + bytes(8) + struct.pack("<Q", n_descriptors) + descriptors)
    return file.bytes()


@case(runtime="ocaml")
def names_of_frames_that_have_no_end():
    """A chain of inlined functions without an outermost function. All of its locations have the same two long texts."""
    half = TEXT_BYTES // 2
    file = File()
    ocaml_data(file, struct.pack("<II", half | 1, half | 1) * (half // 8) + (b"\xff" * 60000 + b"\0") * (half // 60001),
               address=TEXT)
    return file.bytes()


@case(is_left_out=False, runtime="ocaml")
def a_thousand_headers_of_one_table_of_relocations():
    file = File()
    n = 40000
    ocaml_data(file, bytes(64))
    last = file.add(".rela.dyn", 4, 2, b"".join(struct.pack("<QQQ", DATA + 8 * i, 8, DATA) for i in range(n)), entsize=24)
    file.again(last, 1000)
    return file.bytes()


def many_of_one_name(name, mark):
    file = File()
    file.loaded = file.add(".data", 1, 3, bytes(64), address=DATA)
    strings = b"\0" + mark + b"\0"
    file.symbols([(1, DATA, 8)] + [(len(strings), TEXT + 16 * i, 16) for i in range(40000)], strings + name + b"\0")
    return file.bytes()


@case(runtime="crystal")
def names_of_crystal_with_parentheses_in_parentheses():
    return many_of_one_name(b"*(A)::new" + b":(" * 5000 + b")" * 5000 + b"x", mark=b"__crystal_main")


@case(runtime="crystal")
def short_names_of_crystal_with_parentheses_in_parentheses():
    return many_of_one_name(b"*(A)::new" + b":(" * 160 + b")" * 160 + b"x", mark=b"__crystal_main")


@case(runtime="julia")
def long_names_of_julia():
    return many_of_one_name(b"julia_" + b"_1" * 7000, mark=b"jl_RTLD_DEFAULT_handle_pointer")


@case(runtime="ocaml")
def long_names_of_ocaml():
    return many_of_one_name(b"camlA" + b"__$2" * 3500 + b"_1", mark=b"caml_frametable")


def measure(make, copies, folder):
    paths = [os.path.join(folder, "image%d" % i) for i in range(copies)]
    content = make()
    for path in paths:
        with open(path, "wb") as out:
            out.write(content)
    stored = sum(os.stat(path).st_blocks * 512 for path in paths)
    process = subprocess.Popen([PROGRAM, hex(TEXT), hex(TEXT + TEXT_BYTES), str(LOOK_UPS // copies)] + paths, stdout=subprocess.PIPE,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (60, 60)))
    said = process.stdout.read().decode()
    _, status, usage = os.wait4(process.pid, 0)
    process.stdout.close()
    process.returncode = os.waitstatus_to_exitcode(status)
    for path in paths:
        os.unlink(path)
    return stored, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10, process.returncode, said


def main():
    print(f"1..{len(cases)}")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    n_failed = 0
    only = [word for word in sys.argv[2:] if not word.startswith("--")]
    # a sanitizer, which checks the memory accesses, makes the program about ten times slower
    slowness = 10 if "--sanitized" in sys.argv else 1
    with tempfile.TemporaryDirectory(prefix="symbol_budgets.") as folder:
        for number, (make, copies, is_left_out, runtime) in enumerate(cases, 1):
            name = make.__name__.replace("_", " ")
            if only and make.__name__ not in only:
                print(f"ok {number} {name} # SKIP not in the arguments")
                continue
            if runtime and runtime not in os.environ.get("RUNTIMES", runtime).split():
                print(f"ok {number} {name} # SKIP {runtime} was left out of the build")
                continue
            stored, cpu, memory, status, said = measure(make, copies, folder)
            most_cpu, most_memory = slowness * (2 + stored / 10e6), 256 * MIB + 64 * stored
            says_so = any(line in said for line in SHORTFALLS) or not is_left_out
            is_good = status == 0 and cpu < most_cpu and memory < most_memory and says_so
            n_failed += not is_good
            print(f"{'ok' if is_good else 'not ok'} {number} {name}\n# {stored / MIB:.1f} MiB: {cpu:.2f} of {most_cpu:.2f} s, "
                  f"{memory / MIB:.0f} of {most_memory / MIB:.0f} MiB; status {status}")
            for line in said.splitlines()[:4]:
                print("# " + line[:150], flush=True)
    return 1 if n_failed else 0


sys.exit(main())
