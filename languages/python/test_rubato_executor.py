# SPDX-License-Identifier: Apache-2.0
import asyncio
import ctypes
import gc
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest
import weakref
from pathlib import Path

import rubato_executor
from rubato_executor import Executor, Group, Loop, TaskError

INCLUDE = os.environ.get("RUBATO_INCLUDE", "/usr/include")
TASKS = r"""
#include <rubato/executor.h>
#include <stdatomic.h>
typedef _Atomic uint64_t counter;
int add_one(void* to) { atomic_fetch_add((counter*)to, 1); return RUBATO_OK; }
int until_fifty(void* seen) {
  while (atomic_load((counter*)seen) < 50) {
    if (rubato_checkpoint() != 0) return RUBATO_ERROR;
  }
  return RUBATO_OK;
}
int fail(void* unused) { (void)unused; return RUBATO_ERROR; }
"""


class Native(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        rubato_executor.library()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        made = Path(folder.name) / "tasks.so"
        subprocess.run(["cc", "-std=c11", "-O1", "-shared", "-fPIC", "-xc", "-", "-I", INCLUDE,
                        "-o", made], input=TASKS, text=True, check=True)
        # rubato_checkpoint is found in the library that is loaded already.
        ctypes.CDLL(rubato_executor.library().c._name, mode=ctypes.RTLD_GLOBAL)
        cls.tasks = ctypes.CDLL(str(made))

    def setUp(self):
        self.counter = ctypes.c_uint64(0)
        self.at = ctypes.byref(self.counter)

    def test_short_tasks_overtake_a_long_one(self):
        with Executor(workers=1) as executor:
            long = executor.submit(self.tasks.until_fifty, self.at)
            for _ in range(50):
                executor.submit(self.tasks.add_one, self.at, type=1).result(60)
            self.assertIsNone(long.result(60))
        self.assertEqual(self.counter.value, 50)

    def test_groups_have_bounds_and_figures_of_their_own(self):
        groups = [Group("tenant", weight=300), Group("batch", weight=50, max_tasks=1)]
        with Executor(workers=1, groups=groups, weight=200) as executor:
            only = executor.submit(self.tasks.until_fifty, self.at, group=2)
            for group in (2, 3):
                with self.assertRaisesRegex(TaskError, "refused"):
                    executor.submit(self.tasks.add_one, self.at, group=group).result(60)
            self.assertEqual(executor.group_stats(2).unfinished, 1)
            for _ in range(50):
                executor.submit(self.tasks.add_one, self.at, group=1).result(60)
            only.result(60)
            while executor.unfinished > 0:
                time.sleep(0)
            self.assertEqual(executor.group_stats(1).requests, 50)
            self.assertEqual(executor.group_stats(2).requests, 1)
            self.assertGreater(executor.group_stats(2).service_s, 0)
            self.assertEqual(executor.group_stats(0).requests, 0)

    def test_a_weight_out_of_range_is_named(self):
        with self.assertRaisesRegex(ValueError, "batch.*weight"):
            Executor(groups=[Group("batch", weight=0)])

    def test_how_tasks_end(self):
        with Executor(workers=1) as executor:
            with self.assertRaisesRegex(TaskError, "failed"):
                executor.submit(self.tasks.fail).result(60)
            late = executor.submit(self.tasks.until_fifty, self.at, deadline_s=0.01)
            with self.assertRaisesRegex(TaskError, "expired|failed"):
                late.result(60)

    def test_a_deadline_below_a_nanosecond_is_one(self):
        self.counter.value = 50
        with Executor(workers=1) as executor, self.assertRaisesRegex(TaskError, "expired"):
            executor.submit(self.tasks.until_fifty, self.at, deadline_s=1e-12).result(60)

    def test_a_deadline_out_of_range_is_named(self):
        with Executor(workers=1) as executor, self.assertRaisesRegex(ValueError, "^deadline_s"):
            executor.submit(self.tasks.add_one, self.at, deadline_s=1e10)

    def test_a_task_without_room_is_refused(self):
        with Executor(workers=1, max_tasks=1) as executor:
            long = executor.submit(self.tasks.until_fifty, self.at)
            with self.assertRaisesRegex(TaskError, "refused"):
                executor.submit(self.tasks.add_one, self.at).result(60)
            self.counter.value = 50
            long.result(60)

    def test_coroutines_await_tasks(self):
        async def many(executor):
            await asyncio.gather(*(executor.run(self.tasks.add_one, self.at) for _ in range(500)))
        with Executor() as executor:
            asyncio.run(many(executor))
        self.assertEqual(self.counter.value, 500)

    def test_a_loop_of_asyncio_runs_tasks_without_a_thread(self):
        async def serve(tasks):
            threads = threading.active_count()
            tasks.add_to(asyncio.get_running_loop())
            long = tasks.run_async(self.tasks.until_fifty, self.at)
            turns = 0
            while not long.done():
                await tasks.run_async(self.tasks.add_one, self.at)
                await asyncio.sleep(0)
                turns += 1
            self.assertEqual(threading.active_count(), threads)
            await long
            return turns
        with Loop() as tasks:
            self.assertGreaterEqual(asyncio.run(serve(tasks)), 50)

    def test_functions_in_python_take_a_foreign_runtime(self):
        with Executor(workers=2, foreign_runtime=True) as executor:
            futures = [executor.submit(lambda i=i: i * i) for i in range(200)]
            self.assertEqual([f.result(60) for f in futures], [i * i for i in range(200)])
            with self.assertRaises(ZeroDivisionError):
                executor.submit(lambda: 1 // 0).result(60)
        with Executor() as executor, self.assertRaisesRegex(TypeError, "foreign_runtime"):
            executor.submit(lambda: 1)

    def test_files_of_the_tasks_are_written_when_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            files = {f"{kind}_file": os.path.join(folder, kind)
                     for kind in ("trace", "record", "profile")}
            with Executor(workers=1, **files) as executor:
                for _ in range(50):
                    executor.submit(self.tasks.add_one, self.at, type=1).result(60)
                while executor.unfinished > 0:
                    time.sleep(0)
                executor.trace(False)
                executor.record(False)
                for kind in ("trace", "record"):
                    self.assertGreater(os.path.getsize(files[f"{kind}_file"]), 0)
                self.write_profile(executor)
            profile = json.loads(Path(files["profile_file"]).read_text(encoding="utf-8"))
            self.assertEqual(sum(one["count"] for one in profile["types"]), 50)
        with Executor(workers=1) as executor, self.assertRaisesRegex(OSError, "record_file"):
            executor.record(True)

    def write_profile(self, executor):
        for _ in range(1000):  # it has what came until 0.25 s ago
            try:
                return executor.write_profile()
            except OSError as trouble:
                self.assertIn("profile_file: fewer than two", str(trouble))
                time.sleep(0.05)
        return self.fail("no profile")

    def test_after_close_each_call_raises(self):
        for made in (Executor(workers=1), Loop()):
            made.close()
            made.close()
            for call in (lambda: made.submit(self.tasks.add_one, self.at), lambda: made.unfinished,
                         lambda: made.group_stats(0), lambda: made.trace(True),
                         lambda: made.record(True), made.write_profile):
                with self.assertRaisesRegex(RuntimeError, "^the executor is closed$"):
                    call()
        for call in (made.run, made.fileno):
            with self.assertRaisesRegex(RuntimeError, "^the executor is closed$"):
                call()

    def test_close_beside_calls(self):
        def submit(executor, futures, begun):
            with self.assertRaisesRegex(RuntimeError, "closed"):
                while True:
                    futures.append(executor.submit(self.tasks.add_one, self.at))
                    executor.group_stats(0)
                    begun.set()
        for _ in range(20):
            executor, futures, begun = Executor(workers=1), [], threading.Event()
            threads = [threading.Thread(target=submit, args=(executor, futures, begun))]
            threads += [threading.Thread(target=executor.close) for _ in range(2)]
            threads[0].start()
            begun.wait()
            for thread in threads[1:]:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertTrue(all(future.done() for future in futures))

    def test_close_in_a_task_or_a_callback_raises(self):
        told = []
        with Executor(workers=1, foreign_runtime=True) as executor:
            with self.assertRaisesRegex(RuntimeError, "close: not in a task"):
                executor.submit(executor.close).result(60)
            goes_on = threading.Event()
            future = executor.submit(goes_on.wait)
            future.add_done_callback(lambda _: told.append(self.trouble(executor.close)))
            goes_on.set()
        self.assertIn("close: not in a task", told[0])

    def trouble(self, function):
        try:
            function()
        except RuntimeError as trouble:
            return str(trouble)
        return ""

    def test_what_is_dropped_is_closed(self):
        before = set(threading.enumerate())
        future = Executor(workers=1).submit(self.tasks.add_one, self.at)
        gc.collect()
        for thread in set(threading.enumerate()) - before:
            thread.join(60)
            self.assertFalse(thread.is_alive())
        self.assertIsNone(future.result(0))
        future = Loop().submit(self.tasks.add_one, self.at)
        gc.collect()
        self.assertIsNone(future.result(0))

    def test_what_is_not_submitted_is_not_kept(self):
        def task():
            return 1
        with Executor(workers=1, foreign_runtime=True) as executor:
            with self.assertRaisesRegex(TypeError, "colour"):
                executor.submit(task, colour=1)
            with self.assertRaisesRegex(ValueError, "^type: -1 is not in 0 .. 4294967295$"):
                executor.submit(task, type=-1)
            with self.assertRaises(ctypes.ArgumentError):
                executor.submit(self.tasks.add_one, task)
            held, task = weakref.ref(task), None
            gc.collect()
            self.assertIsNone(held())

    def test_an_option_out_of_range_is_named_as_it_was_given(self):
        with self.assertRaisesRegex(ValueError, "^workers: -1 is not in 0"):
            Executor(workers=-1)
        with self.assertRaisesRegex(ValueError, "^batch: weight: -1 is not in 0"):
            Executor(groups=[Group("batch", weight=-1)])

    def test_bad_options_are_one_line(self):
        with self.assertRaisesRegex(ValueError, "nothing"):
            Executor(policy="nothing")
        for option, value in (("colour", 1), ("policy", 5), ("workers", "4"), ("type_names", 5),
                              ("overload_set", "x")):
            with self.assertRaisesRegex(TypeError, f"^{option}: "):
                Executor(**{option: value})
        for option, value in (("policy", "fcfs\0"), ("trace_file", "\0"),
                              ("groups", [Group("a\0")])):
            with self.assertRaisesRegex(ValueError, f"^{option}: "):
                Executor(**{option: value})
        with self.assertRaisesRegex(TypeError, "^groups: 5 is no text"):
            Executor(groups=[Group(5)])
        with Executor() as executor, self.assertRaisesRegex(TypeError, "^cancellation: "):
            executor.submit(self.tasks.add_one, self.at, cancellation=5)

    def test_an_option_may_be_a_fraction(self):
        Executor(overload_budget=0.5).close()
        with self.assertRaisesRegex(ValueError, "overload_budget"):
            Executor(overload_budget=-0.5)


if __name__ == "__main__":
    unittest.main()
