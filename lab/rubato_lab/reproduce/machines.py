# SPDX-License-Identifier: Apache-2.0
"""Machines of the figures: built-in cost files by name, and others that differ from one of them in
a few fields, which are written beside the results."""

import tomllib

from rubato_lab.options import ROOT

BUILTIN = ROOT / "src/sim/costs"
SYNERGY, PERSEPHONE, IDEAL = "synergy-testbed", "persephone-fig1", "ideal"
# The same costs behind one dispatcher, for central policies. Persephone, 4.2: its dispatcher takes
# up to 7 million packets per second; the thesis does not price those of its peers.
SYNERGY_CENTRAL = "synergy-central"
DISPATCHER = "143ns"
# The same, with workers that cut their requests themselves.
SYNERGY_SELF = "synergy-central-self"
DISPATCH_NS = (0, 25, 50, 100, 150, 200)
OVERHEADS_US = (0, 1, 2, 4)


def dispatcher(ns):
    """The ideal machine behind a dispatcher that needs so long per request (Synergy, Fig. 4.1)."""
    return f"dispatcher-{ns}ns"


def preemption(us):
    """Persephone's Fig. 10: half of `us` until the worker notices, half to cut what it runs."""
    return f"preemption-{us}us"


# SBB's published server measures from the receive burst on; what waits in the NIC's ring is not
# seen.
SBB_SERVER = "sbb-server"
# SBB's own simulation (3.3): nothing costs but a steal; flows go where the NIC hashes them.
SBB, SBB_SIMULATION = "sbb-testbed", "sbb-simulation"
# Altocumulus: integrated, behind PCIe, and software on commodity hardware (section VII-A). What a
# software scheduler costs per request is the 5 Mrps that II-D gives for Shinjuku's dispatcher.
AC_INT, AC_RSS = "ac-int", "ac-rss"
AC_SOFTWARE, AC_CENTRAL = "altocumulus-software", "altocumulus-central"

# CoreSync's testbed with Memcached, whose capacity (IV-A: "around 3.5 million requests per second")
# leaves 3.57 us beside a service of 1 us; and one that stands still, as the paper's never says its
# does, for 150 us 50 times a second.
CORESYNC, CORESYNC_MEMCACHED = "coresync-testbed", "coresync-memcached"
CORESYNC_STALLS = "coresync-stalls"


def derived():
    """{name: (built-in, {section: {key: value}})}."""
    half = {us: f"{us * 500}ns" for us in OVERHEADS_US}
    central = {"machine": {"dispatcher": DISPATCHER}, "nic": {"delivery": "direct"}}
    return {
        SYNERGY_CENTRAL: (SYNERGY, central),
        SBB_SERVER: (SBB, {"machine": {"latency_from": "reception"}}),
        SBB_SIMULATION: (IDEAL, {"nic": {"delivery": "polled", "steering": "rss", "burst": 64,
                                         "ring_capacity": 65536, "rule_update": "10us"},
                                 "worker": {"steal": "200ns"}}),
        AC_SOFTWARE: (AC_INT, {"nic": {"pcie": "400ns"}, "worker": {"receive": "500ns"}}),
        AC_CENTRAL: (AC_INT, {"machine": {"dispatcher": "200ns"}, "nic": {"pcie": "400ns"}}),
        CORESYNC_MEMCACHED: (CORESYNC, {"worker": {"receive": "2.37us"}}),
        CORESYNC_STALLS: (CORESYNC, {"stalls": {"every": "20ms", "length": "150us",
                                                "hits": "machine"}}),
        SYNERGY_SELF: (SYNERGY, {**central, "preemption": {"clock": "self"}}),
        **{dispatcher(ns): (IDEAL, {"machine": {"dispatcher": f"{ns}ns"}}) for ns in DISPATCH_NS},
        **{preemption(us): (IDEAL, {"preemption": {"clock": "timer-core", "receive": half[us],
                                                   "propagation": half[us]}})
           for us in OVERHEADS_US}}


def _toml(value):
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "[" + ", ".join(_toml(one) for one in value) + "]"
    return str(value)


def text_of(name, base, changes):
    """The cost file of that name. Raises OSError if the built-in is not there."""
    costs = tomllib.loads((BUILTIN / f"{base}.toml").read_text(encoding="utf-8"))
    for section, fields in changes.items():
        costs.setdefault(section, {}).update(fields)
    costs["machine"]["name"] = name
    lines = [f"# {base} but for {changes}"]
    for section, fields in costs.items():
        lines += [f"[{section}]", *(f"{key} = {_toml(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


def write(folder):
    """Writes the derived cost files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, (base, changes) in derived().items():
        (folder / f"{name}.toml").write_text(text_of(name, base, changes), encoding="utf-8")


def argument(name, folder):
    """What `--costs` takes for this machine."""
    return str(folder / f"{name}.toml") if name in derived() else name
