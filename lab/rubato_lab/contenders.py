# SPDX-License-Identifier: Apache-2.0
"""Who is compared: command lines of the servers and of the generator."""

import shutil
from dataclasses import dataclass

GET = "get"
REDIS = "redis"
# What the generator is asked to send as the long request of each kind of server.
RUBATO_SCAN = "rangecount"
REDIS_SCAN = "lrange"


@dataclass(frozen=True)
class Contender:
    """A server under test. `scan` names its long request in the generator's mix."""

    name: str
    scan: str


def rubato(policy):
    return Contender(policy, RUBATO_SCAN)


def redis():
    return Contender(REDIS, REDIS_SCAN)


def pinned(core, command):
    """The command on one core; as it is where taskset is missing."""
    if core is None or shutil.which("taskset") is None:
        return list(command)
    return ["taskset", "-c", str(core), *command]


def server_command(contender, binary, port, core):
    if contender.name == REDIS:
        command = ["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "",
                   "--appendonly", "no"]
    else:
        command = [binary, "serve", "kv", "--engine", "memory", "--policy", contender.name,
                   "--workers", 1, "--port", port]
    return [str(word) for word in pinned(core, command)]


@dataclass(frozen=True)
class Load:
    """One run of the generator. With `closed` clients it is a closed loop and has no rate."""

    policy: str
    port: int
    mix: str
    duration_s: float
    keys: int
    value_size: int
    scan_limit: int
    seed: int
    core: int | None
    flows: int
    rate: float = 0.0
    closed: int = 0
    load_keys: bool = False
    watch: int | None = None  # process id of the server, whose stalls are to be noticed


def mix_of(scan, share):
    return f"{GET}:{1 - share:g},{scan}:{share:g}"


def load_command(load, binary, json_path):
    command = [binary, "load", "--target", f"resp://127.0.0.1:{load.port}", "--mix", load.mix,
               "--duration", f"{load.duration_s:g}", "--keys", load.keys,
               "--value-size", load.value_size, "--scan-limit", load.scan_limit,
               "--seed", load.seed, "--note", f"policy={load.policy}", "--note", "workers=1",
               "--json", json_path]
    if load.closed:
        command += ["--closed", load.closed]
    else:
        command += ["--rate", f"{load.rate:.0f}", "--flows", load.flows, "--timeline", "--ccdf"]
    if load.load_keys:
        command.append("--load-keys")
    if load.core is not None:
        command += ["--cpu", load.core]
    if load.watch is not None:
        command += ["--watch", load.watch]
    return [str(word) for word in command]
