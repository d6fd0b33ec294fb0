# SPDX-License-Identifier: Apache-2.0
"""Machines of the figures: built-in cost files by name, and others that differ from one of them in
a few fields, which are written beside the results."""

import tomllib

from rubato_lab.options import ROOT

BUILTIN = ROOT / "src/sim/costs"
SYNERGY, PERSEPHONE, IDEAL = "synergy-testbed", "persephone-fig1", "ideal"
# The same costs behind one dispatcher, for central policies. Persephone, 4.2: its dispatcher takes
# up to 7 million packets per second; its code has rings of 128.
SYNERGY_CENTRAL = "synergy-central"
DISPATCHER = "143ns"
PERSEPHONE_RING = {"ring_capacity": 128}
# Shinjuku's dispatcher hands out "close to 4.5 million 1us RPS without preemption" on this CPU
# (Persephone, 5.4). What comes back cut is handed out once more, at the same price (Altocumulus,
# II-D: so many hand-overs per second). It cuts every slice (the published code), and an interrupt
# takes 1993 cycles in all (the thesis, 3.3.1), here of 2.6 GHz. assumed: 300 of them on the
# dispatcher, 500 on the way; a ring of 512.
SYNERGY_SHINJUKU = "synergy-shinjuku"
HAND_OVER = "222ns"
HANDS_OUT_AGAIN = {"put_back": HAND_OVER, "ring_capacity": 512}
CUTS_ALL = {"clock": "dispatcher", "cuts": "all"}
SHINJUKU_IPI = {"send": "115ns", "propagation": "192ns", "receive": "459ns", "done": "0ns"}
# The same with a compiler's interrupts (Shinjuku-CI, Concord), priced as SYNERGY's. Concord's
# dispatcher knows what it gave to whom: its looks and puts are part of that price.
SYNERGY_CI, SYNERGY_CONCORD = "synergy-ci", "synergy-concord"
COUNTED = {"worker": {"look": "0ns", "put": "0ns"}}
# Tiny Quanta: workers that cut their requests themselves, behind a dispatcher of 12 million
# requests per second (the thesis, 3.3.4).
SYNERGY_SELF = "synergy-central-self"
TQ_DISPATCHER = "83ns"
# LevelDB's lock (Synergy, Fig. 6.4): each GET and each SCAN takes it at its beginning and at its
# end. bench/leveldb_locks.cc measures 230 ns in all for a SCAN from a table (a GET: 8), with
# LevelDB 1.23 on an EPYC; what is longer goes for all. A SYNERGY request that finds it taken
# yields, others wait.
SYNERGY_LEVELDB, SYNERGY_CI_LEVELDB = "synergy-leveldb", "synergy-ci-leveldb"
SYNERGY_CONCORD_LEVELDB = "synergy-concord-leveldb"
LEVELDB = {"count": 2, "length": "115ns"}
# Table 5.1's other methods of interrupting (Synergy, Fig. 6.7): p50 and p99.9.
SYNERGY_SIGNAL, SYNERGY_IPI, SYNERGY_UINTR = "synergy-signal", "synergy-ipi", "synergy-uintr"
TABLE_5_1 = {
    SYNERGY_SIGNAL: {"send": ["746ns", "929ns"], "propagation": ["2216ns", "2533ns"],
                     "receive": ["1434ns", "3185ns"], "done": ["641ns", "677ns"]},
    SYNERGY_IPI: {"send": ["490ns", "549ns"], "propagation": ["1225ns", "1659ns"],
                  "receive": ["728ns", "2516ns"], "done": ["100ns", "138ns"]},
    SYNERGY_UINTR: {"send": ["171ns", "236ns"], "propagation": ["671ns", "1354ns"],
                    "receive": ["464ns", "1534ns"], "done": ["45ns", "105ns"]}}
DISPATCH_NS = (0, 25, 50, 100, 150, 200)
OVERHEADS_US = (0, 1, 2, 4)


def dispatcher(ns):
    """The ideal machine behind a dispatcher that needs so long per request (Synergy, Fig. 4.1)."""
    return f"dispatcher-{ns}ns"


def preemption(us):
    """Persephone's Fig. 10: half of `us` until the worker notices, half to cut what it runs."""
    return f"preemption-{us}us"


