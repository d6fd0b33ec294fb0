# SPDX-License-Identifier: Apache-2.0
"""`make multicore`: who runs where and in which order, what several generators saw together, when a
run is disturbed, what is drawn; with the program built, that an interruption leaves no server."""

import contextlib
import io
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock
from xml.etree import ElementTree

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "tests" / "e2e"))

import samples
from waiting import eventually
from rubato_lab import run_report, style
from rubato_lab.multicore import cells, figure, loopback, main, noise, options, record, tcp
from rubato_lab.multicore import topology
from rubato_lab.multicore.cells import LOOPBACK, TAIL, TCP, THROUGHPUT, Cell, Run

SVG = "{http://www.w3.org/2000/svg}"
PROGRAM = HERE.parents[1] / "bench" / "multicore.py"
BINARY = os.environ.get("RUBATO_BINARY")
LIMIT_S = 60


def two_sockets():
    """Eight CPUs on four cores: even cores in one package, odd ones in the other."""
    return [topology.Cpu(n, n % 4, n % 2) for n in range(8)]


class Topology(unittest.TestCase):
    def test_sys_tells_cores_and_packages(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for n, siblings, package in ((0, "0,2", 0), (1, "1,3", 1), (2, "0,2", 0)):
                path = root / f"cpu{n}" / "topology"
                path.mkdir(parents=True)
                (path / "thread_siblings_list").write_text(siblings + "\n")
                (path / "physical_package_id").write_text(f"{package}\n")
            found = topology.read({2, 0, 1, 9}, root)
        self.assertEqual([(c.number, c.core, c.package) for c in found],
                         [(0, 0, 0), (1, 1, 1), (2, 0, 0), (9, 9, 0)])
        self.assertEqual((topology.cores(found), topology.packages(found)), (3, 2))

    def test_cores_come_before_their_second_threads_and_packages_one_by_one(self):
        self.assertEqual([c.number for c in topology.in_order(two_sockets())],
                         [0, 2, 1, 3, 4, 6, 5, 7])

    def test_generators_have_cores_of_their_own_while_there_are_any(self):
        ordered = topology.in_order(two_sockets())
        alone = topology.beside_generators(ordered, 3, 1)
        self.assertEqual((alone.server, alone.load, alone.shares_cores), ((0, 1, 2), (3,), False))
        self.assertTrue(topology.beside_generators(ordered, 4, 1).shares_cores)

    def test_the_sender_has_the_lowest_cpu(self):
        place = topology.beside_sender(topology.in_order(two_sockets()), 2)
        self.assertEqual((place.server, place.load), ((1, 2), (0,)))

    def test_numbers_of_workers_end_with_what_fits(self):
        for cpus, most, counts in ((1, 0, []), (2, 1, [1]), (4, 3, [1, 2, 3]), (5, 4, [1, 2, 4]),
                                   (16, 12, [1, 2, 4, 8, 12]),
                                   (128, 102, [1, 2, 4, 8, 16, 32, 64, 102])):
            self.assertEqual(topology.most_workers(cpus, 4), most)
            self.assertEqual(topology.worker_counts(most), counts)
        self.assertEqual(topology.thinned([1, 2, 4, 8, 12], 3), [1, 4, 12])
        self.assertEqual(topology.thinned([1, 2], 3), [1, 2])


PLACE = topology.Place((1,), (0,), False)
QUIET = {"stalled_share": 0.0, "steal_share": 0.0, "foreign_share": 0.0}


def run_of(rps, p99_us=50.0, disturbed=""):
    latency = {"p50": p99_us / 2, "p99": p99_us, "p999": p99_us * 2}
    return Run(1, rps, {"short": {"count": 100, "latency_us": latency, "undisturbed_us": {}}},
               dict(QUIET), rps, disturbed)


def cell_of(policy="fcfs", workers=1, datapath=LOOPBACK, rates=(90.0, 110.0, 100.0), disturbed=""):
    cell = Cell(datapath, policy, workers, PLACE)
    cell.runs[THROUGHPUT] = [run_of(rps * workers) for rps in rates]
    cell.runs[TAIL] = [run_of(70.0 * workers, rps, disturbed) for rps in rates]
    return cell


class Cells(unittest.TestCase):
    def test_every_other_round_runs_backwards(self):
        self.assertEqual(list(cells.in_turn(list("ABC"), 3)),
                         [(0, list("ABC")), (1, list("CBA")), (2, list("ABC"))])

    def test_a_cell_has_medians_and_ranges(self):
        cell = cell_of()
        spread = cell.throughput()
        self.assertEqual((spread.mid, spread.low, spread.high), (100.0, 90.0, 110.0))
        self.assertEqual(cell.latency("short", "p999").mid, 200.0)
        self.assertIsNone(cell.latency("short", "p99", "undisturbed_us"))
        self.assertIsNone(cell.latency("long", "p99"))

    def test_half_of_the_runs_disturb_a_cell(self):
        cell = cell_of()
        self.assertFalse(cell.is_disturbed(TAIL))
        cell.runs[TAIL][0].disturbed = "steal"
        self.assertFalse(cell.is_disturbed(TAIL))
        cell.runs[TAIL][1].disturbed = "steal"
        self.assertTrue(cell.is_disturbed(TAIL))
        self.assertFalse(cell.is_disturbed(THROUGHPUT))

    def test_what_never_worked_is_not_tried_again(self):
        cell = Cell(TCP, "fcfs", 1, PLACE)
        self.assertFalse(cell.hopeless)
        cell.failures.append("no")
        self.assertTrue(cell.hopeless)
        cell.runs[THROUGHPUT].append(run_of(1.0))
        self.assertFalse(cell.hopeless)


class Noise(unittest.TestCase):
    def test_a_tail_bears_less_than_a_throughput(self):
        lost = {**QUIET, "stalled_share": 0.005}
        self.assertEqual(noise.verdict(THROUGHPUT, lost), "")
        self.assertEqual(noise.verdict(TAIL, lost), "the machine took 0.5 % of the CPUs' time")

    def test_steal_counts_where_no_stall_was_noticed(self):
        self.assertNotEqual(noise.verdict(THROUGHPUT, {**QUIET, "steal_share": 0.02}), "")


class Reports(unittest.TestCase):
    def test_generators_of_one_kind_have_the_curve_of_one(self):
        curve = [(1.0, 0.5), (2.0, 0.01), (3.0, 0.0)]
        merged = tcp.merged([(curve, 100), (curve, 300)])
        self.assertEqual([at for at, _ in merged], [1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
        for (_, beyond), expected in zip(merged[1::2], (0.5, 0.01, 0.0)):
            self.assertAlmostEqual(beyond, expected)

    def test_a_slow_minority_is_in_the_tail_of_all(self):
        fast = run_report.TypeReport("short", 990, {}, ccdf=[(1.0, 0.0)])
        slow = run_report.TypeReport("short", 11, {}, ccdf=[(9.0, 0.0)])
        self.assertEqual(tcp.latency_of([fast, slow]), {"p50": 1.0, "p99": 9.0, "p999": 9.0})

    def test_several_reports_are_one_run(self):
        reports = [run_report.from_object(samples.report_object(rps=rps)) for rps in (1e4, 2e4)]
        run = tcp.run_from(reports, (0, 1), TAIL, 7, {"steal_share": 0.0, "foreign_share": 0.0})
        self.assertEqual((run.achieved_rps, run.offered_rps, run.seed), (3e4, 3e4, 7))
        self.assertEqual(run.types["get"]["count"], 2 * 19800)
        self.assertAlmostEqual(run.noise["stalled_share"], 2 * 0.016 / 2.0 / 2)
        self.assertIn("0.8 %", run.disturbed)

    def test_an_invalid_report_disturbs(self):
        reports = [run_report.from_object(samples.report_object(valid=False))]
        run = tcp.run_from(reports, (0,), THROUGHPUT, 1, {"steal_share": 0, "foreign_share": 0})
        self.assertEqual(run.disturbed, "fell behind its schedule")

    ROW = {"achieved_rps": 5e4, "offered_rps": 6e4, "stalled_ms": 0.0, "wall_s": 1.0, "late": 0,
           "held_back": 0, "refused": 0, "unanswered": 0, "untouched_share": 1.0,
           "worst_lag_us": 3.0, "requests": 1000, "types": [
               {"name": "short", "count": 900, "latency_us": {"p50": 1, "p99": 2, "p999": 3},
                "untouched_us": {"p50": 1, "p99": 2, "p999": 3}},
               {"name": "none", "count": 0, "latency_us": {}, "untouched_us": {}}]}

    def test_a_row_of_fidelity_is_a_run(self):
        run = loopback.run_from(self.ROW, (0, 1), TAIL, 1, {"steal_share": 0.0})
        self.assertEqual((run.achieved_rps, list(run.types), run.disturbed), (5e4, ["short"], ""))

    def test_a_late_sender_is_told_unless_the_server_held_it_back(self):
        late = {**self.ROW, "late": 900}
        run = loopback.run_from(late, (0, 1), THROUGHPUT, 1, {"steal_share": 0.0})
        self.assertEqual(run.disturbed, "the sender was late for 90 % of the requests")
        run = loopback.run_from({**late, "held_back": 5}, (0, 1), THROUGHPUT, 1,
                                {"steal_share": 0.0})
        self.assertEqual(run.disturbed, "")

    def test_loads_and_requests_follow_from_the_service_time(self):
        self.assertEqual(loopback.requests_for(2.0, 4, 50.0), 160_000)
        self.assertEqual(loopback.requests_for(0.001, 1, 50.0), loopback.FEWEST)
        self.assertAlmostEqual(loopback.load_of(TAIL, 28_000.0, 2, 50.0), 0.7)
        self.assertEqual(loopback.load_of(THROUGHPUT, None, 2, 50.0), loopback.OVERLOAD)


def record_of(found, complete=True, forced=False):
    names = list(dict.fromkeys(cell.policy for cell in found))
    head = {"machine": {"cpu": "made up", "allowed_cpus": 4, "physical_cores": 4, "kernel": "none"},
            "settings": {"workload": "w", "mean_service_us": 5000.0, "share": 0.7, "seconds": 1.0,
                         "rounds": 3, "forced": forced, "policies": names,
                         "workers": sorted({cell.workers for cell in found}),
                         "datapaths": list(dict.fromkeys(c.datapath for c in found))}}
    return record.to_object(head, [], found, complete)


def drawn(data):
    """The lines of the panels and the words of a drawing."""
    sheet = figure.draw(data)
    words = ElementTree.fromstring(style.svg(sheet)).iter(f"{SVG}text")
    return [line for ax in sheet.axes for line in ax.get_lines() if len(line.get_xdata())], [
        e.text for e in words]


def points(lines):
    return sum(len(line.get_xdata()) for line in lines if line.get_marker() == "o")


class Figure(unittest.TestCase):
    def test_a_point_for_each_cell_and_a_line_for_each_policy(self):
        found = [cell_of(policy, workers, datapath) for policy in ("fcfs", "ps")
                 for workers in (1, 2, 4) for datapath in (LOOPBACK, TCP)]
        lines, texts = drawn(record_of(found))
        self.assertEqual(points(lines), 12 * 3)
        self.assertEqual(len([line for line in lines if line.get_marker() == "o"]), 2 * 2 * 3)
        self.assertEqual([texts.count(name) for name in ("fcfs", "ps")], [1, 1])
        self.assertIn("loopback: p99 of 'short' at 70 % of that", texts)

    def test_many_policies_are_drawn_in_groups_and_grey_elsewhere(self):
        names = [f"p{i}" for i in range(17)]
        self.assertEqual([len(group) for group in figure.groups(names)], [6, 6, 5])
        lines, texts = drawn(record_of([cell_of(n, w) for n in names for w in (1, 2)]))
        self.assertTrue(set(names) <= set(texts))
        grey = [line for line in lines if line.get_color() == figure.OTHERS]
        self.assertEqual(len(grey), (11 + 11 + 12) * 3)

    def test_what_was_disturbed_is_hollow_and_told(self):
        lines, texts = drawn(record_of([cell_of(disturbed="steal"), cell_of("ps")]))
        hollow = [line for line in lines if line.get_markerfacecolor() == style.PAPER]
        self.assertEqual(len(hollow), 1)
        self.assertTrue(any("Hollow: the machine disturbed it (1 of 4 cells)" in t for t in texts))

    def test_few_cpus_and_an_interruption_are_told(self):
        _, texts = drawn(record_of([cell_of()], complete=False, forced=True))
        for words in ("Interrupted", "fewer than 4 CPUs"):
            self.assertTrue(any(words in t for t in texts), words)

    def test_a_cell_without_figures_leaves_a_gap(self):
        failed = Cell(LOOPBACK, "ps", 1, PLACE, failures=["no"])
        data = record_of([cell_of(), failed])
        self.assertEqual(points(drawn(data)[0]), 3)
        self.assertIn("-", "\n".join(main.table(data)))


class Options(unittest.TestCase):
    def refused(self, *arguments):
        said = io.StringIO()
        with contextlib.redirect_stderr(said), self.assertRaises(SystemExit) as end:
            options.parse(arguments)
        self.assertEqual(end.exception.code, 2)
        self.assertEqual(said.getvalue().count("\n"), 1)
        return said.getvalue()

    def test_a_bad_option_is_told_in_one_line(self):
        self.assertIn("--rounds: takes 1 to 1000, not '0'", self.refused("--rounds", "0"))
        self.assertIn("--share", self.refused("--share", "x"))
        self.assertIn("takes loopback or tcp, not 'udp'", self.refused("--datapaths", "tcp,udp"))
        self.assertIn("numbers from 1 on", self.refused("--workers", "1,x"))

    def test_quick_is_small_unless_told_otherwise(self):
        self.assertLess(options.parse(["--quick"]).seconds, options.parse([]).seconds)
        self.assertEqual(options.parse(["--quick", "--seconds", "5"]).seconds, 5.0)

    def ended(self, cpus, *arguments):
        said = io.StringIO()
        with mock.patch("os.sched_getaffinity", return_value=set(range(cpus))), \
                contextlib.redirect_stderr(said):
            status = main.main(list(arguments))
        return status, said.getvalue()

    def test_few_cpus_are_refused(self):
        status, said = self.ended(3)
        self.assertEqual(status, 2)
        self.assertEqual(said, "multicore: needs 4 CPUs or more, this process may use 3; --force "
                         "measures with what fits\n")

    def test_a_missing_program_or_record_is_told(self):
        self.assertEqual(self.ended(4, "--binary", "/nowhere")[0], 1)
        self.assertEqual(self.ended(4, "--from", "/nowhere"),
                         (1, "multicore: /nowhere: No such file or directory\n"))

    def test_another_program_or_a_record_that_lacks_something_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            status, said = self.ended(4, "--binary", shutil.which("true"), "--out", folder)
            self.assertEqual((status, said.count("\n")), (1, 1))
            self.assertIn("is no rubato", said)
            path = Path(folder) / "record.json"
            path.write_text(f'{{"schema": "{record.SCHEMA}", "cells": []}}')
            self.assertEqual(self.ended(4, "--from", str(path)),
                             (1, f"multicore: {path}: complete, machine, settings missing\n"))

    def test_a_folder_that_cannot_be_written_to_is_told_before_anything_is_measured(self):
        with tempfile.NamedTemporaryFile() as file, \
                mock.patch("rubato_lab.demo.version_of", return_value="rubato 0"), \
                mock.patch.object(main, "make_plan", side_effect=AssertionError):
            out = f"{file.name}/out"
            self.assertEqual(self.ended(4, "--out", out),
                             (2, "multicore: --out takes a folder that can be written to, not "
                                 f"{out}: Not a directory\n"))

    def test_a_run_that_fails_is_told_and_not_repeated(self):
        class Broken:
            def run(self, *_):
                raise cells.CellFailed("no such thing")

        said = []
        voice = mock.Mock(say=said.append)
        cell = Cell(TCP, "ps", 2, PLACE)
        for turn in range(2):
            main.measure_cell(mock.Mock(opts=options.parse(["--seed", "5"])), main.Found(),
                              {TCP: Broken()}, cell, THROUGHPUT, turn, voice)
        self.assertEqual(said, ["  tcp ps 2 FAILED: no such thing"])
        self.assertEqual(cell.failures, ["throughput: no such thing"])

    def test_workers_that_do_not_fit_are_refused(self):
        opts = options.parse(["--workers", "1,4"])
        with self.assertRaisesRegex(main.Refused, "from 1 to 3 on these 4 CPUs, not 4"):
            main.chosen_counts(opts, two_sockets()[:4])


def children_of(pid):
    """Command lines of the processes that this one started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if path.read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append((path.parent, (path.parent / "cmdline").read_bytes()))
    return found


@unittest.skipUnless(BINARY and Path(BINARY).is_file(), "RUBATO_BINARY names no program")
@unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one worker and its generator need 2 CPUs")
class Interrupted(unittest.TestCase):
    def check_end_by(self, end, status, out):
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), "--force", "--binary", BINARY, "--datapaths", "tcp",
             "--policies", "fcfs,steal", "--workers", "1", "--seconds", "0.2", "--rounds", "500",
             "--out", out], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.kill)

        def servers():
            return [folder for folder, words in children_of(process.pid) if b"serve" in words]

        # The first run is over when a second policy is served.
        eventually(lambda: [folder for folder, words in children_of(process.pid)
                            if b"serve" in words and b"steal" in words], patience_s=LIMIT_S)
        left = servers()
        process.send_signal(end)
        self.assertEqual(process.wait(LIMIT_S), status, process.stderr.read())
        eventually(lambda: not any(folder.exists() for folder in left), patience_s=LIMIT_S)

    def test_an_interruption_leaves_no_server_and_keeps_what_was_measured(self):
        with tempfile.TemporaryDirectory() as out:
            self.check_end_by(signal.SIGINT, 130, out)
            data = record.load(Path(out) / "multicore.json")
            self.assertFalse(data["complete"])
            self.assertGreater(data["cells"][0]["throughput_rps"]["median"], 0)
            self.assertIn("Interrupted", (Path(out) / "multicore.svg").read_text())

    def test_a_termination_leaves_no_server(self):
        with tempfile.TemporaryDirectory() as out:
            self.check_end_by(signal.SIGTERM, 143, out)


if __name__ == "__main__":
    unittest.main()
