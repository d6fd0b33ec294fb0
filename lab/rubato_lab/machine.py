# SPDX-License-Identifier: Apache-2.0
"""What machine this is, which cores to use, and who else was using them.

Reads /proc and /sys only. CPU times of /proc/stat are in ticks of 1/CLK_TCK seconds."""

import os
import platform
import re
import time
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
CPUS = Path("/sys/devices/system/cpu")


@dataclass(frozen=True)
class CpuTimes:
    """Seconds since boot of one core. `busy` leaves out steal, which nobody here used."""

    busy: float
    steal: float


@dataclass(frozen=True)
class Sample:
    """All cores at one moment, and the seconds the watched processes have used."""

    at_s: float
    cores: dict
    ours_s: float


@dataclass(frozen=True)
class Noise:
    """What happened between two samples, in cores: 0.1 is a tenth of one core."""

    foreign: float
    steal: float
    wall_s: float


def parse_stat(text):
    """/proc/stat to {core: CpuTimes}."""
    cores = {}
    for match in re.finditer(r"^cpu(\d+) (.+)$", text, re.MULTILINE):
        ticks = [int(field) for field in match.group(2).split()]
        user, nice, system = ticks[:3]
        irq = sum(ticks[5:7])
        steal = ticks[7] if len(ticks) > 7 else 0
        cores[int(match.group(1))] = CpuTimes((user + nice + system + irq) / TICKS_PER_S,
                                              steal / TICKS_PER_S)
    return cores


def counts_waiting():
    """Whether the kernel tells how long a thread was ready to run without a core."""
    try:
        ran = Path("/proc/self/schedstat").read_text(encoding="utf-8").split()[0]
    except (OSError, IndexError):
        return False
    return int(ran) > 0


def process_seconds(pid):
    """CPU seconds a process has used, 0 when it is gone."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return 0.0
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def sample(watched_pids=()):
    """Own use counts this process, its finished children and `watched_pids`."""
    own = os.times()
    ours = own.user + own.system + own.children_user + own.children_system
    ours += sum(process_seconds(pid) for pid in watched_pids)
    text = Path("/proc/stat").read_text(encoding="utf-8")
    return Sample(time.monotonic(), parse_stat(text), ours)


def noise_between(before, after):
    wall = max(after.at_s - before.at_s, 1e-9)
    common = before.cores.keys() & after.cores.keys()
    busy = sum(after.cores[c].busy - before.cores[c].busy for c in common)
    steal = sum(after.cores[c].steal - before.cores[c].steal for c in common)
    ours = after.ours_s - before.ours_s
    return Noise(max(busy - ours, 0.0) / wall, max(steal, 0.0) / wall, wall)


def busiest_first(before, after):
    """Cores by what they did between two samples, the busiest first."""
    common = before.cores.keys() & after.cores.keys()
    return sorted(common, key=lambda c: before.cores[c].busy - after.cores[c].busy)


def parse_cpu_list(text):
    """'0,4-6' -> {0, 4, 5, 6}."""
    found = set()
    for part in text.strip().split(","):
        low, _, high = part.partition("-")
        found.update(range(int(low), int(high or low) + 1))
    return found


def siblings_of(core, root=CPUS):
    """The hyper-threads that share a physical core with this one, itself included."""
    try:
        text = (root / f"cpu{core}/topology/thread_siblings_list").read_text(encoding="utf-8")
    except OSError:
        return {core}
    return parse_cpu_list(text)


def package_of(core, root=CPUS):
    """The socket; 0 where the kernel does not tell."""
    try:
        text = (root / f"cpu{core}/topology/physical_package_id").read_text(encoding="utf-8")
    except OSError:
        return 0
    return int(text)


def choose_cores(allowed, by_use, siblings=siblings_of):
    """(server core, generator core): the quietest, and the next one that is not its hyper-thread
    when there is a choice. On one core both are the same."""
    quiet_first = [c for c in reversed(by_use) if c in allowed] or sorted(allowed)
    server = quiet_first[0]
    others = [c for c in quiet_first if c != server]
    apart = [c for c in others if c not in siblings(server)]
    return server, (apart or others or [server])[0]


def cpu_model():
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.machine()
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match.group(1) if match else platform.machine()


def describe():
    """The machine, for a report."""
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)),
            "memory_gib": round(memory_gib, 1),
            "kernel": f"{platform.system()} {platform.release()}",
            "load_average": round(os.getloadavg()[0], 2)}
