"""Builds the executables of torture programs (see run_torture.py) in several variants, which differ in compiler, optimization, allocator and kind
of executable.

An executable contains all acts (host/). Its argument, the text of a program, says which acts run. So one executable for each variant is
sufficient for all programs. An executable is built once, and again when its sources change. Some programs also have generated C code
(fresh_source.py), which is linked with the objects of a variant.
"""

import hashlib
import os
import subprocess

import fresh_source

HERE = os.path.dirname(os.path.abspath(__file__))
HOST = os.path.join(HERE, "host")

PLUGINS = 6
PLUGIN_SITE = 32
LIBRARIES = ["-lpthread", "-ldl"]
FLAGS = ["-w", "-g0", "-fno-strict-aliasing"]


class Variant:
    """How an executable is built. `way`: apart (each file is compiled separately), whole (all files in one compilation), or lto."""

    def __init__(self, compiler, level, own_malloc=False, way="apart", options=()):
        self.compiler, self.level, self.own_malloc, self.way, self.options = compiler, level, own_malloc, way, list(options)
        self.name = "-".join([compiler, level, "own" if own_malloc else "libc", way, *[o.strip("-").replace("=", "_") for o in options]])


class Fresh:
    """The variant with the C code that is generated from a seed (fresh_source.py)."""

    def __init__(self, seed):
        self.seed, self.recipe = seed, fresh_source.Recipe(seed)
        self.own_malloc, self.way, self.name = self.recipe.own_malloc, "fresh", "fresh-%s" % seed


VARIANTS = [
    Variant("gcc", "O0"),
    Variant("gcc", "O1"),
    Variant("gcc", "O2"),
    Variant("gcc", "O3"),
    Variant("gcc", "O2", options=["-no-pie", "-fno-pie"]),
    Variant("gcc", "O2", options=["-fno-omit-frame-pointer", "-fno-plt"]),
    Variant("gcc", "Os", options=["-fno-asynchronous-unwind-tables"]),
    Variant("gcc", "O2", way="lto"),
    Variant("gcc", "O2", options=["-fstack-protector-all", "-fcf-protection=full"]),
    Variant("clang", "O0"),
    Variant("clang", "O2"),
    Variant("clang", "O3", options=["-march=x86-64-v2"]),
    Variant("gcc", "O0", own_malloc=True),
    Variant("gcc", "O1", own_malloc=True, way="whole"),
    Variant("gcc", "O2", own_malloc=True, way="whole"),
    Variant("gcc", "O3", own_malloc=True, way="whole"),
    Variant("gcc", "O2", own_malloc=True, way="whole", options=["-no-pie", "-fno-pie"]),
    Variant("gcc", "O3", own_malloc=True, way="lto"),
    Variant("gcc", "Os", own_malloc=True, way="whole"),
    Variant("gcc", "O2", own_malloc=True, way="whole", options=["-fno-ipa-stack-alignment"]),
    Variant("clang", "O2", own_malloc=True, way="whole"),
]


def sources(own_malloc):
    left_out = ("libc_malloc.c" if own_malloc else "own_malloc.c", "plugin.c")
    return [name for name in sorted(os.listdir(HOST)) if name.endswith(".c") and name not in left_out]


def fingerprint():
    digest = hashlib.sha256()
    for folder in (HOST, HERE):
        for name in sorted(os.listdir(folder)):
            if name.endswith((".c", ".cc", ".h", ".def")) or name == "variants.py":
                with open(os.path.join(folder, name), "rb") as file:
                    digest.update(file.read())
    return digest.hexdigest()[:16]


def compile_all(commands):
    """Runs compilers, two for each core. If one fails, the others end before the exception is raised."""
    waiting, running, failed = list(reversed(commands)), [], []
    while waiting or running:
        while waiting and not failed and len(running) < 2 * (os.cpu_count() or 1):
            command = waiting.pop()
            running.append((subprocess.Popen(command), command))
        if not running:
            break
        process, command = running.pop(0)
        if process.wait() != 0:
            failed.append(" ".join(command))
    if failed:
        raise RuntimeError("cannot compile the acts: " + "; ".join(failed))


class Builds:
    """The folder with the executables of all variants and the plugins. All users may read the folder, because some programs change their user."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "acts-" + fingerprint())
        self.plugins = self.folder

    def path(self, variant):
        return os.path.join(self.folder, variant.name)

    def shared_files(self):
        """The executables and plugins that all workers use."""
        plugins = [os.path.join(self.folder, name) for name in sorted(os.listdir(self.folder)) if name.endswith(".so")]
        return [self.path(variant) for variant in VARIANTS] + plugins

    def objects(self, variant):
        return [os.path.join(self.folder, variant.name + "." + name + ".o") for name in sources(variant.own_malloc)]

    def make(self):
        if os.path.exists(os.path.join(self.folder, "done")):
            return
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o755)
        commands, links = [], []
        for variant in VARIANTS:
            flags = ["-" + variant.level, *FLAGS, *variant.options, "-I" + HOST]
            link = [variant.compiler, *flags, "-rdynamic"]
            if variant.way == "whole":
                whole = self.path(variant) + ".whole.c"
                with open(whole, "w", encoding="utf-8") as file:
                    file.writelines('#include "%s"\n' % name for name in sources(True))
                commands.append([*link, whole, "-o", self.path(variant), *LIBRARIES])
                continue
            if variant.way == "lto":
                flags.append("-flto")
                link.append("-flto")
            for name, target in zip(sources(variant.own_malloc), self.objects(variant)):
                commands.append([variant.compiler, *flags, "-c", os.path.join(HOST, name), "-o", target])
            links.append([*link, *self.objects(variant), "-o", self.path(variant), *LIBRARIES])
        for k in range(PLUGINS):
            site = PLUGIN_SITE + 2 * k
            commands.append(["gcc", "-shared", "-fPIC", "-O%d" % (k % 3), *FLAGS, "-I" + HOST, "-DPLUGIN_FIRST=plugin_site_%d" % site,
                             "-DPLUGIN_SECOND=plugin_site_%d" % (site + 1), "-DPLUGIN_NUMBER=%d" % site,
                             "-DPLUGIN_PADDING=%d" % (1 + 1500 * k), os.path.join(HOST, "plugin.c"), "-o",
                             os.path.join(self.folder, "plugin_%d.so" % k)])
        commands.append(["g++", "-shared", "-fPIC", "-O2", "-w", "-I" + HOST, os.path.join(HOST, "cxx_plugin.cc"), "-o",
                         os.path.join(self.folder, "cxx_plugin.so")])
        compile_all(commands)
        compile_all(links)
        with open(os.path.join(self.folder, "done"), "w", encoding="utf-8"):
            pass

    def make_fresh(self, fresh, folder):
        """Builds, in FOLDER, the executable from the C code of a seed and the objects of a variant."""
        recipe = fresh.recipe
        base = next(variant for variant in VARIANTS if variant.own_malloc == recipe.own_malloc and variant.way == "apart")
        objects = [path for path in self.objects(base) if not path.endswith((".fresh_none.c.o", ".own_malloc.c.o"))]
        target = os.path.join(folder, fresh.name)
        with open(target + ".c", "w", encoding="utf-8") as file:
            file.write(recipe.text(fresh.seed))
        subprocess.run([recipe.compiler, *recipe.flags, "-I" + HOST, "-rdynamic", target + ".c", *objects, "-o", target, *LIBRARIES],
                       check=True)
        os.chmod(target, 0o755)
        return target
