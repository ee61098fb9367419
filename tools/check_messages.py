#!/usr/bin/env python3
"""check_messages [ROOT [FOLDER]]: checks the messages that a user can see, and lists them.

A message is a string of src/ in a call that prints an error, a note or a line of a report (ERRORS, REPORTS), or that fills a buffer with
such a text (BUFFER). FOLDER/messages.txt gets all messages, sorted, each with its source file, so that they can be read together. The file
contains no help texts.

Refused in error messages: a dot at the end, and a capital at the beginning, unless the word is a name or an option. Refused in all
messages: the words of WRONG (see docs/explanation/adr/0012-words.md). If a format begins with a placeholder, the text after its first colon
is checked.
"""

import os
import re
import sys

import source_tree

ERRORS = ("ag_say", "ag_fail", "ag_error_message", "wrong_value", "unknown_name", "refuse", "find")
REPORTS = ("ag_page_prose", "ag_page_print", "ag_page_text", "observation_note")
BUFFER = re.compile(r"(?:message|why|ret_text|text|lost|missing)\b")
CALL = re.compile(r"\b(%s|snprintf)\(" % "|".join(ERRORS + REPORTS))
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\bPRI[a-zA-Z0-9]+')
NAMES = ("ALLOGRAM_", "AddressSanitizer", "CPU", "Ctrl-C", "BPF", "DWARF", "ELF", "PID", "JSON", "DEBUGINFOD_")
WRONG = ("of before", "at hand", "nothing of it", "nobody", "somebody", "whoever", "is nothing for", "say -o", "of ours", "by us",
         "is wanted", "goes on with", "going on with", "stood for", "no such command", "be told", "are told", "is told", "was told",
         "lets no", "let itself")


def calls(text):
    """(name, arguments) of each call in a text without comments."""
    for match in CALL.finditer(text):
        depth, at = 1, match.end()
        while depth > 0 and at < len(text):
            if text[at] == '"':
                at = LITERAL.match(text, at).end() if LITERAL.match(text, at) else at + 1
                continue
            if text[at] == "'":
                at += 4 if text[at + 1] == "\\" else 3
                continue
            depth += {"(": 1, ")": -1}.get(text[at], 0)
            at += 1
        yield match[1], text[match.end() : at - 1]


def strings(arguments):
    """The string literals; adjacent literals are joined."""
    joined, end = [], None
    for match in LITERAL.finditer(arguments):
        piece = match[1] if match[1] is not None else "u"
        if joined and end is not None and arguments[end : match.start()].strip() == "":
            joined[-1] += piece
        else:
            joined.append(piece)
        end = match.end()
    return [string for string in joined if re.search(r"[a-z]{2}", re.sub(r"%[^a-z]*(?:ll|z)?[a-z]", "", string))]


def without_comments(text):
    """C text with its comments replaced by blanks; string literals remain."""
    return re.sub(r'"(?:[^"\\\n]|\\.)*"|/\*.*?\*/|//[^\n]*', lambda match: match[0] if match[0][0] == '"' else " ", text, flags=re.S)


def messages(root):
    """(text, file, whether it is the message of an error)"""
    found = set()
    for path in source_tree.files(root, [".c"], "src"):
        for name, arguments in calls(without_comments("\n".join(source_tree.lines(root, path)))):
            if name == "snprintf" and not BUFFER.search(arguments.split(",")[0]):
                continue
            for text in strings(arguments):
                found.add((text, path, name not in REPORTS))
    return sorted(found)


def faults(text, is_error):
    """The mistakes in a message; a fragment of a message is checked in the same way."""
    words = re.sub(r"^(?:(?:[a-z-]+|[^ ]*%[^:]*): )+", "", text)  # without the names of command and object at the beginning
    if is_error and re.search(r"[^.]\.(?:\\n)?$", text):
        yield "ends with a dot"
    if is_error and re.match(r"[A-Z]", words) and not words.startswith(NAMES):
        yield "begins with a capital"
    for wrong in WRONG:
        if re.search(r"\b%s\b" % re.escape(wrong), text):
            yield "says '%s'" % wrong


def main():
    root = source_tree.root_of(sys.argv)
    catalog = messages(root)
    if len(sys.argv) > 2:
        with open(os.path.join(sys.argv[2], "messages.txt"), "w", encoding="utf-8") as out:
            for text, path, _ in catalog:
                out.write(f"{text}    [{path}]\n")
    source_tree.finish([f"{path}:1: a message {fault}: {text}" for text, path, is_error in catalog for fault in faults(text, is_error)])


main()
