"""Finds out, without allogram, whether the debug registers of this machine notice a write. On some virtual machines they do not."""

import ctypes
import os
import struct

PERF_EVENT_OPEN = 298  # the number of the system call on x86_64 (arch/x86/entry/syscalls/syscall_64.tbl of Linux)
PERF_TYPE_BREAKPOINT, HW_BREAKPOINT_W, EXCLUDE_KERNEL_AND_HV = 5, 2, 3 << 5  # linux/perf_event.h, linux/hw_breakpoint.h


def notice_writes():
    word = ctypes.c_uint64(0)
    # struct perf_event_attr in its second version, which has 72 bytes: type, size, config, period, sample_type, read_format, flags,
    # wakeup_events, bp_type, bp_addr, bp_len
    attributes = struct.pack("=IIQQQQQIIQQ", PERF_TYPE_BREAKPOINT, 72, 0, 0, 0, 0, EXCLUDE_KERNEL_AND_HV, 0, HW_BREAKPOINT_W,
                             ctypes.addressof(word), 8)
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = libc.syscall(PERF_EVENT_OPEN, attributes, 0, -1, -1, 0)
    if descriptor < 0:
        return False
    try:
        word.value = 1
        return struct.unpack("=Q", os.read(descriptor, 8))[0] > 0
    finally:
        os.close(descriptor)
