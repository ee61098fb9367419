"""Prints the results of test cases in the format TAP (Test Anything Protocol), so that meson counts each case."""

import time
import traceback


class Failures(list):
    """The error messages of a case. If the list is empty, the case passed."""

    def expect(self, what, got, wanted):
        if got != wanted:
            self.append("%s: %s, should be %s" % (what, _short(got), _short(wanted)))

    def require(self, what, holds):
        """WHAT: the condition as a sentence, or the values on which the condition depends."""
        self.fail_unless("does not hold: " + what, holds)

    def fail_unless(self, message, holds):
        """MESSAGE: says what is wrong if HOLDS is false."""
        if not holds:
            self.append(message)


def _short(value):
    text = repr(value)
    return text if len(text) <= 300 else "%s ... (%d characters)" % (text[:300], len(text))


class Plan:
    def __init__(self, n):
        self.n, self.failed = 0, 0
        print("1..%d" % n, flush=True)

    def _line(self, result, name):
        self.n += 1
        print("%s %d %s" % (result, self.n, name), flush=True)

    def skip(self, name, why):
        self._line("ok", "%s # SKIP %s" % (name, why))

    def run(self, name, case):
        begin = time.monotonic()
        try:
            failures = case()
        except Exception as error:  # an exception is a failure of this case; the other cases still run
            where = traceback.extract_tb(error.__traceback__)[-1]
            failures = ["%s: %s (%s:%d)" % (type(error).__name__, error, where.filename.rsplit("/")[-1], where.lineno)]
        self._line("not ok" if failures else "ok", name)
        print("# %.1f s" % (time.monotonic() - begin))
        for failure in failures:
            print("#     " + failure.replace("\n", "\n#     "), flush=True)
        self.failed += bool(failures)

    def status(self):
        return 1 if self.failed else 0
