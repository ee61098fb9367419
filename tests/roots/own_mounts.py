"""Mounts that no other process sees, and that end with the test: what a root shows of this machine."""

import os
import shutil
import subprocess
import sys


def enter():
    """Starts the script over with mounts of its own; skips it where that cannot be."""
    if os.environ.get("AG_OWN_MOUNTS"):
        return
    if os.geteuid() != 0 or not shutil.which("unshare") or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        skip_all("mounts need root, and a kernel that lets it")
    os.environ["AG_OWN_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def bind(source, target):
    os.makedirs(target, exist_ok=True)
    subprocess.run(["mount", "--bind", source, target], check=True)


def unbind(target):
    """Of a folder that was made for it."""
    subprocess.run(["umount", target], check=True)
    os.rmdir(target)
