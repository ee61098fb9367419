"""Compiles the OCaml programs of tests/programs/ocaml with one release of OCaml, as native code or bytecode, for the tests that record
these programs."""

import os
import re
import shutil
import subprocess

import recorded

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "programs", "ocaml")


class Toolchain:
    """The OCaml compilers of this machine, or those in ROOT, a folder with the root file system of another Debian release
    (tests/roots/make_roots.sh). The compilers in ROOT are run without chroot. The programs that they build use the loader and the
    libraries in ROOT, so these programs run without chroot, too."""

    def __init__(self, root=None, is_bytecode=False):
        self.root, self.is_bytecode = root, is_bytecode
        self.compiler = "ocamlc" if is_bytecode else "ocamlopt"
        self.env = {}
        if root:
            libraries = os.path.join(root, "usr/lib/x86_64-linux-gnu")
            self.loader = [os.path.join(root, "lib64/ld-linux-x86-64.so.2"), "--library-path", libraries]
            self.env["OCAMLLIB"] = os.path.join(libraries, "ocaml/5.3.0")
            self.command = [*self.loader, os.path.join(root, "usr/bin", self.compiler + ".opt"),
                            "-cc", "gcc --sysroot=%s -B%s -L%s" % (root, libraries, libraries),
                            "-ccopt", "-Wl,-E,--dynamic-linker=%s,-rpath,%s" % (self.loader[0], libraries)]
            self.unix = ["-I", "+unix", "-I", "+threads", "-I", "+str"]
            self.is_there = os.path.exists(self.command[3])
        else:
            self.command = [self.compiler]
            self.unix = ["-I", "+threads"]
            self.is_there = shutil.which(self.compiler) is not None
        self.archive = ".cma" if is_bytecode else ".cmxa"

    def libraries(self, *names):
        return [*self.unix, *[name + self.archive for name in names]]

    def compile(self, folder, name, sources, options=(), debug=True):
        """Builds the program in FOLDER from copies of its sources, because the compiler writes its own files beside the
        sources."""
        for source in sources:
            if not os.path.exists(os.path.join(folder, source)):
                shutil.copy(os.path.join(SOURCES, source), folder)
        made = subprocess.run([*self.command, *(["-g"] if debug else []), *options, "-ccopt", "-g -O1 -fno-optimize-sibling-calls", *sources, "-o", name],
                              cwd=folder, env={**os.environ, **self.env}, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if made.returncode != 0:
            raise RuntimeError("%s: %s" % (" ".join(sources), made.stdout.decode(errors="replace")[-400:]))
        return os.path.join(folder, name)

    def interpreter(self, folder):
        """Returns the path of the interpreter, which runs bytecode files."""
        if not self.root:
            return "ocamlrun"
        subprocess.run([*self.command, "-make-runtime", *self.libraries("unix"), "-o", "interpreter"], cwd=folder, env={**os.environ, **self.env}, check=True)
        return os.path.join(folder, "interpreter")

    def program(self, folder, name, sources, options=()):
        """Builds the program and returns its path. A bytecode program contains its interpreter."""
        return self.compile(folder, name, sources, [*options, *(["-custom"] if self.is_bytecode else [])])


def runtime(summary, name="ocaml"):
    return next((row for row in summary["runtimes"] if row["name"] == name), {})


def expect_all_reported(failures, tools, trace):
    """Checks that the words that were reported to the recorder (reported) equal those that the runtime counted (counted; 0: its counters were
    not found)."""
    dumped = recorded.run([tools.allogram, "dump", trace]).stdout.decode()
    found = re.findall(r'runtime .*name="ocaml".* reported=(\d+) counted=(\d+)', dumped)
    failures.require("the runtime counted words: %s" % found, found and int(found[-1][1]) > 0)
    failures.expect("reported and counted by the runtime", found[-1:], [(found[-1][1], found[-1][1])] if found else None)


def own(tools, trace, function, *options):
    """{line: (blocks, bytes, blocks in use)} of a function's own sites. The view has a row for each expression of a line that allocates; the rows of
    a line are added up."""
    lines = {}
    for row in recorded.report(tools, trace, "--view=sites", "--by=line", *options)["sites"]:
        if row["function"] == function and row["own"]["allocated_blocks"]:
            numbers = [row["own"][key] for key in ("allocated_blocks", "allocated_bytes", "in_use_blocks")]
            lines[row["line"]] = tuple(map(sum, zip(lines.get(row["line"], (0, 0, 0)), numbers)))
    return lines


def leaf_paths(node, path=()):
    """The functions from the root to each leaf of a tree."""
    path = path + (node["function"],)
    below = [found for child in node["children"] for found in leaf_paths(child, path)]
    return below or [list(path)]


def paths(tools, trace, *options):
    return leaf_paths(recorded.report(tools, trace, "--view=tree", "--limit=0", "--min=0", *options)["root"])
