"""What every peer's program shares: how a workload is asked for, measured and answered.

    python on_PEER.py WORKLOAD N DIRECTORY

runs one workload with N repetitions, keeps its files below DIRECTORY, and prints one JSON object:

    wall_ns, cpu_ns    of the measured part: user and system time of this process and its ended children
    rss_bytes          how much the resident memory grew, where a workload asks for it
    disk_bytes         what lies below DIRECTORY when everything is closed
    payload_bytes      what was worth storing: arguments and results of the calls
    in_flight          the most model calls that waited at once

A workload the peer has no counterpart for exits with status 3.
"""

import ctypes
import gc
import json
import os
import resource
import sys
import time

UNSUPPORTED = 3
RESULT = "words and more of them " * 44 + "and an end."  # 1,023 characters
RESULT = RESULT + "." * (1024 - len(RESULT))


def cpu_ns():
    total = 0.0
    for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(who)
        total += usage.ru_utime + usage.ru_stime
    return int(total * 1e9)


def rss_bytes():
    """Resident memory after the collector and the allocator gave back what is free."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")


def disk_bytes(directory):
    total = 0
    for folder, _, names in os.walk(directory):
        total += sum(os.path.getsize(os.path.join(folder, name)) for name in names)
    return total


class Measured:
    """The measured part, as a context: `with Measured() as part: …`, then `part.figures`."""

    def __enter__(self):
        self.figures = {}
        self._wall, self._cpu = time.perf_counter_ns(), cpu_ns()
        return self

    def __exit__(self, kind, error, trace):
        self.figures["wall_ns"] = time.perf_counter_ns() - self._wall
        self.figures["cpu_ns"] = cpu_ns() - self._cpu


def main(workloads):
    name, n, directory = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    if name not in workloads:
        print(f"no workload `{name}` here", file=sys.stderr)
        sys.exit(UNSUPPORTED)
    figures = workloads[name](n, directory)
    print(json.dumps(figures), flush=True)
    # Threads of a pool that still wait for work must not keep a finished program.
    os._exit(0)
