"""Runs a torture program (see run_torture.py) in every mode and compares the runs. A difference is called a finding. The modes are:

    plain      without allogram, twice. A program whose two plain runs differ, or that complains (prints an error), counts as unstable and is not used. If the
               output, status or run time of the program itself differs in another mode, more plain runs follow. If one of these runs shows
               a difference of the same kind, the program is unstable, too, and the finding does not count
    exact      allogram run
    sample     allogram run --mode=sample, with an interval of one byte or more
    whole      allogram attach, from before the first act until the program ends. An exact trace must contain all events of the first process
    attach     attach and detach at random moments while the program repeats its acts
    killed     allogram run; `run` itself or its writer process is killed at a random moment
    removed    allogram run; its live file (the shared memory of the recording) is removed at a random moment. Programs that are executed
               after the removal may be unrecorded if `run` says so. If the first process has ended before the removal, `run` has returned,
               and no process can report a loss; then programs of orphans may be unrecorded
    truncated  allogram run; its live file is cut at a random moment. The recorded processes may end with SIGBUS (SECURITY.md). `run` must
               end with the program's status and leave no file or process
"""

import contextlib
import glob
import os
import random
import re
import shutil
import signal
import subprocess
import time

import surroundings
import trace_truth

MODES = ["exact", "sample", "whole", "attach", "killed", "removed", "truncated"]

ATTACHED = "allogram: attached to "  # printed by attach as soon as it records
CLOSED = b"allogram: the live file in /dev/shm was removed while the program ran"
UNRECORDED = re.compile(rb"^allogram: (\d+) process(?:es were| was) not recorded, because ", re.MULTILINE)

OWN_KINDS = {"output", "status", "stderr", "complaint", "hang"}  # differences in the behavior of the program itself
PLAIN_REPEATS = 8
PLAIN_MILLISECONDS = 250  # for this time each of the PLAIN_REPEATS runs, except the first, repeats its acts


class Finding:
    def __init__(self, mode, kind, text):
        self.mode, self.kind, self.text = mode, kind, text

    def __str__(self):
        return "%s: %s: %s" % (self.mode, self.kind, self.text)


