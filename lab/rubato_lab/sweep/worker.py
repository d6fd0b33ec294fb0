# SPDX-License-Identifier: Apache-2.0
"""What runs on Dask's workers: one `rubato sim` a task. A worker whose program has another version
than the client's has none of the resource that tasks ask for, so that it gets none."""

import os
import socket
import tempfile
import time
from pathlib import Path

from rubato_lab import program
from rubato_lab.program import RubatoError

PLUGIN = "rubato-sweep"
RUN_LIMIT_S = 24 * 3600


class SweepPlugin:
    """Set up on each worker as it joins: `files` are {name: content} that runs name. The resource
    of a version is as large as the worker has threads."""

    name = PLUGIN

    def __init__(self, version, files):
        self.version, self.files = version, files
        self.refusal, self.folder = None, None

    @property
    def resource(self):
        return f"rubato {self.version}"

    async def setup(self, worker):
        try:
            found = program.version()
        except RubatoError as error:
            self.refusal = str(error)
            return
        if found != self.version:
            self.refusal = f"has rubato {found}, this sweep {self.version}"
            return
        self.folder = tempfile.TemporaryDirectory(prefix="rubato-sweep-")
        for name, content in self.files.items():
            (Path(self.folder.name) / name).write_bytes(content)
        await worker.set_resources(**{self.resource: worker.state.nthreads})

    async def teardown(self, worker):
        if self.folder:
            self.folder.cleanup()


def refusal_of(dask_worker):
    """Why this worker gets no run; None if it does."""
    plugin = dask_worker.plugins.get(PLUGIN)
    return plugin.refusal if plugin else "has not been set up"


def simulate(words):
    """(what the run printed, seconds it took, who ran it). Raises RubatoError."""
    from distributed import get_worker
    plugin = get_worker().plugins[PLUGIN]
    began = time.monotonic()
    printed = program.run(list(words), cwd=plugin.folder.name, limit_s=RUN_LIMIT_S).decode()
    return printed, time.monotonic() - began, f"{socket.gethostname()}:{os.getpid()}"
