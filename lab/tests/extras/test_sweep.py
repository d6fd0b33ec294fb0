# SPDX-License-Identifier: Apache-2.0
"""Sweeps on Dask's processes, with workers and clients killed. RUBATO_SWEEP_POINTS sets how many
points the sweep with kills has."""

import contextlib
import csv
import io
import os
import signal
import subprocess
import sys
import tempfile
import unittest
from collections import Counter
from pathlib import Path
from unittest import mock

import slurm_node
from rubato_lab.servers import free_port
from rubato_lab.sweep.store import Store
from waiting import eventually

PROGRAM = os.environ["RUBATO_BINARY"]
LIMIT_S = 1200
POINTS = int(os.environ.get("RUBATO_SWEEP_POINTS", "60"))
# The runs that may be in the hands of two workers: engine.AHEAD of each.
UNDERWAY = 6
LOGGED = '#!/bin/sh\n[ "$1" = sim ] && echo "$*" >> "{log}"\nexec "{program}" "$@"\n'
OTHER = '#!/bin/sh\n[ "$1" = --version ] && echo "rubato 0.0.1" && exit 0\nexec "{program}" "$@"\n'


def spec_of(points):
    loads = ", ".join(f"{0.1 + 0.8 * i / points:.6f}" for i in range(points))
    return ('[run]\nworkload = "high-bimodal"\nworkers = 2\nrequests = 2000\npolicy = "ps"\n'
            f"[axes]\nload = [{loads}]\n[seeds]\nleast = 1\n")


ADAPTIVE = ('[run]\nworkload = "high-bimodal"\nworkers = 2\nrequests = 5000\n[axes]\n'
            'policy = ["fcfs", "ps"]\nload = [0.4, 0.6]\n'
            '[seeds]\nleast = 2\nmost = 6\nuntil = "p99_latency=10%"\n')


