#!/usr/bin/env python3
"""test_checks TOOLS: tests the checks of tools/. Each check must accept a small clean tree and refuse the same tree with one fault.
check_symbols and check_vectors are run on small objects that are compiled here. Prints TAP.

A row of CASES is (the fault, the check, files that replace or extend those of the clean tree, a text that the finding must contain). The rows of
PASSING are trees that the check must accept.
"""

import os
import shutil
import subprocess
import sys
import tempfile

CLEAN = {
    "meson.build": "layers = {\n  'base': [],\n  'format': ['base'],\n}\n",
    "ARCHITECTURE.md": "| module | may include | must never |\n|---|---|---|\n| base | - | print |\n| format | base | x |\n",
    "src/base/arena.h": "#ifndef AG_ARENA_H\n#define AG_ARENA_H\n\nint ag_arena_size(void);\n\n#endif\n",
    "src/base/arena.c": '/* arena.c: an arena. */\n#include "base/arena.h"\n\nint ag_arena_size(void) {\n    return 1;\n}\n',
    "src/format/bytes.c": '/* bytes.c: goes on; a node. */\n#include "base/arena.h"\n\nint ag_bytes_count;\n',
    "include/allogram/allogram.h": "#ifndef ALLOGRAM_H\n#define ALLOGRAM_H\n\nint allogram_is_here(void);\n\n#endif\n",
    "tools/greet.sh": "#!/bin/sh\necho hello\n",
    "SECURITY.md": "## What is promised\n\n- **A.** It holds,\n  always. Tests: `arena: all of it`.\n\n| input | test |\n|---|---|\n| b | `arena` |\n",
    "tests/unit/meson.build": "test('arena', 'test_arena.c')\n",
    "tests/unit/test_arena.c": "/* test_arena.c: all_of_it. */\nint all_of_it;\n",
}


