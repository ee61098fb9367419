"""Finds the order in which the kernel assigned the pids of one run. Pids wrap around at pid_max (32768 by default). A machine that runs
tests reaches pid_max every few minutes, so the pid of a child may be smaller than its parent's."""

PID_MAX = "/proc/sys/kernel/pid_max"


def first(pids, pid_max=None):
    """Returns the pid that was assigned first. The pids of one run lie close together on the circle of numbers, so the first pid is the
    one after the widest gap.

    pids: not empty; pid_max: the size of the circle (None: that of this machine). Source: proc(5), pid_max."""
    circle = pid_max or int(open(PID_MAX).read())
    known = sorted(set(pids))
    gaps = [(pid - known[i - 1]) % circle or circle for i, pid in enumerate(known)]
    return known[gaps.index(max(gaps))]


def sort(items, pid_and_image):
    """Sorts ITEMS by the order in which their pids were assigned. Items of one pid are sorted by image number, which increases with each exec.

    pid_and_image: a function that returns (pid, image number) of an item."""
    if not items:
        return []
    start = first([pid_and_image(item)[0] for item in items])
    return sorted(items, key=lambda item: (pid_and_image(item)[0] < start, *pid_and_image(item)))