def shell_status(status):
    """Returns the status with which `allogram run` must end if the program ended with the wait status STATUS."""
    if status is None:
        return None
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class Judge:
    """Runs programs in a folder of its own. Each worker process has a Judge."""

    def __init__(self, allogram, builds, folder, has_own_shm, slowness=1.0, falsify=None):
        self.allogram, self.builds, self.folder, self.has_own_shm = allogram, builds, folder, has_own_shm
        self.slowness, self.falsify = slowness, falsify
        self.n_runs, self.n_reported_losses, self.n_refused = 0, 0, 0
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o755)

    # ---- one run ----

    def _prepare(self):
        shutil.rmtree(os.path.join(self.folder, "run"), ignore_errors=True)
        run = os.path.join(self.folder, "run")
        os.makedirs(run)
        os.chmod(run, 0o777)
        truth = os.path.join(run, "truth")
        with open(truth, "wb") as file:
            file.truncate(trace_truth.TRUTH_BYTES)
        os.chmod(truth, 0o666)
        env = {"PATH": "/usr/bin:/bin", "TORTURE_TRUTH": truth, "TORTURE_PLUGINS": self.builds.plugins, "LC_ALL": "C"}
        return run, truth, env

    def _timeout(self, plain):
        return max(20.0, 40 * (plain.seconds if plain else 0.5)) * self.slowness

    def _end_cut(self, mode, ended, plain, findings):
        self.n_runs += 1
        for what in ended.leftovers:
            findings.append(Finding(mode, "left" if "left running" in what else "hang", what))
        if ended.status is None:
            return
        if os.WIFSIGNALED(ended.status):
            findings.append(Finding(mode, "status", "run ended by signal %d" % os.WTERMSIG(ended.status)))
        elif shell_status(ended.status) not in (shell_status(plain.status), 128 + signal.SIGBUS):
            findings.append(Finding(mode, "status", "%s, without allogram %s; stderr: %s" % (
                shell_status(ended.status), shell_status(plain.status), ended.stderr[-300:].decode(errors="replace"))))

    def _end(self, mode, ended, plain, findings, status=None):
        """Compares output and status with those of the plain run, and looks for processes and files that are left."""
        self.n_runs += 1
        for what in ended.leftovers:
            findings.append(Finding(mode, "left" if "left running" in what else "hang", what))
        got = shell_status(ended.status if status is None else status)
        if got is not None and got != shell_status(plain.status):
            findings.append(Finding(mode, "status", "%s, without allogram %s; stderr: %s" % (
                got, shell_status(plain.status), ended.stderr[-300:].decode(errors="replace"))))
        if ended.stdout != plain.stdout:
            findings.append(Finding(mode, "output", "%r, without allogram %r" % (ended.stdout[-300:], plain.stdout[-300:])))
        stderr = b"".join(line for line in ended.stderr.splitlines(True) if not line.startswith(b"allogram: "))
        if b"complaint" in stderr:
            findings.append(Finding(mode, "complaint", stderr[-300:].decode(errors="replace")))
        elif stderr != plain.stderr:
            findings.append(Finding(mode, "stderr", "%r, without allogram %r" % (stderr[-300:], plain.stderr[-300:])))

    def _leftover_files(self, mode, findings):
        if self.has_own_shm:
            for name in surroundings.shared_memory_names():
                findings.append(Finding(mode, "left", "%s in /dev/shm" % name))
                surroundings.remove(name)
        left = [name for name in os.listdir(os.path.join(self.folder, "run")) if name != "truth" and not name.endswith(".allogram")]
        if left:
            findings.append(Finding(mode, "left", "files in the folder of the traces: %s" % left))

    def _ours(self, path):
        return path.startswith(self.builds.folder) or path.startswith(self.folder)

    def _traces(self, run, plain):
        return [trace_truth.Trace(self.allogram, path, self._ours, self._timeout(plain)) for path in sorted(glob.glob(os.path.join(run, "*.allogram")))]

    def _compare(self, mode, run, truth, plain, findings, is_part=False, may_lose=False, may_miss_programs=False):
        traces = self._traces(run, plain)
        asked = [trace.summary for trace in traces[:1]]
        if asked and "lost_events" in asked[0] and asked[0]["lost_events"]["total"] != traces[0].lost:
            findings.append(Finding(mode, "trace", "check counts %d lost events, report %d" % (traces[0].lost, asked[0]["lost_events"]["total"])))
        for trace in traces:
            findings += [Finding(mode, "trace", text) for text in trace.faults]
        try:
            trues = trace_truth.read_truth(truth)
        except OverflowError:
            return
        if self.falsify is not None:
            self.falsify(trues)
        different, n_reported = trace_truth.compare(trues, traces, is_part, may_miss_programs)
        if may_miss_programs:
            n_reported += trace_truth.others_without_trace(truth, traces)
        self.n_reported_losses += n_reported + sum(1 for trace in traces if trace.lost > 0)
        if not may_lose:
            findings += [Finding(mode, "counts", text) for text in different[:4]]
        return n_reported

    def _compare_run(self, mode, run, truth, plain, ended, findings, is_part=False):
        """Compares the traces with the counts. An executed program may have no trace if `run` reports unrecorded programs; `run` must not report
        any if every program has a trace."""
        unrecorded = UNRECORDED.search(ended.stderr)
        n_missed = self._compare(mode, run, truth, plain, findings, is_part, may_miss_programs=unrecorded is not None)
        if unrecorded and n_missed == 0 and not is_part:
            line = ended.stderr[unrecorded.start():].split(b"\n")[0].decode(errors="replace")
            findings.append(Finding(mode, "unrecorded", "%s, but every program has a trace" % line))

    # ---- modes ----

    def plain(self, command, milliseconds=0):
        run, _, env = self._prepare()
        self.n_runs += 1
        if milliseconds > 0:
            env["TORTURE_MILLISECONDS"] = str(milliseconds)
        return surroundings.run(command, run, "plain", env, 20 * self.slowness + milliseconds / 1000)

    def _plain_differences(self, command, plain, kinds):
        """Runs the program without allogram several more times. Returns the differences of these kinds between the runs."""
        found = []
        for i in range(PLAIN_REPEATS):
            again = self.plain(command, PLAIN_MILLISECONDS if i else 0)
            self._end("plain", again, plain, found)
        return [finding for finding in found if finding.kind in kinds]

    def judge(self, command, modes, seed):
        """Runs the program in these modes. Returns the findings, and the reason why the program is unstable or None."""
        plain = self.plain(command)
        again = self.plain(command)
        if plain.leftovers or again.leftovers:
            return [], "the plain program does not end: %s" % (plain.leftovers + again.leftovers)
        if (plain.status, plain.stdout, plain.stderr) != (again.status, again.stdout, again.stderr):
            return [], "two plain runs differ"
        if b"complaint" in plain.stderr or (os.WIFEXITED(plain.status) and os.WEXITSTATUS(plain.status) >= 90):
            return [], "the plain program complains: %s" % plain.stderr[-200:].decode(errors="replace")
        findings = []
        for mode in modes:
            getattr(self, "_" + mode)(command, plain, random.Random("%s %s" % (seed, mode)), findings)
            self._leftover_files(mode, findings)
        own = {finding.kind for finding in findings} & OWN_KINDS
        if own:
            plainly = self._plain_differences(command, plain, own)
            if plainly:
                return [], "%s; the plain program too: %s" % (findings[0], plainly[0])
        return findings, None

    def _run_command(self, run, options, command):
        return [self.allogram, "run", "-o", os.path.join(run, "t.%p.allogram"), *options, "--", *command]

    def _exact(self, command, plain, dice, findings):
        run, truth, env = self._prepare()
        options = dice.choice([[], [], [], ["--free-stacks"], ["--stamp-every=1"], ["--depth=8"]])
        if dice.random() < 0.25:
            env["TORTURE_MILLISECONDS"] = "40"  # repeats the acts, because data that allogram caches in one round may be wrong in the next
        ended = surroundings.run(self._run_command(run, options, command), run, "exact", env, self._timeout(plain))
        self._end("exact", ended, plain, findings)
        self._compare_run("exact", run, truth, plain, ended, findings)

    def _sample(self, command, plain, dice, findings):
        run, truth, env = self._prepare()
        interval = dice.choice(["1", "1", "1", "300", "4096", "512K"])
        options = ["--mode=sample", "--interval=" + interval, "--seed=%d" % dice.randrange(1 << 30)]
        ended = surroundings.run(self._run_command(run, options, command), run, "sample", env, self._timeout(plain))
        self._end("sample", ended, plain, findings)
        # With an interval of one byte, every block of at least 32 bytes is a sample: the probability that it is none is at most e^-32.
        self._compare_run("sample", run, truth, plain, ended, findings, is_part=interval != "1")

    def _attach_command(self, run, pid, options):
        return [self.allogram, "attach", str(pid), "-o", os.path.join(run, "a.%p.allogram"), *options]

    def _whole(self, command, plain, dice, findings):
        run, truth, env = self._prepare()
        gate = os.path.join(self.folder, "gate")
        with open(gate, "wb"):
            pass
        env["TORTURE_GATE"] = gate
        options = ["--mode=exact"] if dice.random() < 0.7 else ["--interval=1"]
        attached, pids = [], []

        def meanwhile(pid):
            time.sleep(0.01)
            with open(os.path.join(self.folder, "attach.err"), "wb") as err:
                attached.append(subprocess.Popen(self._attach_command(run, pid, options), stdout=err, stderr=err,
                                                 stdin=subprocess.DEVNULL, start_new_session=True))
            end = time.monotonic() + 10 * self.slowness
            while time.monotonic() < end and attached[0].poll() is None and not self._is_attached():
                time.sleep(0.002)
            if self._is_attached():
                pids.append(pid)
            os.unlink(gate)

        ended = surroundings.run(command, run, "whole", env, self._timeout(plain) + 10 * self.slowness, meanwhile)
        self._end("whole", ended, plain, findings)
        self._compare("whole", run, truth, plain, findings, is_part=True)
        if options == ["--mode=exact"] and pids:
            self._compare_whole(run, truth, plain, pids[0], findings)
        self._attach_failures("whole", findings)

    def _compare_whole(self, run, truth, plain, pid, findings):
        """Checks that the trace of process PID, to which allogram attached before the first act, has all allocations and frees that the process
        counted."""
        trues = [true for true in trace_truth.read_truth(truth) if true.pid == pid]
        traces = [trace for trace in self._traces(run, plain) if trues and trace.recorded.number == trues[0].number]
        if trues and traces and not traces[0].says_loss:
            findings += [Finding("whole", "counts", text) for text in trace_truth.differences(trues[0], traces[0].recorded)[:4]]
        elif trues and not traces:
            findings.append(Finding("whole", "counts", "no trace"))

    def _said_by_attach(self):
        with open(os.path.join(self.folder, "attach.err"), "rb") as file:
            return file.read().decode(errors="replace")

    def _is_attached(self):
        return ATTACHED in self._said_by_attach()

    def _attach_failures(self, mode, findings):
        text = self._said_by_attach()
        os.unlink(os.path.join(self.folder, "attach.err"))
        self.n_refused += ATTACHED not in text
        for word in ("core dumped", "Assertion", "Sanitizer", "SIGSEGV"):
            if word in text:
                findings.append(Finding(mode, "attach", text[:300]))

    def _attach(self, command, plain, dice, findings):
        run, truth, env = self._prepare()
        period = 60 + dice.randrange(300)
        env["TORTURE_MILLISECONDS"] = str(period)

        def meanwhile(pid):
            end = time.monotonic() + period / 1000
            with open(os.path.join(self.folder, "attach.err"), "wb") as err:
                while time.monotonic() < end:
                    time.sleep(dice.random() * 0.08)
                    options = dice.choice([["--mode=exact"], ["--mode=exact"], [], ["--interval=100"]])
                    process = subprocess.Popen(self._attach_command(run, pid, options), stdout=err, stderr=err,
                                               stdin=subprocess.DEVNULL, start_new_session=True)
                    time.sleep(dice.random() * 0.15)
                    process.send_signal(dice.choice([signal.SIGINT, signal.SIGTERM, signal.SIGINT, signal.SIGKILL]))
                    try:
                        process.wait(10 * self.slowness)
                    except subprocess.TimeoutExpired:
                        findings.append(Finding("attach", "hang", "attach did not end within 10 s of a signal"))
                        process.kill()
                        process.wait()

        ended = surroundings.run(command, run, "attach", env, self._timeout(plain) + 20 * self.slowness, meanwhile)
        self._end("attach", ended, plain, findings)
        self._compare("attach", run, truth, plain, findings, is_part=True)
        self._attach_failures("attach", findings)

    def _disturbed(self, mode, command, plain, dice, findings, disturb):
        """Runs the program under `allogram run`, and calls `disturb` at a random moment."""
        run, truth, env = self._prepare()
        env["TORTURE_MILLISECONDS"] = "40"
        watched, done = [], []

        def meanwhile(pid):
            end = time.monotonic() + 5 * self.slowness
            while time.monotonic() < end and not trace_truth.was_running(truth):
                time.sleep(0.0005)
            family = surroundings.children_of(pid)
            program = [child for child in family if surroundings.command_of(child).startswith(command[0])]
            watched.extend(program[:1])
            time.sleep(dice.random() * 0.05)
            done.append(disturb(pid, family, program))

        ended = surroundings.run(self._run_command(run, [], command), run, mode, env, self._timeout(plain), meanwhile, watched)
        status = ended.status
        if status is not None and os.WIFSIGNALED(status) and done and done[0] == "run":
            status = ended.program_status if ended.program_status is not None else plain.status
        if mode == "truncated":
            self._end_cut(mode, ended, plain, findings)
        else:
            self._end(mode, ended, plain, findings, status)
        if mode == "removed":
            self._compare(mode, run, truth, plain, findings,
                          may_miss_programs=CLOSED in ended.stderr or done == ["late"] or UNRECORDED.search(ended.stderr) is not None)
        else:
            self._compare(mode, run, truth, plain, findings, may_lose=True)

    def _killed(self, command, plain, dice, findings):
        def disturb(pid, family, program):
            others = [child for child in family if child not in program]
            victim = dice.choice(["run", "writer"]) if others else "run"
            try:
                os.kill(pid if victim == "run" else others[0], signal.SIGKILL)
            except OSError:
                return None
            return victim

        self._disturbed("killed", command, plain, dice, findings, disturb)
        for name in surroundings.shared_memory_names() if self.has_own_shm else []:
            surroundings.remove(name) # files that a killed writer could not remove

    def _live_files(self):
        if not self.has_own_shm:
            return []
        return surroundings.shared_memory_files()

    def _removed(self, command, plain, dice, findings):
        def disturb(_, family, __):
            for path in self._live_files():
                with contextlib.suppress(FileNotFoundError):  # `run` has ended meanwhile
                    os.unlink(path)
            first = [child for child in family if not surroundings.command_of(child).startswith(self.allogram)]
            return "in time" if any(surroundings.is_running(child) for child in first) else "late"

        self._disturbed("removed", command, plain, dice, findings, disturb)

    def _truncated(self, command, plain, dice, findings):
        def disturb(*_):
            for path in self._live_files():
                with contextlib.suppress(FileNotFoundError):  # `run` has ended meanwhile
                    os.truncate(path, dice.choice([0, 0, 4096, 1 << 20, os.path.getsize(path) // 2]))

        self._disturbed("truncated", command, plain, dice, findings, disturb)
