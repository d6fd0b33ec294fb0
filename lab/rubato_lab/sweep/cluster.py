# SPDX-License-Identifier: Apache-2.0
"""Where a sweep runs: local[:N], slurm:PROFILE.toml or the address of a Dask scheduler."""

import contextlib
import logging
import os
import tomllib

from rubato_lab.extras import need
from rubato_lab.program import RubatoError

TAKES = "local, local:N, slurm:PROFILE.toml or tcp://HOST:PORT"


def check(text):
    """(kind, rest). Raises RubatoError."""
    kind, _, rest = text.partition(":")
    if kind == "local" and (not rest or (rest.isdigit() and int(rest) > 0)):
        return kind, int(rest) if rest else len(os.sched_getaffinity(0))
    if kind == "slurm" and rest:
        return kind, rest
    if kind in ("tcp", "tls") and rest.startswith("//") and rest.rpartition(":")[2].isdigit():
        return "address", text
    raise RubatoError(f"--cluster takes {TAKES}, not '{text}'")


def slurm(profile):
    """(cluster, jobs) of a profile: keys of dask_jobqueue.SLURMCluster, and `jobs`, how many are
    submitted. Raises RubatoError."""
    jobqueue = need("dask_jobqueue")
    try:
        with open(profile, "rb") as file:
            found = tomllib.load(file)
    except OSError as error:
        raise RubatoError(f"--cluster slurm:{profile}: {error.strerror}") from error
    except tomllib.TOMLDecodeError as error:
        raise RubatoError(f"{profile}: {error}") from error
    jobs = found.pop("jobs", 1)
    if not isinstance(jobs, int) or jobs < 1:
        raise RubatoError(f"{profile}: jobs takes a whole number from 1 on, not {jobs!r}")
    found = {"cores": 1, "processes": found.get("cores", 1), "memory": "1GB", **found}
    try:
        return jobqueue.SLURMCluster(**found, scheduler_options={"dashboard": False}), jobs
    except (TypeError, ValueError) as error:
        raise RubatoError(f"{profile}: {error}") from error


@contextlib.contextmanager
def connected(text):
    """A Client of the cluster, and whether others may join it later. Raises RubatoError."""
    kind, rest = check(text)
    distributed = need("distributed")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    with contextlib.ExitStack() as stack:
        try:
            if kind == "local":
                cluster = stack.enter_context(distributed.LocalCluster(
                    n_workers=rest, threads_per_worker=1, processes=True, host="127.0.0.1",
                    dashboard_address=None, silence_logs=logging.CRITICAL))
            elif kind == "slurm":
                cluster, jobs = slurm(rest)
                stack.enter_context(cluster)
                cluster.scale(jobs=jobs)
            else:
                cluster = rest
            yield stack.enter_context(distributed.Client(cluster, timeout="10s")), kind != "local"
        except (OSError, TimeoutError) as error:
            raise RubatoError(f"--cluster {text}: {error}") from error