ADAPTERS_ROW = {
    "meson.build": "layers = {\n  'base': [],\n  'format': ['base'],\n  'adapters': ['base'],\n}\n",
    "ARCHITECTURE.md": "| module | may include |\n|---|---|\n| base | - |\n| format | base |\n| adapters | base |\n",
}
CASES = [
    ("a module that only meson knows", "layers", {"meson.build": "layers = {\n  'base': [],\n  'format': ['base'],\n  'x': [],\n}\n"}, "no row for x"),
    ("a row that differs", "layers", {"meson.build": "layers = {\n  'base': [],\n  'format': [],\n}\n"}, "meson.build says []"),
    ("a missing dictionary", "layers", {"meson.build": "\n"}, "no dictionary"),
    ("layers that include each other", "layers", {"meson.build": "layers = {\n  'base': ['format'],\n  'format': ['base'],\n}\n"}, "base -> format -> base"),
    ("sources that include each other", "layers", {"src/base/up.c": '#include "format/bytes.h"\n'}, "base -> format -> base"),
    ("three modules in a circle", "layers",
     {"src/base/up.c": '#include "hook/x.h"\n', "src/hook/x.c": '#include "format/bytes.h"\n'}, "base -> hook -> format -> base"),
    ("an include of a higher layer", "layers", {"src/base/up.c": '#include "format/bytes.h"\n'}, "base may not include format"),
    ("an include with .. in its path", "layers", {"src/base/up.c": '#include "../format/bytes.h"\n'}, "a way out"),
    ("an adapter that includes too much", "layers", {"adapters/libc/x.c": '#include "format/bytes.h"\n', **ADAPTERS_ROW}, "adapters may not include format"),
    ("an adapter that includes another one", "layers", {"adapters/lua/x.c": '#include "ruby/y.h"\n', "adapters/ruby/y.h": "\n", **ADAPTERS_ROW}, "includes another adapter"),
    ("a folder without a row", "layers", {"src/extra/thing.c": "int x;\n"}, "no row in the layer table"),
    ("a file name that names no subject", "names", {"src/base/utils.c": "\n"}, "no subject"),
    ("a file name used twice", "names", {"src/format/arena.c": "\n"}, "has this file name already"),
    ("assembly beside C", "names", {"src/hook/entry.S": "ret\n"}, "outside of an arch folder"),
    ("a pointer behind a typedef", "names", {"src/base/x.h": "typedef struct ag_x *ag_x_ref;\n"}, "behind a typedef"),
    ("an #if in code", "defs", {"src/base/x.c": "#if 1\nint x;\n#endif\n"}, "#if 1"),
    ("an #ifdef behind the guard", "defs", {"src/base/x.h": "#ifndef X\n#define X\n#ifdef Y\n#endif\n#endif\n"}, "#ifdef Y"),
    ("a macro with a default", "defs", {"src/base/x.c": "#ifndef X\n#define X 4\n#endif\nint x;\n"}, "#ifndef X"),
    ("a guard that ends before the file", "defs", {"src/base/x.h": "#ifndef X\n#define X\n#endif\nint ag_x;\n"}, "#ifndef X"),
    ("__cplusplus in an internal header", "defs", {"src/base/x.h": "#ifdef __cplusplus\n#endif\n"}, "__cplusplus"),
    ("an #ifdef in a table that chooses no rows", "defs", {"src/base/x.def": "#ifdef AG_A\nAG_B(1)\n#endif\n"}, "#ifdef AG_A"),
    ("a file with a path from outside that is opened without a check", "opens", {"src/symbol/x.c": "int x(const char *p) {\n    return open(p, 0);\n}\n"}, "ag_foreign_file_open"),
    ("a promise without a test", "security", {"SECURITY.md": "## What is promised\n\n- **A.** It holds.\n"}, "names no test"),
    ("a row without a test", "security", {"SECURITY.md": "| input | test |\n|---|---|\n| b | |\n"}, "names no test"),
    ("a test that is not there", "security", {"SECURITY.md": "| input | test |\n|---|---|\n| b | `gone` |\n"}, "no test `gone`"),
    ("a case that is not there", "security", {"SECURITY.md": "| input | test |\n|---|---|\n| b | `arena: gone` |\n"}, "no case `gone`"),
    ("a test that is not run", "security", {"tests/unit/meson.build": "\n"}, "no test `arena"),
    ("no statements", "security", {"SECURITY.md": "\n"}, "no statement"),
    ("a TODO without an issue", "text", {"src/base/x.c": "int x; // TODO later\n"}, "no issue number"),
    ("blanks at a line's end", "text", {"README.md": "hello \n"}, "blanks at the end"),
    ("a tab", "text", {"src/base/x.c": "\tint x;\n"}, "a tab"),
    ("a line of 101 columns", "text", {"src/base/x.c": "/*" + "x" * 97 + "*/\n"}, "101 columns"),
    ("a last line without an end", "text", {"README.md": "hello"}, "does not end with a line feed"),
    ("a path of a person's machine", "text", {"README.md": "see /home/anna/allogram\n"}, "path of one machine"),
    ("a path of this machine", "text", {"README.md": "see {here}/notes\n"}, "path of one machine"),
    ("a message with a dot", "messages", {"src/cli/x.c": 'int x = ag_fail(1, "x: %s: it is full.", y);\n'}, "ends with a dot"),
    ("a message with a capital", "messages", {"src/cli/x.c": 'int x = ag_fail(1, "x: %s: It is " "full", y);\n'}, "begins with a capital"),
    ("a private word in a message", "messages", {"src/report/x.c": 'int x = ag_page_prose(p, 0, "nobody saw it");\n'}, "says 'nobody'"),
    ("a comment about a function that is gone", "citations", {"src/base/x.c": "/* x.c: see ag_arena_grow. */\n"}, "no ag_arena_grow"),
    ("a link to no file", "documents", {"README.md": "see [it](docs/gone.md)\n"}, "leads to no file"),
    ("a link to no heading", "documents", {"README.md": "# A\n\nsee [it](#b)\n"}, "no heading for #b"),
    ("a comment about a document that is gone", "documents", {"src/base/x.c": "/* x.c: see docs/gone.md. */\n"}, "no document docs/gone.md"),
    ("a comment about a log that is gone", "documents", {"src/base/x.c": "/* x.c: see docs/gone.log. */\n"}, "there is no docs/gone.log"),
    ("a page that the site leaves out", "documents", {"docs/mkdocs.yml": "nav:\n  - A: a.md\n", "docs/a.md": "a\n", "docs/b.md": "b\n"}, "leaves it out"),
    ("a page of the site that is gone", "documents", {"docs/mkdocs.yml": "nav:\n  - A: a.md\n"}, "a.md, which is not there"),
    ("a header that needs another", "headers", {"src/base/x.h": "uint32_t ag_x(void);\n"}, "does not compile alone as gnu11"),
    ("a public header that is no C11", "headers", {"include/allogram/x.h": "int x(bool y);\n"}, "does not compile alone as c11"),
    ("a public header that is no C++", "headers", {"include/allogram/x.h": "int x(int class);\n"}, "does not compile alone as c++17"),
    ("code that clang-format would change", "format", {"src/base/x.c": "int   x;\n"}, "x.c:1"),
    ("a script with a fault", "shell", {"tools/bad.sh": "#!/bin/sh\n[[ $x == y ]]\n"}, "SC"),
]
PASSING = [
    ("__cplusplus in a public header", "defs", {"include/allogram/x.h": "#ifdef __cplusplus\n#endif\n"}),
    ("an #ifdef around the rows of a table", "defs", {"src/base/x.def": "#ifdef AG_A\nAG_A(1)\n#endif\n"}),
    ("a message about a name with capitals", "messages", {"src/cli/x.c": 'int x = ag_fail(1, "x: %s: CPU %d is off", y, z);\n'}),
    ("a TODO with its issue", "text", {"src/base/x.c": "int x; // TODO #12: later\n"}),
    ("a comment about a family of functions", "citations", {"src/base/x.c": "/* x.c: see ag_arena_size, ag_arena_* and ag_NAME_size. */\n"}),
    ("a link to a heading of another page", "documents", {"README.md": "[a](SECURITY.md#what-is-promised)\n"}),
    ("an #if in the arch folder", "defs", {"src/unwind/arch/x86_64/x.h": "#if 1\n#endif\n"}),
]


