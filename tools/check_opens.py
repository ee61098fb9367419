#!/usr/bin/env python3
"""check_opens [ROOT]: a file whose path comes from a target process, a trace or another file is opened by src/remote/foreign_file.c only.

src/remote/foreign_file.c checks a file before it opens it: it never opens a pipe, a device or a socket, and links below /proc/PID/root
cannot lead out of that root. The modules of FOLDERS get such paths. OWN_PATHS lists, for each source file of FOLDERS, how many calls may
open a file directly, and which paths they open. Except in foreign_file.c, these paths are allogram's own.
"""

import re
import sys

import source_tree

FOLDERS = ("src/remote/", "src/symbol/", "src/observe/", "src/attach/", "src/model/", "adapters/erlang/outside/")
OWN_PATHS = {
    "src/remote/foreign_file.c": (4, "the one place"),
    "src/remote/remote_maps.c": (1, "/proc/PID/maps"),
    "src/remote/remote_process.c": (4, "/proc/PID: small files, maps, task; exe, the link to the running program"),
    "src/remote/remote_memory.c": (1, "/proc/PID/pagemap"),
    "src/observe/generated_code.c": (1, "/proc/PID/status"),
    "src/observe/observation.c": (1, "tracefs"),
    "src/observe/perf_map_file.c": (1, "a file that is created, O_EXCL and O_NOFOLLOW"),
    "src/observe/perf_watch.c": (1, "/proc/sys"),
    "src/attach/agent_files.c": (1, "the live file, which this command made"),
    "src/attach/attaching.c": (1, "/proc/PID/auxv"),
    "src/attach/attachable.c": (1, "/proc/PID/fd, whose links are only read"),
    "adapters/erlang/outside/node_kernel.c": (2, "/proc/PID/task"),
}
OPENING = re.compile(r"(?<![\w>.])(?:(?:open|openat|fopen|freopen|opendir|creat|dwarf_begin|dwfl_report_\w+)\(|SYS_openat2)")


def main():
    root = source_tree.root_of(sys.argv)
    findings = []
    for path in source_tree.files(root, [".c", ".h"]):
        if not path.startswith(FOLDERS):
            continue
        text = source_tree.without_comments("\n".join(source_tree.lines(root, path))).split("\n")
        found = [number for number, line in enumerate(text, 1) for _ in OPENING.findall(line)]
        allowed = OWN_PATHS.get(path, (0, ""))[0]
        if len(found) > allowed:
            findings.append(f"{path}:{found[-1]}: opens a file: use ag_foreign_file_open, or count it among OWN_PATHS")
    source_tree.finish(findings)


main()
