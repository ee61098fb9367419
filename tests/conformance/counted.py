"""Reads the counts of the judge (tests/programs/counting_preload.c), a preloaded library that counts the calls of malloc independently of allogram
and writes one file for each process image (a process before or after an exec)."""

import os
import re
import struct

import pid_order

FIELDS = ("magic", "pid", "allocated_blocks", "allocated_bytes", "freed_blocks", "freed_bytes", "inherited_frees", "ghost_frees",
          "in_use_blocks", "in_use_bytes", "peak_blocks", "peak_bytes", "temporary_blocks", "threads", "overflow")
MAGIC = 0x54434F55


def read(folder):
    """The counters of every process image in `folder`, sorted by pid (see pid_order.py), then by the number of earlier execs."""
    found = []
    for name in os.listdir(folder):
        match = re.fullmatch(r"(\d+)\.(\d+)\.count", name)
        if match:
            found.append((int(match[1]), int(match[2]), name))
    images = []
    for _, _, name in pid_order.sort(found, lambda item: item[:2]):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        values = dict(zip(FIELDS, struct.unpack_from("<%dQ" % len(FIELDS), data)))
        values["exe"] = data[8 * len(FIELDS):].split(b"\0")[0].decode()
        if values["magic"] != MAGIC or values["overflow"]:
            raise RuntimeError("the judge failed in %s: %s" % (name, values))
        images.append(values)
    return images


def environment(preload, folder):
    return {"LD_PRELOAD": preload, "COUNTING_FOLDER": folder}
