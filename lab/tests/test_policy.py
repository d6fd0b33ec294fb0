# SPDX-License-Identifier: Apache-2.0
"""Policies in Python: beside their twins in C++, as docs/LAB.md has one, and with mistakes."""

import json
import os
import re
import tempfile
import traceback
import unittest
from pathlib import Path

import rubato_lab as lab
from rubato_lab import program
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
        for policy, name in ((Fcfs(), "fcfs"), (Srpt(), "srpt")):
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

    def test_the_example_of_the_guide_runs(self):
        example = re.search(r"```python\n(import rubato_lab as lab\n\n\nclass .*?)```",
                            GUIDE.read_text(encoding="utf-8"), re.DOTALL)[1]
        self.assertLessEqual(example.count("\n"), 25)
        names = {}
        exec(compile(example, str(GUIDE), "exec"), names)  # pylint: disable=exec-used
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
                             (Elsewhere(), "^policy Elsewhere: loses [0-9]+ requests, .* of type "
                                           "'long' .* it waits in 'shared 7'")):
            with self.assertRaisesRegex(lab.RubatoError, said):
                lab.simulate(policy, **ASKED)

    def test_the_contract_is_checked(self):
        for hooks, said in (({"next": lambda *_: lab.Request(*[5] * 12)}, "next returns neither"),
                            ({"route": lambda *_: lab.own(3)}, "'own 3', of which there are 3"),
                            ({"quantum": lambda *_: 0}, "quantum returns 0"),
                            ({"expired": lambda self, request, me, host: host.take(lab.own(0)),
                              "quantum": lambda *_: 500}, "expired takes a request")):
            with self.assertRaisesRegex(lab.RubatoError, said):
                lab.simulate(type("Wrong", (Fcfs,), hooks)(), **ASKED)
        with self.assertRaisesRegex(lab.RubatoError, "sessions and cores do not go"):
            lab.simulate(Fcfs(), **{**ASKED, "flows": None}, sessions=10)


if __name__ == "__main__":
    unittest.main()