# Persephone's testbed (5.1): 10 us of network; its dispatcher takes up to 7 million packets per
# second (4.2). Shinjuku's as above, a preemption costs 1 us (2), of which 115 ns are assumed on the
# dispatcher. Shenango's workers steal for 200 ns (SBB 3.3, "following the prior work's
# configuration"); its packets go where RSS has them.
PSP, PSP_SHINJUKU, PSP_SHENANGO = "psp-testbed", "psp-shinjuku", "psp-shenango"

# SBB's published server measures from the receive burst on; what waits in the NIC's ring is not
# seen. It cuts at every quantum (4.3).
SBB_SERVER = "sbb-server"
# SBB's own simulation (3.3): nothing costs but a steal; flows go where the NIC hashes them.
SBB, SBB_SIMULATION = "sbb-testbed", "sbb-simulation"
# SBB's peers on its server: a dispatcher takes 200 ns per packet (2.3.2, "measured on our
# machine"), that of TQ what is said above. Shinjuku's interrupt is 1878 cycles of 1.9 GHz (Table
# 4), of which 300 are assumed on the dispatcher. TQ and Concord use a compiler's interrupts,
# assumed to cost what they do in synergy-testbed.
SBB_SHINJUKU, SBB_CONCORD, SBB_TQ = "sbb-shinjuku", "sbb-concord", "sbb-tq"
# Cores that are shared with best-effort work (SBB 6.3), as clients see it, 9 us away (6.5). SBB's
# are woken by the NIC, in what a conventional interrupt takes (6.5; sbb-testbed says why), those
# of Caladan by its IOKernel, in the same time; its workers see what has come for another. Those of
# Skyloft have their cores to themselves, behind a dispatcher of 200 ns per packet (2.3.2).
SBB_SHARED, SBB_CALADAN, SBB_SKYLOFT = "sbb-shared", "sbb-caladan", "sbb-skyloft"
# Drawn only: as if interrupts that wake a worker took what those in user space do (6.5).
SBB_SHARED_FAST = "sbb-shared-fast"
SBB_CLIENT = {"network_rtt": "9us"}
# Altocumulus: integrated, behind PCIe, and software on commodity hardware (section VII-A). What a
# software scheduler costs per request is the 5 Mrps that II-D gives for Shinjuku's dispatcher,
# which cuts every slice; interrupts are those of ac-int, 1 us in all (II-D).
AC_INT, AC_RSS = "ac-int", "ac-rss"
# The same with messages by rdmsr and wrmsr (IX-D), priced as in ac-int-msr.toml.
AC_RSS_MSR = "ac-rss-msr"
AC_SOFTWARE, AC_CENTRAL = "altocumulus-software", "altocumulus-central"

# CoreSync's testbed with Memcached, whose capacity (IV-A: "around 3.5 million requests per second")
# leaves 3.57 us beside a service of 1 us. Both with the published update of the credits, which
# reads them, walks two lists of sixteen cores and writes them: 185 ns of such code on an idle EPYC
# of 2.6 GHz, rounded up, as the testbed's CPU is slower.
CORESYNC, CORESYNC_PUBLISHED = "coresync-testbed", "coresync-published"
CORESYNC_MEMCACHED = "coresync-memcached"
CREDIT_UPDATE = {"cores": {"credit_update": "200ns"}}
# The same, on 18 hardware threads (of 20, two are the IOKernel's). Its scheduler "simple" puts a
# thread beside another first, "ias" on a core of its own. A slowdown of 120 % beside a busy sibling
# is fitted: it brings the 150 % column of Table I. The testbed's prices hold what siblings cost;
# without it 16 threads at 1.2 Mrps have 11.1 us per request, 1.1 us beside the service. That is the
# capacity at 10 us; at 1 us these prices give 6.2 Mrps, where IV-A says 4. A refusal is half of
# what receiving and sending costs, a message with credits half of that, as in the testbed.
CORESYNC_PACKED, CORESYNC_SPREAD = "coresync-packed", "coresync-spread"
SIBLINGS = {"threads": 18, "slowdown": 120}
ALONE_NS = {"receive": 690, "send": 420}
ALONE = {key: f"{ns}ns" for key, ns in ALONE_NS.items()}
ALONE_CORES = {"refuse": f"{sum(ALONE_NS.values()) // 2}ns",
               "credit_message": f"{sum(ALONE_NS.values()) // 4}ns", **CREDIT_UPDATE["cores"]}
