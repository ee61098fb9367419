"""Runs the cases of a test program: each function with the decorator @test is a case."""

import sys
import time

ALLOGRAM, PROGRAMS = sys.argv[1:3]
tests = []


class Skip(Exception):
    """A case raises this exception if it cannot run on this machine. The text is the reason."""


def test(function):
    tests.append(function)
    return function


def run_all(why_none=None):
    """Runs all cases and prints TAP; returns the exit status. If WHY_NONE is given, all cases are skipped, and WHY_NONE is the reason."""
    print(f"1..{len(tests)}")
    n_failed = 0
    for number, case in enumerate(tests, 1):
        name = case.__name__.replace("_", " ")
        begin = time.monotonic()
        try:
            if why_none:
                raise Skip(why_none)
            case()
            print(f"ok {number} {name}")
        except Skip as why:
            print(f"ok {number} {name} # SKIP {why}")
        except Exception as error:  # the other cases still run after a failure
            n_failed += 1
            print(f"not ok {number} {name}\n# {type(error).__name__}: {str(error)[:2000]!r}")
        print(f"# {time.monotonic() - begin:.1f} s", flush=True)
    return 1 if n_failed else 0