def make_tree(folder, over, layout):
    shutil.copy(layout, folder)
    for path, text in {**CLEAN, **over}.items():
        full = os.path.join(folder, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text.replace("{here}", os.path.realpath(folder)))
    layers = os.path.join(folder, "build", "layers", "base")
    os.makedirs(layers)
    os.symlink(os.path.join(folder, "src", "base"), os.path.join(layers, "base"))


def run(tools, check, over):
    """(exit status, output) of a check that is run on the clean tree with the files of `over`."""
    with tempfile.TemporaryDirectory() as above:
        folder = os.path.join(above, "tree")
        os.mkdir(folder)
        make_tree(folder, over, os.path.join(tools, "..", ".clang-format"))
        scripts = [os.path.join(tools, f"check_{check}{end}") for end in (".py", ".sh")]
        script = next(path for path in scripts if os.path.exists(path))
        command = ["sh" if script.endswith(".sh") else sys.executable, script]
        result = subprocess.run([*command, folder, os.path.join(folder, "build")], capture_output=True, text=True, check=False)
        return result.returncode, result.stdout + result.stderr


def symbol_cases(tools):
    """Runs check_symbols on small shared objects: (name of the case, whether the result is right, output)."""
    sources = {
        "clean": ("#include <unistd.h>\nint ag_shown(void) { return getpid(); }\n", 0, ""),
        "an import that is not allowed": ("#include <stdlib.h>\nvoid *ag_shown(void) { return malloc(1); }\n", 1, "imports malloc"),
        "an import newer than GLIBC_2.17": (
            "#define _GNU_SOURCE\n#include <sys/random.h>\n#include <unistd.h>\n"
            "int ag_shown(void) { char x; return getpid() + (int)getrandom(&x, 1, 0); }\n", 1, "newer than GLIBC_2.17"),
        "an additional export": ("#include <unistd.h>\nint ag_more;\nint ag_shown(void) { return getpid(); }\n", 1, "exports ag_more"),
        "a promised export that is missing": ("#include <unistd.h>\nint ag_other(void) { return getpid(); }\n", 1, "does not export"),
        "an allowed import that nothing uses": ("int ag_shown(void) { return 1; }\n", 1, "take the line out"),
    }
    for what, (source, status, word) in sources.items():
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("agent.c", "agent.so", "list.txt")]
            with open(paths[0], "w", encoding="utf-8") as file:
                file.write(source)
            with open(paths[2], "w", encoding="utf-8") as file:
                file.write("import getpid\nexport ag_shown\nneeded libc.so.6\n")
                file.write("weak __cxa_finalize\nweak __gmon_start__\nweak _ITM_deregisterTMCloneTable\nweak _ITM_registerTMCloneTable\n")
            subprocess.run(["gcc", "-shared", "-fPIC", "-o", paths[1], paths[0]], check=True)
            result = subprocess.run([sys.executable, os.path.join(tools, "check_symbols.py"), *paths[1:]],
                                    capture_output=True, text=True, check=False)
            yield f"symbols: {what}", result.returncode == status and word in result.stdout, result.stdout