# What a steal costs its victim in SBB: its lock and the lines of its queue come back, two or three
# from another core's cache, as a request that moves (sbb-testbed, cache_transfer: assumed).
STOLEN_FROM = "250ns"
SBB_VICTIMS = "sbb-server-victims"
VICTIMS_NS = (250, 500)


def simulated_victims(ns):
    """SBB's own simulation, with a steal that costs its victim so long."""
    return f"sbb-simulation-victims-{ns}ns"


# Machines that differ from a figure's in one thing, which its probes isolate: no network; what
# queues move between cores, as `calibrate` may measure it; a NIC that hands to idle cores what has
# arrived at busy ones; a dispatcher that pays the 1 us of an interrupt (Altocumulus, II-D) itself.
SYNERGY_NO_NETWORK, SYNERGY_CONCORD_LINES = "synergy-no-network", "synergy-concord-lines"
# Concord's dispatcher serves requests while no worker has room for them (its section 3.3).
SYNERGY_CONCORD_SERVES = "synergy-concord-serves"
AC_SOFTWARE_DIRECT, AC_CENTRAL_PAYS = "altocumulus-software-direct", "altocumulus-central-pays"


def _of_leveldb(changes, lock):
    """The machine of `changes` with LevelDB's lock."""
    return {**changes, "critical_sections": {**LEVELDB, "lock": lock}}


SIMULATED = {"nic": {"delivery": "polled", "steering": "rss", "burst": 64, "ring_capacity": 65536,
                     "rule_update": "10us"}, "worker": {"steal": "200ns"}}
# What arrives at a core lies in its ring until that core polls, or an idle one takes it.
SOFTWARE = {"nic": {"pcie": "400ns", "delivery": "polled"}, "worker": {"receive": "500ns"}}
CENTRAL = {"machine": {"dispatcher": "200ns"}, "nic": {"pcie": "400ns"},
           "dispatcher": {"put_back": "200ns"}, "preemption": CUTS_ALL}


def _isolating(concord):
    """The machines of probes. `concord` are the changes of Concord's."""
    return {
        SYNERGY_NO_NETWORK: (SYNERGY, {"machine": {"network_rtt": "0ns"}}),
        SYNERGY_CONCORD_SERVES: (SYNERGY, {
            **concord, "dispatcher": {**concord["dispatcher"], "idle": "serves"}}),
        SYNERGY_CONCORD_LINES: (SYNERGY, _of_leveldb(
            {**concord, "worker": {**COUNTED["worker"], "shared_line": "70ns"}}, "spin")),
        AC_SOFTWARE_DIRECT: (AC_INT, {**SOFTWARE, "nic": {"pcie": "400ns"}}),
        AC_CENTRAL_PAYS: (AC_INT, {**CENTRAL, "preemption": {
            **CUTS_ALL, "send": "1us", "propagation": "0ns", "receive": "0ns"}}),
        **{simulated_victims(ns): (IDEAL, {**SIMULATED, "worker": {
            **SIMULATED["worker"], "stolen_from": f"{ns}ns"}}) for ns in VICTIMS_NS}}


