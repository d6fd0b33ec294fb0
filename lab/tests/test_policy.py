# SPDX-License-Identifier: Apache-2.0
"""Policies in Python: beside their twins in C++, as docs/LAB.md has one, and with mistakes."""

import contextlib
import io
import json
import os
import re
import subprocess
import tempfile
import traceback
import unittest
from pathlib import Path
from unittest import mock

import rubato_lab as lab
from rubato_lab import api, program
from rubato_lab.policy import NO_WORD

GUIDE = Path(__file__).resolve().parents[2] / "docs/LAB.md"
ASKED = {"workload": "high-bimodal", "workers": 3, "load": 0.8, "requests": 600, "flows": 40}


class Fcfs(lab.Policy):
    def next(self, me, host):
        return host.take(lab.own(me))


class Srpt(lab.Policy):
    @staticmethod
    def left(request):
        if request.size_hint == 0:
            return NO_WORD - 1
        return abs(request.size_hint - request.attained)

    def route(self, request, at, host):
        request.word = self.left(request)
        return lab.ordered()

    def next(self, me, host):
        return host.take(lab.ordered())

    def quantum(self, request, host):
        return 5000

    def expired(self, request, me, host):
        return host.first_word(lab.ordered()) < self.left(request)


class Jbsq(lab.Policy):
    interchangeable = True
    MOST = 2  # at a worker, with the one that runs

    def route(self, request, at, host):
        return lab.shared()

    def next(self, me, host):
        return host.take(lab.own(me))

    def dispatch(self, host):
        for length in range(self.MOST):
            for worker in range(host.workers):
                if host.depth(lab.own(worker)) + host.busy(worker) > length:
                    continue
                request = host.take(lab.shared())
                if request is None:
                    return
                host.put(lab.own(worker), request)


class Withholding(Jbsq):
    def dispatch(self, host):
        host.take(lab.shared())


class Broken(Fcfs):
    def quantum(self, request, host):
        return 1 // 0


class Forgetful(lab.Policy):
    def next(self, me, host):
        if host.depth(lab.own(me)) > 1:
            host.take(lab.own(me))
        return host.take(lab.own(me))


class Elsewhere(Fcfs):
    def route(self, request, at, host):
        return lab.shared(7) if request.type == 2 else lab.own(at)


class Late(Fcfs):
    SINCE_US = 1000

    def route(self, request, at, host):
        return lab.shared(7) if request.arrived > 1000 * self.SINCE_US else lab.own(at)


