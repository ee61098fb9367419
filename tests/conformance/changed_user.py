#!/usr/bin/env python3
"""Programs that change their user after the recording has started, with setpriv, runuser or su, as the entry point of a container does, or
by setuid and exec. Each program must be recorded to its end, and no process of another user may access the files of the recording."""

import os
import shutil
import stat
import subprocess
import sys
import time

import recorded
import tap

NOBODY = 65534
BLOCKS = 2000
SET_AND_EXEC = "import os, sys; os.setgroups([]); os.setgid({0}); os.setuid({0}); os.execv(sys.argv[1], sys.argv[1:])".format(NOBODY)


class Place:
    """A folder that other users may read, with copies of the command, of the library that it preloads, and of the program."""

    def __init__(self, tools):
        self.tools = tools

    def __enter__(self):
        self.folder = recorded.Folder()
        self.path = self.folder.__enter__()
        os.chmod(self.path, 0o755)
        for path in (self.tools.allogram, os.path.join(self.tools.build, "adapters/libc/liballogram-agent.so"),
                     self.tools.program("hidden")):
            shutil.copy(path, self.path)
        self.program = os.path.join(self.path, "hidden")
        return self

    def __exit__(self, *unused):
        self.folder.__exit__(*unused)

    def command(self, *options):
        return [os.path.join(self.path, "allogram"), "run", "-o", os.path.join(self.path, "t.%p.allogram"), *options, "--"]


def recorded_under(tools, wrapper):
    failures = tap.Failures()
    with Place(tools) as place:
        command = [word.replace("PROGRAM", place.program).replace("BLOCKS", str(BLOCKS)) for word in wrapper]
        outcome = recorded.run([*place.command("-q"), *command], timeout=60)
        failures.expect("status", outcome.status, 0)
        failures.expect("standard output", outcome.stdout, b"parent\n")
        traces = [(trace, recorded.report(tools, trace)) for trace in recorded.wait_until_ended(tools, place.path)]
        found = [(trace, summary) for trace, summary in traces if summary["trace"]["command"][0] == place.program]
        failures.expect("traces of the program", len(found), 1)
        for trace, summary in found:
            failures.expect("the trace is whole", recorded.check(tools, trace)[1].get("whole"), True)
            failures.expect("allocated blocks", summary["allocated_blocks"], BLOCKS)
            failures.expect("lost events", summary["lost_events"]["total"], 0)
            failures.expect("owner of the trace", os.stat(trace).st_uid, os.geteuid())
    return failures


def live_folder_of(process):
    """Returns the folder of the live file (the shared memory of a recording) that the process has mapped, or None."""
    try:
        with open("/proc/%d/maps" % process, encoding="utf-8", errors="replace") as maps:
            for line in maps:
                if "/.allogram-live." in line:
                    return os.path.dirname(line.split(None, 5)[5].strip())
    except OSError:
        pass
    return None


def strangers(tools):
    """Another user can learn that a recording exists, and nothing else: this user can neither read nor change the recording's files."""
    failures = tap.Failures()
    with Place(tools) as place:
        process = subprocess.Popen([*place.command("-q"), "sh", "-c", "read line"], stdin=subprocess.PIPE)
        deadline = time.monotonic() + 20
        folder = None
        while folder is None and time.monotonic() < deadline:
            time.sleep(0.02)
            folder = live_folder_of(process.pid)
        failures.require("`run` has mapped a live file", folder is not None)
        names = os.listdir(folder)
        failures.expect("files in the folder of the live file", len(names), 1)
        failures.expect("length of the live file's name", len(names[0]), 32)
        failures.expect("rights of the folder", stat.S_IMODE(os.stat(folder).st_mode), 0o711)
        looking = ("import os, sys\nos.setgroups([]); os.setgid({0}); os.setuid({0})\nfor look in (lambda: os.listdir(sys.argv[1]), "
                   "lambda: open(sys.argv[1] + '/x', 'w'), lambda: os.unlink(sys.argv[2]), lambda: os.rmdir(sys.argv[1]), "
                   "lambda: open('/proc/' + sys.argv[3] + '/maps').read(), lambda: open('/proc/' + sys.argv[3] + '/environ').read()):\n"
                   "    try: look()\n    except OSError: continue\n    print('open')").format(NOBODY)
        outcome = recorded.run([sys.executable, "-c", looking, folder, os.path.join(folder, names[0]), str(process.pid)])
        failures.expect("what another user can do", (outcome.status, outcome.stdout, outcome.stderr), (0, b"", b""))
        process.communicate(b"\n", timeout=20)
        deadline = time.monotonic() + 20
        while os.path.exists(folder) and time.monotonic() < deadline:
            time.sleep(0.02)
        failures.expect("the live file's folder exists after the end", os.path.exists(folder), False)
    return failures


def main():
    tools = recorded.tools_of_arguments()
    user = str(NOBODY)
    wrappers = {"setpriv": ["setpriv", "--reuid=" + user, "--regid=" + user, "--clear-groups", "PROGRAM", "BLOCKS"],
                "runuser": ["runuser", "-u", "nobody", "--", "PROGRAM", "BLOCKS"],
                "su": ["sh", "-c", "su nobody -s /bin/sh -c 'exec PROGRAM BLOCKS'"],
                "setuid and exec in the same process": [sys.executable, "-c", SET_AND_EXEC, "PROGRAM", "BLOCKS"]}
    results = tap.Plan(len(wrappers) + 1)
    for name, wrapper in wrappers.items():
        if os.geteuid() != 0:
            results.skip(name, "only root may become another user")
        elif shutil.which(wrapper[0]) is None:
            results.skip(name, "%s is not installed" % wrapper[0])
        else:
            results.run(name, lambda wrapper=wrapper: recorded_under(tools, wrapper))
    if os.geteuid() == 0:
        results.run("strangers", lambda: strangers(tools))
    else:
        results.skip("strangers", "only root may become another user")
    return results.status()


if __name__ == "__main__":
    sys.exit(main())
