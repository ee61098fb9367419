"""Mounts folders of this machine into a root folder, for tests that run programs by chroot. The mounts are in a mount namespace of the test, so
other processes do not see the mounts, and the mounts end with the test."""

import os
import shutil
import subprocess
import sys


def arguments():
    """Returns the paths of the root folder and of the build folder from the arguments of the test. Skips the test if the root folder does not
    exist."""
    root, build = (os.path.abspath(path) for path in sys.argv[1:3])
    if not os.path.exists(os.path.join(root, ".complete")):
        skip_all(f"no root {root} (tests/roots/make_roots.sh says why)")
    return root, build


def enter():
    """Executes the script again in a mount namespace of its own. Skips the test if a mount namespace is not permitted."""
    if os.environ.get("AG_OWN_MOUNTS"):
        return
    if os.geteuid() != 0 or not shutil.which("unshare") or subprocess.run(["unshare", "--mount", "true"], check=False).returncode:
        skip_all("mounts need root, and a kernel that permits mount namespaces")
    os.environ["AG_OWN_MOUNTS"] = "1"
    os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, *sys.argv])


def skip_all(why):
    print(f"1..0 # SKIP {why}")
    sys.exit(0)


def bind(source, target):
    os.makedirs(target, exist_ok=True)
    subprocess.run(["mount", "--bind", source, target], check=True)


def unbind(target):
    """Unmounts a folder that bind() made, and removes it."""
    subprocess.run(["umount", target], check=True)
    os.rmdir(target)
