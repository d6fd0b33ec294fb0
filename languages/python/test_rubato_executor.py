# SPDX-License-Identifier: Apache-2.0
import asyncio
import ctypes
import json
import os
import subprocess
import tempfile
import threading
import time
import unittest
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

    def test_bad_options_are_one_line(self):
        with self.assertRaisesRegex(ValueError, "nothing"):
            Executor(policy="nothing")
        with self.assertRaisesRegex(TypeError, "colour"):
            Executor(colour=1)


if __name__ == "__main__":
    unittest.main()