class SweepTest(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = Path(holder.name)
        self.log = self.folder / "log"
        self.program = self.script("rubato", LOGGED)

    def script(self, name, text):
        path = self.folder / name
        path.write_text(text.format(log=self.log, program=PROGRAM), encoding="utf-8")
        path.chmod(0o755)
        return path

    def spec(self, text):
        path = self.folder / "sweep.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def start(self, *words, program=None):
        process = subprocess.Popen(
            [sys.executable, "-m", *map(str, words)], cwd=self.folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={**os.environ, "RUBATO_BINARY": str(program or self.program),
                 "PYTHONPATH": os.pathsep.join(sys.path)})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        with contextlib.suppress(OSError):
            process.kill()
        process.wait()
        process.stdout.close()

    def lab(self, *words):
        """(exit status, what was printed)"""
        process = self.start("rubato_lab", *words)
        printed, _ = process.communicate(timeout=LIMIT_S)
        return process.returncode, printed

    def parts(self):
        return len(list(self.folder.glob("sweep.store/part-*.parquet")))

    def after(self, parts, process):
        eventually(lambda: self.parts() >= parts or process.poll() is not None,
                   patience_s=LIMIT_S)
        self.assertIsNone(process.poll(), "it ended before it was disturbed")

    def executions(self):
        """{arguments: how often} of the runs that were started for the store."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return Counter(line for line in lines if "--no-wall" in line)

    def all_are_there_once(self, points):
        store = Store(self.folder / "sweep.store")
        stored = sum(len(rows) for rows in self.raw_keys(store).values())
        self.assertEqual(stored, points)
        self.assertEqual(len({k for keys in self.raw_keys(store).values() for k in keys}), points)

    @staticmethod
    def raw_keys(store):
        from pyarrow import parquet
        return {part: parquet.ParquetFile(part).read(["key"])["key"].to_pylist()
                for part in store.parts()}


def workers_of(process):
    listed = subprocess.run(["ps", "-o", "pid=,args=", "--ppid", str(process.pid)],
                            capture_output=True, text=True, check=False).stdout
    return [int(line.split()[0]) for line in listed.splitlines() if "spawn_main" in line]


class Kills(SweepTest):
    def test_neither_dead_workers_nor_dead_clients_lose_or_repeat_a_row(self):
        self.spec(spec_of(POINTS))
        first = self.start("rubato_lab", "sweep", "sweep.toml", "--cluster", "local:2")
        self.after(POINTS // 6, first)
        os.kill(workers_of(first)[0], signal.SIGKILL)
        self.after(POINTS // 3, first)
        first.kill()
        first.wait()
        status, printed = self.lab("sweep", "sweep.toml")
        self.assertEqual(status, 1)
        self.assertIn("--resume goes on, --fresh starts again", printed)
        second = self.start("rubato_lab", "sweep", "sweep.toml", "--cluster", "local:2", "--resume")
        self.after(POINTS // 2, second)
        os.kill(workers_of(second)[-1], signal.SIGKILL)
        printed, _ = second.communicate(timeout=LIMIT_S)
        self.assertEqual(second.returncode, 0, printed)
        self.all_are_there_once(POINTS)
        runs = self.executions()
        self.assertEqual(len(runs), POINTS)
        # Only what a killed process held was started again.
        self.assertLessEqual(sum(runs.values()) - POINTS, 3 * UNDERWAY)
        self.assertEqual(self.lab("sweep", "sweep.toml", "--resume")[0], 0)
        self.assertEqual(self.executions(), runs)


class Results(SweepTest):
    def test_one_and_two_workers_give_the_same_bytes(self):
        self.spec(ADAPTIVE)
        for count in (1, 2):
            status, printed = self.lab("sweep", "sweep.toml", "--cluster", f"local:{count}",
                                       "--store", f"of-{count}")
            self.assertEqual(status, 0, printed)
            status, printed = self.lab("merge", f"of-{count}", "--output", f"merged-{count}")
            self.assertEqual(status, 0, printed)
        first, second = (list((self.folder / f"merged-{n}").glob("part-*"))[0].read_bytes()
                         for n in (1, 2))
        self.assertEqual(first, second)
        status, printed = self.lab("query", "merged-1", "SELECT point, count(*) AS n FROM runs "
                                   "GROUP BY point", "--format", "csv")
        counts = [int(row["n"]) for row in csv.DictReader(io.StringIO(printed))]
        self.assertEqual(len(counts), 4)
        self.assertLess(min(counts), max(counts))  # some points needed more seeds
        self.assertIn("4/4 points done", self.lab("status", "merged-2")[1])
        self.assertRegex(self.lab("report", "merged-2")[1], r"fcfs +0\.4 ")
        page = self.lab("report", "merged-2", "--output", "-")[1]
        self.assertIn("<figure data-figure", page)
        self.assertIn("policy fcfs, load 0.4", page)

    def test_a_worker_of_another_version_is_refused(self):
        self.spec(spec_of(8))
        address = f"tcp://127.0.0.1:{free_port()}"
        self.start("distributed.cli.dask_scheduler", "--host", address, "--no-dashboard")
        for name, program in (("other", self.script("other", OTHER)), ("same", self.program)):
            self.start("distributed.cli.dask_worker", address, "--nthreads", "1", "--name", name,
                       "--no-dashboard", program=program)
        status, printed = self.lab("sweep", "sweep.toml", "--cluster", address)
        self.assertEqual(status, 0, printed)
        self.assertRegex(printed, "worker tcp://127.0.0.1:[0-9]+ is refused: has rubato 0.0.1")
        workers = Store(self.folder / "sweep.store").query("SELECT DISTINCT worker FROM runs")[1]
        self.assertEqual(len(workers), 1)
        self.all_are_there_once(8)


class Trouble(SweepTest):
    def refused(self, *words):
        status, printed = self.lab(*words)
        self.assertNotEqual(status, 0, printed)
        self.assertNotIn("Traceback", printed)
        return printed

    def test_trouble_is_one_line(self):
        self.spec(spec_of(2).replace("workers", "wrokers"))
        self.assertIn("'--wrokers' is not an option", self.refused("sweep", "sweep.toml"))
        self.assertIn("nosuch.toml: No such file", self.refused("sweep", "nosuch.toml"))
        self.spec(spec_of(2))
        self.assertIn("--cluster takes", self.refused("sweep", "sweep.toml", "--cluster", "moon"))
        self.assertIn("there is no store", self.refused("status", "nosuch"))
        (self.folder / "file").write_text("", encoding="utf-8")
        self.assertIn("--store file", self.refused("sweep", "sweep.toml", "--store", "file"))
        self.assertEqual(self.lab("sweep", "sweep.toml", "--cluster", "local:1")[0], 0)
        self.assertIn("nosuch", self.refused("query", "sweep.store", "SELECT nosuch FROM runs"))
        next((self.folder / "sweep.store").glob("part-*")).write_bytes(b"PAR1")
        printed = self.refused("query", "sweep.store", "SELECT 1 FROM runs")
        self.assertRegex(printed, "part-[0-9]+.parquet cannot be read")

    def test_the_job_of_slurm_is_shown(self):
        self.spec(spec_of(2))
        (self.folder / "small.toml").write_text(
            'queue = "debug"\njobs = 3\nmemory = "2GB"\nwalltime = "00:10:00"\n', encoding="utf-8")
        status, printed = self.lab("sweep", "sweep.toml", "--cluster", "slurm:small.toml",
                                   "--dry-run")
        self.assertEqual(status, 0, printed)
        for line in ("3 jobs of", "#SBATCH -p debug", "#SBATCH -t 00:10:00", "distributed.cli"):
            self.assertIn(line, printed)

    @unittest.skipIf(slurm_node.missing(), slurm_node.missing())
    def test_a_sweep_on_slurm_survives_a_job_that_is_cancelled(self):
        self.spec(spec_of(40))
        self.log.touch()
        (self.folder / "node.toml").write_text(
            'jobs = 2\ncores = 1\nmemory = "400MB"\nwalltime = "00:20:00"\ninterface = "lo"\n',
            encoding="utf-8")
        with slurm_node.slurm_node(self.folder / "slurm") as environment, \
                mock.patch.dict(os.environ, environment):
            sweep = self.start("rubato_lab", "sweep", "sweep.toml", "--cluster", "slurm:node.toml")
            eventually(lambda: len(self.executions()), lambda count: count >= 4)
            jobs = subprocess.run(["squeue", "-h", "-t", "R", "-o", "%i"], check=True, text=True,
                                  capture_output=True).stdout.split()
            subprocess.run(["scancel", jobs[0]], check=True)
            printed = sweep.communicate(timeout=LIMIT_S)[0]
        self.assertEqual(sweep.returncode, 0, printed)
        rows = Store(self.folder / "sweep.store").query("SELECT key FROM runs")[1]
        self.assertEqual((len(rows), len(set(rows))), (40, 40))
        runs = self.executions()
        self.assertLessEqual(sum(runs.values()) - 40, UNDERWAY)

    @unittest.skipUnless(os.geteuid() == 0, "only root makes a small disk")
    def test_a_full_disk_ends_the_sweep_with_what_is_written(self):
        store = self.folder / "small"
        store.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100k", "none", str(store)],
                          check=False).returncode != 0:
            self.skipTest("no tmpfs can be mounted here")
        self.addCleanup(subprocess.run, ["umount", "-l", str(store)], check=True)
        self.spec(spec_of(40))
        printed = self.refused("sweep", "sweep.toml", "--cluster", "local:1", "--store", "small")
        self.assertIn("No space left on device", printed)
        rows = Store(store).query("SELECT count(*) FROM runs")[1][0][0]
        self.assertGreater(rows, 0)
        self.assertEqual(list(store.glob("*.new")), [])


if __name__ == "__main__":
    unittest.main()
