"""Makes torture programs (see run_torture.py) from seeds. A program is a tree of acts (its steps), written as text (host/nodes.h).

A program must not do what POSIX forbids. So which acts are possible at a place of the tree depends on the place. The class Place describes a
place: for instance, whether the process has other threads (a child that such a process forks may call only certain functions), whether a filter
or a limit forbids system calls, and whether the act runs in a signal handler.
"""

import random

ENDINGS = 10
ENDINGS_WITHOUT_LOCKS = [0, 2, 4, 5, 6, 7]  # without exit: in a forked child of a process with threads, exit may wait forever for a lock


class Act:
    def __init__(self, name, numbers=(), children=()):
        self.name, self.numbers, self.children = name, list(numbers), list(children)

    def text(self):
        return "%s(%s)" % (self.name, ",".join([str(n) for n in self.numbers] + [child.text() for child in self.children]))

    def names(self):
        """Returns the names of all acts in this tree."""
        found = {self.name}
        for child in self.children:
            found |= child.names()
        return found

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()

    def without(self, path):
        """Returns a copy of the tree without the act at `path` (a list of indices of children, from the root on)."""
        if len(path) == 1:
            return Act(self.name, self.numbers, self.children[: path[0]] + self.children[path[0] + 1 :])
        children = list(self.children)
        children[path[0]] = children[path[0]].without(path[1:])
        return Act(self.name, self.numbers, children)

    def replaced(self, path, act):
        if not path:
            return act
        children = list(self.children)
        children[path[0]] = children[path[0]].replaced(path[1:], act)
        return Act(self.name, self.numbers, children)

    def at(self, path):
        return self if not path else self.children[path[0]].at(path[1:])

    def paths(self):
        """Returns the paths of all acts but the root, outer acts first."""
        found = []
        level = [(i,) for i in range(len(self.children))]
        while level:
            found += level
            level = [path + (i,) for path in level for i in range(len(self.at(path).children))]
        return found


def parse(text):
    """The inverse of Act.text()."""

    def one(at):
        begin = at
        while text[at] not in "(":
            at += 1
        act = Act(text[begin:at])
        at += 1
        while text[at] != ")":
            if text[at].isalpha():
                child, at = one(at)
                act.children.append(child)
            else:
                begin = at
                while text[at] not in ",)":
                    at += 1
                act.numbers.append(int(text[begin:at]))
            if text[at] == ",":
                at += 1
        return act, at + 1

    return one(0)[0]


class Place:
    """The state of the process in which an act runs."""

    def __init__(self, own_malloc, depth=0, threaded=False, orphaned=False, filtered=False, limited=False, quiet=False, stacked=False, fresh=False):
        self.own_malloc = own_malloc  # malloc is the program's own
        self.depth = depth
        self.threaded = threaded  # other threads of this process run acts
        self.orphaned = orphaned  # this is a forked child of a process with threads: locks of the C library may be held forever
        self.filtered = filtered  # some system calls fail
        self.limited = limited  # the process has closed its descriptors, or has a resource limit (setrlimit)
        self.quiet = quiet  # the act runs in a signal handler
        self.stacked = stacked  # the act runs on a coroutine's stack: pthread_exit cannot unwind to the thread's first frame
        self.fresh = fresh  # the program contains generated code (fresh_source.py)

    def inside(self, **changes):
        place = Place(self.own_malloc, self.depth + 1, self.threaded, self.orphaned, self.filtered, self.limited, self.quiet,
                      self.stacked, self.fresh)
        for name, value in changes.items():
            setattr(place, name, value)
        return place

    def forked(self, **changes):
        return self.inside(threaded=False, orphaned=self.orphaned or self.threaded, **changes)

    def executed(self):
        """Returns the place of an act in an executed program, which has only the properties that remain after exec."""
        return Place(self.own_malloc, self.depth + 1, filtered=self.filtered, limited=self.limited, fresh=self.fresh)


def is_always(_):
    return True


def loads(place):
    """Whether an act may open files and load objects."""
    return not (place.orphaned or place.filtered or place.limited)


def loads_nothing(place):
    """Whether shared objects cannot be loaded. Then pthread_exit and pthread_cancel are not possible, because their first call loads libgcc_s."""
    return not loads(place)


def executes(place):
    return not (place.filtered or place.limited)


def is_alone(place):
    """Whether all system calls work, and no lock is held by a thread that does not exist in this process."""
    return not place.orphaned and not place.filtered