def vector_cases(tools):
    """Runs check_vectors on small object files. Yields the same kind of results as symbol_cases."""
    for what, name, source, status, word in (
            ("integers pass", "add.c", "int ag_add(int a, int b) { return a + b; }\n", 0, ""),
            ("a double is refused", "add.c", "double ag_add(double a, double b) { return a + b; }\n", 1, "ag_add uses"),
            ("a double in skip.c passes", "skip.c", "double ag_add(double a, double b) { return a + b; }\n", 0, "")):
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, file) for file in (name, name + ".o", "all.a")]
            with open(paths[0], "w", encoding="utf-8") as file:
                file.write(source)
            subprocess.run(["gcc", "-c", "-o", paths[1], paths[0]], check=True)
            subprocess.run(["ar", "rc", paths[2], paths[1]], check=True)
            result = subprocess.run([sys.executable, os.path.join(tools, "check_vectors.py"), paths[2]],
                                    capture_output=True, text=True, check=False)
            yield f"vectors: {what}", result.returncode == status and word in result.stdout, result.stdout


def results(tools):
    """Yields for each case its name, whether the result is right (None: the case was skipped), and the output."""
    for check in sorted({case[1] for case in CASES}):
        status, output = run(tools, check, {})
        yield f"{check}: a clean tree passes", None if status == 77 else status == 0, output
    for what, check, over, word in CASES:
        if word.endswith("c++17") and not shutil.which("g++"):
            continue
        status, output = run(tools, check, over)
        yield f"{check}: {what} is refused", None if status == 77 else status == 1 and word in output or (
            check in ("format", "shell") and status not in (0, 77) and word in output), output
    for what, check, over in PASSING:
        status, output = run(tools, check, over)
        yield f"{check}: {what} passes", status == 0, output
    yield from symbol_cases(tools)
    yield from vector_cases(tools)


def main():
    number = 0
    for name, is_right, output in results(sys.argv[1]):
        number += 1
        skip = " # SKIP no such tool here" if is_right is None else ""
        print(f"{'not ' if is_right is False else ''}ok {number} - {name}{skip}")
        if is_right is False:
            print("\n".join("# " + line for line in output.split("\n")))
    print(f"1..{number}")


main()
