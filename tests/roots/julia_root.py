"""Prepares a folder with the root file system of Debian 11 (make_roots.sh) for tests of Julia 1.5.3, and makes commands that run Julia in this
folder by chroot."""

import os
import shutil
import subprocess

import own_mounts
import recorded

OWN_OPTIONS = ["--startup-file=no", "--history-file=no"]


class Root:
    """path: the root folder; inside: the path of this test's own folder after chroot; folder: the same folder without chroot; library: the shared
    object that is compiled from julia_mixed.c, as a path after chroot."""

    def __init__(self, roots, inside):
        self.path, self.inside = os.path.join(os.path.abspath(roots), "bullseye"), inside
        self.folder, self.library = self.path + inside, inside + "/mixed.so"

    def enter(self, build):
        """Skips the test if there is no root folder with Julia. Otherwise mounts the folders of this machine that the test needs below the root
        folder, in a mount namespace of this process."""
        if not os.path.exists(os.path.join(self.path, "usr/bin/julia")):
            own_mounts.skip_all("no root of bullseye with Julia (tests/roots/make_roots.sh says why)")
        own_mounts.enter()
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        for source in ("/dev/shm", "/proc", os.path.join(build, "adapters/libc"), os.path.join(build, "adapters/julia")):
            own_mounts.bind(source, self.path + source)
        libraries = self.path + "/usr/lib/x86_64-linux-gnu"
        subprocess.run(["gcc", f"--sysroot={self.path}", f"-B{libraries}", f"-L{libraries}", "-g", "-O2", "-fno-builtin", "-shared",
                        "-fPIC", "-o", self.path + self.library, recorded.source_of("julia_mixed.c")], check=True)

    def add(self, *names):
        """Copies programs to the test's folder."""
        for name in names:
            shutil.copy(recorded.source_of(name), self.folder)

    def add_program(self, path):
        """Copies a program of this machine with its libraries, and returns the path of a script that starts it after chroot."""
        folder = self.folder + "/of_this_machine"
        os.makedirs(folder)
        needed = [word for word in subprocess.run(["ldd", path], check=True, capture_output=True, text=True).stdout.split() if word[0] == "/"]
        for file in [path, *needed]:
            shutil.copy(file, folder)
        loader = [os.path.basename(file) for file in needed if os.path.basename(file).startswith("ld-")][0]
        inside, script = self.inside + "/of_this_machine/", folder + "/start"
        with open(script, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {inside}{loader} --library-path {inside} {inside}{os.path.basename(path)} "$@"\n')
        os.chmod(script, 0o755)
        return inside + "start"

    def command(self, arguments, variables=(), options=()):
        return ["chroot", self.path, "/usr/bin/env", "-C", self.inside, "HOME=" + self.inside,
                "JULIA_DEPOT_PATH=" + self.inside + "/depot", *variables, "julia", *OWN_OPTIONS, *options, *arguments]

    def leave(self):
        shutil.rmtree(self.folder, ignore_errors=True)