def numbers_of(dice, name, place):
    # Chooses the arguments of an act after its seed. The comment before each act in host/ describes the arguments.
    below = dice.randrange
    if name == "churn":
        return [10 + below(300)]
    if name == "numbers":
        return [5 + below(80)]
    if name == "deep":
        return [1 + below(200), 1 + below(15)]
    if name == "jump":
        return [1 + below(15)]
    if name == "threads":
        return [1 + below(4), below(4), dice.choice([0, 2] if loads_nothing(place) else [0, 1, 2])]
    if name == "passing":
        return [5 + below(60)]
    if name == "cancel":
        return [below(3)]
    if name == "exiting":
        return [1 + below(10)]
    if name == "fork":
        how = 0 if (place.threaded or place.orphaned) else below(4)
        if place.threaded or place.orphaned:
            return [how, dice.choice(ENDINGS_WITHOUT_LOCKS)]
        return [how, below(ENDINGS - (loads_nothing(place) or place.stacked))]
    if name == "vfork":
        return [below(12), (below(2) if executes(place) else 0) + (0 if place.orphaned else dice.choice([0, 2]))]
    if name == "odds":
        return [5 + below(60)]
    if name in ("waits", "cxx"):
        return [1 + below(5)]
    if name in ("faults", "leave", "tls"):
        return [1 + below(6)]
    if name == "orphan":
        return [below(30)]
    if name == "shell":
        return [below(2)]
    if name == "clone":
        return [below(12), below(6)]
    if name == "spawn":
        return [below(4)]
    if name == "execute":
        return [below(4)]
    if name == "handler":
        return [below(3), below(2)]
    if name == "timer":
        kinds = [0, 2, 3] if place.threaded or place.orphaned else [0, 1, 2, 3]
        return [dice.choice(kinds)]
    if name == "crashes":
        return [below(3)]
    if name in ("contexts", "coroutines"):
        return [below(5), 1 + below(8), 1 + below(6)]
    if name in ("plugins", "converters", "locales", "mappings"):
        return [1 + below(12)]
    if name == "names":
        return [1 + below(5)]
    if name == "library":
        return [1 + below(5)]
    if name == "atexits":
        return [below(2)]
    if name == "namespaces":
        return [below(64)]
    if name == "user":
        return [below(2)]
    if name == "seccomp":
        return [below(3), below(2)]
    if name == "limits":
        return [below(5), below(2)]
    return []


LEAVES = {
    "churn": (8, is_always),
    "numbers": (4, is_always),
    "deep": (3, is_always),
    "edges": (1, is_always),
    "jump": (2, is_always),
    "passing": (2, is_alone),
    "cancel": (2, lambda place: is_alone(place) and loads(place)),
    "exiting": (2, is_alone),
    "vfork": (3, is_always),
    "clone": (2, is_always),
    "timer": (2, lambda place: not place.filtered and not place.quiet),
    "crashes": (2, lambda place: not place.filtered and not place.quiet and not place.limited),
    "contexts": (3, lambda place: not place.quiet),
    "coroutines": (3, lambda place: not place.quiet),
    "plugins": (3, loads),
    "converters": (3, loads),
    "names": (1, loads),
    "locales": (1, loads),
    "mappings": (3, is_always),
    "library": (1, loads),
    "odds": (3, is_always),
    "waits": (1, lambda place: loads(place) and is_alone(place)),
    "leave": (2, lambda place: not place.filtered),
    "tls": (1, is_alone),
    "cxx": (2, loads),
    "fresh": (12, lambda place: place.fresh),
}

INNER = {
    "threads": (6, lambda place: not place.orphaned and not place.quiet and not place.limited),
    "fork": (6, is_always),
    "spawn": (2, executes),
    "execute": (2, executes),
    "descriptors": (1, lambda place: not place.threaded and not place.orphaned),
    "handler": (3, lambda place: not place.filtered),
    "atexits": (1, lambda place: not place.threaded and not place.orphaned and not place.filtered),
    "namespaces": (2, lambda place: not place.filtered),
    "faults": (2, is_always),
    "orphan": (1, lambda place: not place.filtered),
    "shell": (1, lambda place: executes(place) and is_alone(place)),
    "atforks": (1, lambda place: not place.threaded and not place.orphaned),
    "user": (1, lambda place: not place.filtered),
    "seccomp": (2, lambda place: not place.orphaned),
    "limits": (1, lambda place: not place.orphaned),
    "program": (1, is_always),
}


def inner_place(name, act_numbers, place):
    if name == "threads":
        return place.inside(threaded=place.threaded or act_numbers[1] > 1)
    if name in ("fork", "atexits", "namespaces", "user", "faults", "orphan", "atforks"):
        return place.forked()
    if name == "descriptors":
        return place.forked(limited=True)
    if name == "seccomp":
        return place.forked(filtered=True)
    if name == "limits":
        return place.forked(limited=True)
    if name in ("spawn", "execute", "shell"):
        return place.executed()
    if name == "handler":
        return place.inside(quiet=True)
    return place.inside()


def choose(dice, table, place, allowed):
    names = [name for name, (_, may) in table.items() if may(place) and (allowed is None or name in allowed)]
    if not names:
        return "churn"
    return dice.choices(names, [table[name][0] for name in names])[0]


def make_act(dice, place, budget, allowed):
    is_inner = place.depth < 4 and budget[0] > 0 and dice.random() < 0.45
    name = choose(dice, INNER if is_inner else LEAVES, place, allowed)
    numbers = [dice.randrange(1000000)] + numbers_of(dice, name, place)
    act = Act(name, numbers)
    budget[0] -= 1
    if name in INNER:
        below = inner_place(name, numbers, place)
        n_children = 1 if name in ("spawn", "execute", "shell") else dice.randrange(1, 4)
        act.children = [make_act(dice, below, budget, allowed) for _ in range(n_children)]
    elif name in ("contexts", "coroutines") and place.depth < 4 and budget[0] > 0 and dice.random() < 0.3:
        act.children = [make_act(dice, place.inside(stacked=True), budget, allowed)]
    return act


def make_program(seed, own_malloc, fresh=False, allowed=None):
    """Returns the program of a seed: an Act with the name program, whose second number is the way in which the program ends."""
    dice = random.Random(seed)
    budget = [dice.choice([3, 6, 10, 16])]
    children = [make_act(dice, Place(own_malloc, fresh=fresh), budget, allowed) for _ in range(dice.randrange(1, 6))]
    return Act("program", [seed, dice.choice([0, 0, 0, *range(ENDINGS)])], children)
