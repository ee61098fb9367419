#!/usr/bin/env python3
"""run_documents.py ALLOGRAM SOURCE: tests that the options and tutorials in the documents are correct. Prints TAP.

Options: every command line of allogram in the code of the documents and in the examples of a manual page uses only options that
the command's --help lists, views that `report --help` lists, and formats that `export --help` lists.

Tutorials: the commands of docs/tutorials/ are run one after the other, in a folder that contains the C files of examples/, and must print
the output that the page shows. A block "console" has commands (`$ COMMAND`, then the output; `$ COMMAND  # exits with N` if the status is not 0),
a block "diff" changes a file, a block "c" quotes the program. Lines of output are compared without the parts that differ from run to run:
times, process ids, sizes of resident memory and of files, curves. A line `...` stands for any number of lines.

With --show PAGE the script runs PAGE, prints its command blocks with the output of the commands, and compares nothing."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance"))
import tap  # noqa: E402

FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
COMMANDS = "run attach observe control report view explain diff export dump check doctor mcp".split()


# ---- options ----


def code_of(path, text):
    """Returns the lines of code in a document: fenced blocks, indented blocks, code within a text, and examples of a manual page."""
    if path.endswith(".1"):
        blocks = re.findall(r"^\.nf\n(.*?)^\.fi$", text, re.M | re.S)
        return [line for block in blocks for line in block.split("\n")]
    fenced = [line for _, block in FENCE.findall(text) for line in block.split("\n")]
    text = FENCE.sub("", text)
    return fenced + [line for line in text.split("\n") if line.startswith("    ")] + re.findall(r"`(allogram [^`\n]*)`", text)


def invocations(line):
    """Yields (command, options) for each call of allogram in a line. Words after -- belong to another program."""
    line = re.split(r"\s#\s", line)[0]
    for part in re.split(r"\||&&|;|\$\(", line):
        words = part.split()
        for at, word in enumerate(words[:-1]):
            if os.path.basename(word) == "allogram" and words[at + 1] in COMMANDS:
                rest = words[at + 2:]
                rest = rest[:rest.index("--")] if "--" in rest else rest
                yield words[at + 1], [option.strip("`'\"),.]") for option in rest if option.startswith("--")]
                break


def helps(allogram):
    return {command: subprocess.run([allogram, command, "--help"], capture_output=True, text=True, check=True).stdout
            for command in COMMANDS}


def option_faults(help_of, line):
    for command, options in invocations(line):
        text = help_of[command]
        for option in options:
            name, _, value = option.partition("=")
            if not re.search(re.escape(name) + r"(?![\w-])", text):
                yield "allogram %s has no option %s" % (command, name)
            if name == "--view" and command == "report" and value.islower() and not re.search(r"\b%s\b" % value, text):
                yield "there is no view %s" % value
            if name == "--to" and command == "export" and value.islower() and not re.search(r"\b%s\b" % re.escape(value), text):
                yield "there is no format %s" % value


def documents(source):
    pages = [name for name in os.listdir(source) if name.endswith(".md")]
    for below in ("docs", "examples", "adapters"):
        for folder, _, names in os.walk(os.path.join(source, below)):
            pages += [os.path.relpath(os.path.join(folder, name), source) for name in names if name.endswith((".md", ".1"))]
    return sorted(pages)


def check_options(allogram, source):
    help_of = helps(allogram)
    faults, count = [], 0
    for path in documents(source):
        with open(os.path.join(source, path), encoding="utf-8") as file:
            for line in code_of(path, file.read()):
                count += len(list(invocations(line)))
                faults += ["%s: %s: %s" % (path, fault, line.strip()) for fault in option_faults(help_of, line)]
    if count < 50:
        faults.append("only %d command lines were found" % count)
    return faults


# ---- tutorials ----


def stable(line):
    """Returns a line of output without the parts that differ from run to run."""
    line = re.sub(r"[ \u2581-\u2588]*[\u2581-\u2588][ \u2581-\u2588]*", " ~ ", line)
    line = re.sub(r"^\s*0( +[\d.]+)+( \w+)?$", "axis", line)
    line = re.sub(r"\b\d[\d,.]* (ns|us|ms|s|min)\b", "T", line)
    line = re.sub(r"\b(pid|resident at most|allogram:? trace \S+,) [\d.,]+( [KMG]?i?B)?", r"\1 N", line)
    line = line.replace("resident at most N at T", "resident at most N") # the time is not always known
    line = re.sub(r"(\.allogram,) [\d.,]+ [KMG]?i?B", r"\1 N", line)
    return re.sub(r"\s+", " ", line).strip()


def matches(shown, printed):
    """Whether the printed lines match the lines of the page, where `...` stands for any number of lines."""
    shown, printed = [[stable(line) for line in lines] for lines in (shown, printed)]
    groups = [[]]
    for line in shown:
        if line == "...":
            groups.append([])
        else:
            groups[-1].append(line)
    at = 0
    for i, group in enumerate(groups):
        places = [len(printed) - len(group)] if i == len(groups) - 1 else range(at, len(printed) - len(group) + 1)
        places = [place for place in places if place >= at and printed[place:place + len(group)] == group]
        if not places or (i == 0 and places[0] != 0):
            return False
        at = places[0] + len(group)
    return len(groups) > 1 or at == len(printed)


class Tutorial:
    """A tutorial. Its commands are run in `folder`."""

    def __init__(self, allogram, source, page, folder):
        self.folder, self.faults = folder, []
        with open(os.path.join(source, "docs/tutorials", page), encoding="utf-8") as file:
            self.text = file.read()
        examples = os.path.join(source, "examples")
        for name in os.listdir(examples):
            if name.endswith(".c"):
                shutil.copy(os.path.join(examples, name), self.folder)
        self.env = dict(os.environ, PATH=os.path.dirname(allogram) + ":" + os.environ["PATH"], TERM="dumb", COLUMNS="100", LC_ALL="C.UTF-8")
        for name in [name for name in self.env if name.startswith("ALLOGRAM")]:
            del self.env[name]

    def call(self, command):
        outcome = subprocess.run(["sh", "-c", command], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                 stderr=subprocess.STDOUT, timeout=100, check=False)
        return outcome.returncode, outcome.stdout.decode(errors="replace").rstrip("\n").split("\n") if outcome.stdout else []

    def change(self, block):
        """Applies a diff without line numbers: replaces the lines that are unchanged or have a - by those that are unchanged or have a +."""
        head, *lines = block.rstrip("\n").split("\n")
        path = os.path.join(self.folder, head.split()[-1])
        with open(path, encoding="utf-8") as file:
            text = file.read()
        before, after = ["".join(line[1:] + "\n" for line in lines if line[:1] != without) for without in "+-"]
        if text.count(before) != 1:
            self.faults.append("the lines of the diff are not in %s" % head)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace(before, after))

    def console(self, block):
        """Runs the commands of a block. Returns the block with the output that the commands printed."""
        result = []
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, *shown = part.rstrip("\n").split("\n")
            while command.endswith("\\"):
                command = command[:-1] + shown.pop(0).strip()
            ended = re.search(r"# exits with (\d+)$", command)
            status, printed = self.call(command)
            if status != int(ended[1] if ended else 0):
                self.faults.append("%s: exits with %d: %s" % (command, status, "\n".join(printed[-5:])))
            elif not matches(shown, printed):
                self.faults.append("%s: prints\n%s" % (command, "\n".join(printed)))
            result += ["$ " + part.split("\n")[0], *printed]
        return "\n".join(result) + "\n"

    def quotes(self, block):
        texts = []
        for name in os.listdir(self.folder):
            if name.endswith(".c"):
                with open(os.path.join(self.folder, name), encoding="utf-8") as file:
                    texts.append(file.read())
        if not any(block in text for text in texts):
            self.faults.append("no example has these lines:\n" + block)

    def run(self):
        """Runs the page. Returns its blocks of commands, with the output that the commands printed."""
        shown, n_commands = [], 0
        for kind, block in FENCE.findall(self.text):
            if kind == "console":
                n_commands += block.count("\n$ ") + 1
                shown.append(self.console(block))
            elif kind == "diff":
                self.change(block)
            elif kind == "c":
                self.quotes(block)
        if n_commands < 4:
            self.faults.append("the page has only %d commands" % n_commands)
        return shown


def run_tutorial(allogram, source, page):
    """Runs a tutorial. Returns its blocks of commands, with the output that the commands printed, and the faults that were found."""
    with tempfile.TemporaryDirectory(prefix="tutorial-") as folder:
        tutorial = Tutorial(allogram, source, page, folder)
        return tutorial.run(), tutorial.faults


def main():
    allogram, source = map(os.path.abspath, sys.argv[1:3])
    if sys.argv[3:4] == ["--show"]:
        print("\n".join(run_tutorial(allogram, source, sys.argv[4])[0]))
        return 0
    pages = [page for page in sorted(os.listdir(os.path.join(source, "docs/tutorials"))) if page.endswith(".md") and page != "README.md"]
    plan = tap.Plan(1 + len(pages))
    plan.run("options of all command lines", lambda: check_options(allogram, source))
    for page in pages:
        plan.run("tutorial %s prints what it shows" % page, lambda page=page: run_tutorial(allogram, source, page)[1])
    return plan.status()


if __name__ == "__main__":
    sys.exit(main())
