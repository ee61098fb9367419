#!/usr/bin/env python3
"""small_container ROOT [OPTION...] -- PROGRAM [ARGUMENT...]: makes ROOT the root folder and executes the program there. Called in new user, mount
and PID namespaces (unshare), for tests with programs in containers. Container engines do the same.

    --read-only     mounts the root read-only
    --shm=BYTES     mounts a /dev/shm of this size; without it, the container has no /dev/shm
    --out=FOLDER    mounts a folder of this machine at /out
    --no-proc       mounts no /proc
    --no-ptrace     a seccomp filter refuses ptrace and related calls with EPERM, as those of container engines do
    --only=N,N...   a seccomp filter kills the program if it makes a system call with another number
    --kill=N        a seccomp filter kills the program if it makes the system call with this number
"""

import ctypes
import os
import struct
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE, MNT_DETACH = 1, 32, 4096, 16384, 1 << 18, 2
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
SYS_PIVOT_ROOT = 155
# ptrace, perf_event_open, process_vm_readv, process_vm_writev, kcmp, bpf, userfaultfd, pidfd_getfd
REFUSED = (101, 298, 310, 311, 312, 321, 323, 438)


def done(result, what):
    if result:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), what)


def mount(source, target, kind=None, flags=0, data=None):
    texts = [text.encode() if text else None for text in (source, target, kind, data)]
    done(LIBC.mount(texts[0], texts[1], texts[2], ctypes.c_ulong(flags), texts[3]), target)


ALLOW, KILL, NOT_PERMITTED = 0x7FFF0000, 0x80000000, 0x00050001


def filter_calls(numbers, action, otherwise):
    """Installs a classic BPF program: the number of the call is compared with each number."""
    statements = [(0x20, 0, 0, 0)]  # load the number
    for i, number in enumerate(numbers):
        statements.append((0x15, len(numbers) - i, 0, number))  # equal: jump to the last statement
    statements += [(0x06, 0, 0, otherwise), (0x06, 0, 0, action)]
    program = b"".join(struct.pack("HBBI", *statement) for statement in statements)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(statements), ctypes.addressof(buffer))
    done(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no_new_privs")
    done(LIBC.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, header, 0, 0), "seccomp")


def main():
    at = sys.argv.index("--")
    root, options, program = sys.argv[1], sys.argv[2:at], sys.argv[at + 1:]
    values = dict(option.partition("=")[::2] for option in options)
    mount(None, "/", None, MS_REC | MS_PRIVATE)
    mount(root, root, None, MS_BIND | MS_REC)
    if "--no-proc" not in values:
        mount("proc", root + "/proc", "proc")
    if "--shm" in values:
        mount("tmpfs", root + "/dev/shm", "tmpfs", 0, "size=" + values["--shm"])
    if "--out" in values:
        mount(values["--out"], root + "/out", None, MS_BIND)
    if "--read-only" in values:  # keeps the flags of the file system, which a user namespace may not remove
        mount(None, root, None, MS_REMOUNT | MS_BIND | MS_RDONLY | os.statvfs(root).f_flag & 0xE)
    os.chdir(root)
    done(LIBC.syscall(SYS_PIVOT_ROOT, b".", b"."), "pivot_root")
    done(LIBC.umount2(b".", MNT_DETACH), "umount2")
    os.chdir("/")
    if "--no-ptrace" in values:
        filter_calls(REFUSED, NOT_PERMITTED, ALLOW)
    if "--kill" in values:
        filter_calls([int(values["--kill"])], KILL, ALLOW)
    if "--only" in values:
        filter_calls([int(number) for number in values["--only"].split(",")], ALLOW, KILL)
    os.execve(program[0], program, {"PATH": "/", "HOME": "/"})


main()
