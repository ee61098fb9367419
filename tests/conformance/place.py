"""Where a test builds and runs its programs: on this machine, or in a root (a folder with the root file system of another Debian release,
entered by chroot). allogram itself runs outside of the root."""

import os
import shutil
import tempfile

import recorded


class Place:
    def __init__(self, tools, root=""):
        self.tools, self.root = tools, root
        self.options = ["--sysroot=" + root] if root else []  # options of every `report`

    def __enter__(self):
        self.folder = tempfile.mkdtemp(prefix="allogram-test-", dir=self.root + "/tmp")
        self.inside = self.folder[len(self.root):]  # the folder's path as processes inside of the root see it
        return self

    def __exit__(self, *unused):
        if not os.environ.get("KEEP"):
            shutil.rmtree(self.folder, ignore_errors=True)

    def has(self, program):
        return shutil.which(program, path=self.root + "/usr/bin") is not None

    def path(self, name):
        """Returns the path of a file in the test's folder, as processes inside of the root see it."""
        return os.path.join(self.inside, name)

    def bring(self, source, name=None):
        return self.path(os.path.basename(shutil.copy(source, os.path.join(self.folder, name or os.path.basename(source)))))

    def command(self, command):
        return ["chroot", self.root, *command] if self.root else command

    def run(self, command, **how):
        return recorded.run(self.command(command), **how)

    def record(self, command, folder, **how):
        """Returns the outcome of `allogram run`, and the trace of the program."""
        outcome, traces = recorded.record(self.tools, self.command(command), folder, **how)
        if not traces:
            raise RuntimeError("no trace: %s" % outcome.stderr.decode(errors="replace")[:300])
        return outcome, traces[-1]

    def report(self, trace, *options):
        return recorded.report(self.tools, trace, *self.options, *options)
