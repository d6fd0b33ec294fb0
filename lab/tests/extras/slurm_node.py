# SPDX-License-Identifier: Apache-2.0
"""Debian's Slurm on this machine alone, without services: munged, slurmctld and slurmd in a folder,
on ports of 127.0.0.1, for the time of a `with` block. Takes root."""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
from pathlib import Path

from rubato_lab.servers import free_port
from waiting import eventually

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "sinfo")
CONFIG = """ClusterName=rubato
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmctldPort={control}
SlurmdPort={node}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
NodeName=localhost NodeAddr=127.0.0.1 NodeHostname={host} CPUs={cpus} RealMemory=1000
PartitionName=all Nodes=localhost Default=YES MaxTime=INFINITE State=UP
"""


def missing():
    """What keeps it from running here; empty = nothing."""
    if os.geteuid() != 0:
        return "only root can start Slurm"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    return f"there is no {lacking[0]} here" if lacking else ""


def end(pid_file):
    with contextlib.suppress(OSError, ValueError):
        pid = int(pid_file.read_text(encoding="ascii"))
        os.kill(pid, signal.SIGTERM)
        eventually(Path(f"/proc/{pid}").exists, lambda there: not there)


@contextlib.contextmanager
def slurm_node(folder):
    """The environment for sbatch and its kin."""
    folder = Path(folder)
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    folder.chmod(0o755)
    key = folder / "munge.key"
    key.write_bytes(secrets.token_bytes(1024))
    key.chmod(0o400)
    config = folder / "slurm.conf"
    config.write_text(CONFIG.format(
        folder=folder, control=free_port(), node=free_port(), cpus=os.cpu_count(),
        host=socket.gethostname().partition(".")[0]), encoding="ascii")
    environment = {**os.environ, "SLURM_CONF": str(config)}

    def run(*command):
        return subprocess.run(list(map(str, command)), env=environment, check=True, text=True,
                              capture_output=True).stdout

    with contextlib.ExitStack() as stack:
        stack.callback(end, folder / "munged.pid")
        run("munged", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid", f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed")
        stack.callback(end, folder / "slurmctld.pid")
        run("slurmctld", "-f", config)
        stack.callback(end, folder / "slurmd.pid")
        eventually(lambda: subprocess.run(["sinfo"], env=environment, capture_output=True,
                                          check=False).returncode, lambda status: status == 0)
        run("slurmd", "-f", config, "-N", "localhost")
        eventually(lambda: run("sinfo", "-h", "-o", "%T"), lambda state: "idle" in state)
        try:
            yield environment
        finally:
            subprocess.run(["scancel", "--full", "-u", "root"], env=environment, check=False,
                           capture_output=True)
            with contextlib.suppress(AssertionError):
                eventually(lambda: run("squeue", "-h"), lambda jobs: not jobs.strip())