@unittest.skipUnless(os.environ.get(program.ENVIRONMENT), "RUBATO_BINARY names no program")
class Policies(unittest.TestCase):
    def slices(self, policy, **options):
        """Which worker ran which request, from when to when, and why it ended."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "trace.json"
            run = lab.simulate(policy, trace=path, **{**ASKED, **options})
            events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
        found = [(event["tid"], event["args"]["request"], event["ts"], event["dur"],
                  event["args"]["end"]) for event in events if event.get("cat") == "request"]
        return run, found

    def test_decisions_are_those_of_the_twins_in_cpp(self):
        for policy, name in ((Fcfs(), "fcfs"), (Jbsq(), "jbsq"), (Srpt(), "srpt")):
            with self.subTest(policy=name):
                run, decided = self.slices(policy)
                twin, expected = self.slices(name)
                self.assertGreaterEqual(len(expected), ASKED["requests"])
                self.assertEqual(decided, expected)
                self.assertEqual(run.latency_us, twin.latency_us)
                self.assertEqual(run.policy, type(policy).__name__)
        self.assertIn("preempted", {why for *_, why in expected})

    def test_each_seed_is_a_run_of_its_own(self):
        asked = {**ASKED, "seeds": 2, "requests": 300}
        run, twin = lab.simulate(Fcfs(), **asked), lab.simulate("fcfs", **asked)
        self.assertEqual(run.latency_us, twin.latency_us)

    def test_the_examples_of_the_guide_run(self):
        asks, policy = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"),
                                  re.DOTALL)
        self.assertLessEqual(policy.count("\n"), 25)
        names = {}
        with contextlib.redirect_stdout(io.StringIO()):
            for example in (asks, policy):
                exec(compile(example, str(GUIDE), "exec"), names)  # pylint: disable=exec-used
        self.assertEqual(names["kv"].policy, "ps")
        runs = names["runs"]
        self.assertLess(runs[0]["short"].latency_us.p99, runs[1]["short"].latency_us.p99)

    def test_an_error_has_its_traceback_and_one_line(self):
        with self.assertRaises(lab.RubatoError) as raised:
            lab.simulate(Broken(), **ASKED)
        self.assertRegex(str(raised.exception), "^policy Broken: quantum: ZeroDivisionError: .*$")
        shown = "".join(traceback.format_exception(raised.exception))
        self.assertIn("return 1 // 0", shown)

    def test_a_policy_that_loses_a_request_is_named_with_it(self):
        for policy, said in ((Forgetful(), "^policy Forgetful: next loses the request of type "
                                           r"'(short|long)' that arrived at [0-9.]+ us: takes it"),
                             (Withholding(), "^policy Withholding: dispatch loses the request of "
                                             "type .*: takes it, and does not put it anywhere"),
                             (Elsewhere(), "^policy Elsewhere: loses [0-9]+ requests, .* of type "
                                           "'long' .* it waits in 'shared 7'")):
            with self.assertRaisesRegex(lab.RubatoError, said):
                lab.simulate(policy, **ASKED)

    def test_a_request_that_is_refused_at_its_turn_is_not_lost(self):
        with self.assertRaises(lab.RubatoError) as raised:
            lab.simulate(Late(), **{**ASKED, "load": 9}, overload="aqm", target_delay="50us",
                         overload_patience="100us", overload_budget=1)
        found = re.search(r"arrived at ([0-9]+).* it waits in 'shared 7'", str(raised.exception))
        self.assertIsNotNone(found, str(raised.exception))
        self.assertGreaterEqual(int(found[1]), Late.SINCE_US)

    def test_the_contract_is_checked(self):
        for hooks, said in (({"next": lambda *_: lab.Request(*[5] * 12)}, "next returns neither"),
                            ({"route": lambda *_: lab.own(3)}, "'own 3', of which there are 3"),
                            ({"quantum": lambda *_: 0}, "quantum returns 0"),
                            ({"quantum": lambda *_: -1}, "quantum returns -1: a slice has"),
                            ({"expired": lambda self, request, me, host: host.take(lab.own(0)),
                              "quantum": lambda *_: 500}, "expired takes a request")):
            with self.assertRaisesRegex(lab.RubatoError, said):
                lab.simulate(type("Wrong", (Fcfs,), hooks)(), **ASKED)
        with self.assertRaisesRegex(lab.RubatoError, "sessions and cores do not go"):
            lab.simulate(Fcfs(), **{**ASKED, "flows": None}, sessions=10)

    def test_an_object_has_its_own_settings(self):
        with self.assertRaisesRegex(lab.RubatoError, "has no options: the program behind the pipe"):
            lab.simulate(Fcfs(), **ASKED, settings={"quantum": "5us"})

    def test_a_run_is_of_ten_thousand_requests_unless_said_otherwise(self):
        for options, words in (({}, ["--requests", "10000"]),
                               ({"requests": 5}, ["--requests", "5"]),
                               ({"until": "p99_latency=10%"}, ["--until", "p99_latency=10%"])):
            with mock.patch.object(api, "run_policy", side_effect=lab.RubatoError("")) as run, \
                    self.assertRaises(lab.RubatoError):
                lab.simulate(Fcfs(), workload="exp-1", **options)
            given = run.call_args.args[1]
            self.assertEqual(["--requests" in given, "--until" in given],
                             ["--requests" in words, "--until" in words])
            self.assertEqual(given[given.index(words[0]) + 1], words[1])

    def test_a_run_leaves_nothing_open(self):
        def descriptors():
            return sorted(os.listdir("/proc/self/fd"))

        before = descriptors()
        for policy, options in ((Fcfs(), {}), (Broken(), {}), (Fcfs(), {"nosuch": 1})):
            with contextlib.suppress(lab.RubatoError):
                lab.simulate(policy, **ASKED, **options)
            self.assertEqual(descriptors(), before)
        with tempfile.NamedTemporaryFile() as no_program:
            os.chmod(no_program.name, 0o700)
            within = descriptors()
            with mock.patch.dict(os.environ, {program.ENVIRONMENT: no_program.name}), \
                    self.assertRaisesRegex(lab.RubatoError, no_program.name):
                lab.simulate(Fcfs(), **ASKED)
            self.assertEqual(descriptors(), within)

    def test_a_program_that_does_not_listen_is_one_line(self):
        hear, say = os.pipe()
        os.close(hear)
        try:
            done = subprocess.run([program.path(), "sim", "--policy", f"pipe:0,{say}",
                                   "--workload", "exp-1", "--requests", "100"],
                                  stdin=subprocess.DEVNULL, capture_output=True, pass_fds=(say,),
                                  check=False, timeout=60)
        finally:
            os.close(say)
        self.assertGreater(done.returncode, 0)
        self.assertIn(b"does not listen any more", done.stderr)
        self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