def derived():
    """{name: (built-in, {section: {key: value}})}."""
    half = {us: f"{us * 500}ns" for us in OVERHEADS_US}
    central = {"machine": {"dispatcher": DISPATCHER}, "nic": {"delivery": "direct"},
               "dispatcher": PERSEPHONE_RING}
    handed = {"machine": {"dispatcher": HAND_OVER}, "nic": {"delivery": "direct"},
              "dispatcher": HANDS_OUT_AGAIN}
    by_sbb = {"machine": {"dispatcher": "200ns"}, "nic": {"delivery": "direct"},
              "dispatcher": {"put_back": "200ns", "ring_capacity": 512}}
    compiled_dispatcher = {**handed, "preemption": CUTS_ALL}
    concord = {**compiled_dispatcher, **COUNTED}
    compiled = {"send": ["70ns", "150ns"], "propagation": ["150ns", "500ns"], "receive": "15ns",
                "done": "10ns", "arm": "20ns"}
    return {
        SYNERGY_CENTRAL: (SYNERGY, central),
        SYNERGY_SHINJUKU: (SYNERGY, {**handed, "preemption": {**CUTS_ALL, **SHINJUKU_IPI}}),
        SYNERGY_CI: (SYNERGY, compiled_dispatcher),
        SYNERGY_CONCORD: (SYNERGY, concord),
        SYNERGY_LEVELDB: (SYNERGY, _of_leveldb({}, "yield")),
        SYNERGY_CI_LEVELDB: (SYNERGY, _of_leveldb(compiled_dispatcher, "spin")),
        SYNERGY_CONCORD_LEVELDB: (SYNERGY, _of_leveldb(concord, "spin")),
        SYNERGY_SELF: (SYNERGY, {"machine": {"dispatcher": TQ_DISPATCHER},
                                 "nic": {"delivery": "direct"}, "preemption": {"clock": "self"}}),
        PSP: (IDEAL, {"machine": {"network_rtt": "10us", "dispatcher": DISPATCHER},
                      "dispatcher": PERSEPHONE_RING}),
        PSP_SHINJUKU: (IDEAL, {"machine": {"network_rtt": "10us", "dispatcher": HAND_OVER},
                               "dispatcher": HANDS_OUT_AGAIN,
                               "preemption": {**CUTS_ALL, "send": "115ns", "receive": "885ns"}}),
        PSP_SHENANGO: (IDEAL, {"machine": {"network_rtt": "10us"}, "nic": {"steering": "rss"},
                               "worker": {"steal": "200ns"}}),
        SBB_SERVER: (SBB, {"machine": {"latency_from": "reception"},
                           "preemption": {"cuts": "all"}}),
        SBB_VICTIMS: (SBB, {"machine": {"latency_from": "reception"},
                            "worker": {"stolen_from": STOLEN_FROM},
                            "preemption": {"cuts": "all"}}),
        SBB_SHINJUKU: (SBB, {**by_sbb, "preemption": {
            **CUTS_ALL, "send": "158ns", "receive": "830ns", "done": "0ns", "arm": "0ns"}}),
        SBB_CONCORD: (SBB, {**by_sbb, **COUNTED, "preemption": {**CUTS_ALL, **compiled}}),
        SBB_TQ: (SBB, {"machine": {"dispatcher": TQ_DISPATCHER}, "nic": {"delivery": "direct"},
                       "preemption": {"receive": "15ns", "done": "10ns", "arm": "20ns"}}),
        **{name: (SBB, {"machine": SBB_CLIENT, "cores": prices, "preemption": {"cuts": "all"}})
           for name, prices in ((SBB_SHARED, {"interrupt": "3.4us"}),
                                (SBB_SHARED_FAST, {"interrupt": "450ns", "park": "225ns"}))},
        SBB_CALADAN: (SBB, {"machine": SBB_CLIENT, "nic": {"delivery": "direct"}}),
        SBB_SKYLOFT: (SBB, {**by_sbb, "machine": {**SBB_CLIENT, **by_sbb["machine"]}}),
        SBB_SIMULATION: (IDEAL, SIMULATED),
        AC_RSS_MSR: (AC_RSS, {"manager": {"send": "50ns", "receive": "50ns"}}),
        AC_SOFTWARE: (AC_INT, SOFTWARE),
        AC_CENTRAL: (AC_INT, CENTRAL),
        CORESYNC_PUBLISHED: (CORESYNC, CREDIT_UPDATE),
        **{name: (CORESYNC, {"worker": ALONE, "cores": ALONE_CORES,
                             "hyperthreads": {**SIBLINGS, "placement": placement}})
           for name, placement in ((CORESYNC_PACKED, "pack"), (CORESYNC_SPREAD, "spread"))},
        CORESYNC_MEMCACHED: (CORESYNC, {"worker": {"receive": "2.37us"}, **CREDIT_UPDATE}),
        **{name: (SYNERGY, {"preemption": prices}) for name, prices in TABLE_5_1.items()},
        **_isolating(concord),
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
