# SPDX-License-Identifier: Apache-2.0
"""Rubato's executor for Python: native tasks, awaited by futures or asyncio. Python 3.9 or later,
standard library and librubato.

    with rubato_executor.Executor(workers=4) as executor:
        future = executor.submit(library.compress, ctypes.byref(job), type=1)    # a native function
        future.result()                       # concurrent.futures; or, in a coroutine:
        await executor.run(library.compress, ctypes.byref(job))

A task is a function of C, `int run(void*)`, of a library that ctypes has loaded; it runs without
the interpreter's lock, and switches at rubato_checkpoint. What it is given lives until its end.
Functions in Python need an executor with `foreign_runtime`, which preempts nothing:

        executor.submit(lambda: sum(range(10)))

Groups of tasks share the workers by weight:

    with Executor(groups=[Group("tenant", weight=300), Group("batch", max_tasks=64)]) as executor:
        executor.submit(library.scan, group=2)          # by number, in that order
        executor.group_stats(2).service_s

In a loop of yours, without a thread: `Loop`, whose `run` runs native tasks.

After `close`, and while it waits, every other call raises RuntimeError. An executor that is dropped
without it is closed as it is collected: its thread finishes the tasks, which nobody waits for;
those of a Loop run where it is collected.
"""

import asyncio
import concurrent.futures
import ctypes
import ctypes.util
import math
import os
import re
import selectors
import threading
import typing
import weakref

RUN = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
OUTCOMES = ("finished", "failed", "refused", "expired", "cancelled")
KINDS = {"size_t": ctypes.c_size_t, "uint32_t": ctypes.c_uint32, "int32_t": ctypes.c_int32,
         "int64_t": ctypes.c_int64, "double": ctypes.c_double}
IDLE, MORE, STOPPED = range(3)  # why Loop.run has returned


class TaskError(Exception):
    """A task that has not run to its end: `outcome` is one of OUTCOMES."""

    def __init__(self, outcome, retry_after_s=0.0):
        super().__init__(f"task {outcome}")
        self.outcome, self.retry_after_s = outcome, retry_after_s


class Group(typing.NamedTuple):
    """Tasks with a share of the workers and a bound of their own; 14 at most."""
    name: str           # in the metrics
    weight: int = 100   # 1 .. 10000; `weight` of the executor is that of the tasks in no group
    max_tasks: int = 0  # submitted and not done; 0 = as many as the executor's queues hold


class GroupStats(typing.NamedTuple):
    """What a group has had since the start."""
    requests: int      # finished
    refused: int       # for overload, or because a queue was full, after they were submitted
    unfinished: int    # submitted and not done, now
    service_s: float   # on workers, of those that finished, in all
    waited_s: float    # from submission to the first slice, in all


class _Error(ctypes.Structure):
    _fields_ = [("text", ctypes.c_char * 256)]


class _Options(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("scheduler", ctypes.c_void_p),
                ("max_tasks", ctypes.c_uint32), ("type_names", ctypes.c_void_p),
                ("type_names_count", ctypes.c_size_t), ("in_loop", ctypes.c_uint32),
                ("groups", ctypes.c_void_p), ("groups_count", ctypes.c_size_t),
                ("weight", ctypes.c_uint32)]


class _Group(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p),
                ("weight", ctypes.c_uint32), ("max_tasks", ctypes.c_uint32)]


class _GroupStats(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("requests", ctypes.c_uint64),
                ("refused", ctypes.c_uint64), ("unfinished", ctypes.c_uint64),
                ("service_ns", ctypes.c_int64), ("waited_ns", ctypes.c_int64)]


class _Attributes(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("type", ctypes.c_uint32),
                ("is_long", ctypes.c_uint32), ("priority", ctypes.c_uint32),
                ("is_control", ctypes.c_uint32), ("deadline_ns", ctypes.c_int64),
                ("expected_ns", ctypes.c_int64), ("trace", ctypes.c_uint64),
                ("cancellation", ctypes.c_void_p), ("detached", ctypes.c_uint32),
                ("is_continuation", ctypes.c_uint32), ("group", ctypes.c_uint32)]


class _Completion(ctypes.Structure):
    _fields_ = [("id", ctypes.c_uint64), ("retry_after_ns", ctypes.c_int64),
                ("outcome", ctypes.c_int32), ("reserved", ctypes.c_int32)]


def _scheduler_fields(folders):
    """The fields of rubato_options, of the header that came with the library."""
    for folder in folders:
        path = os.path.join(folder, "rubato", "options.h")
        if os.path.exists(path):
            break
    else:
        raise FileNotFoundError(f"no rubato/options.h in {', '.join(folders)}: install "
                                "librubato-dev or name a folder by RUBATO_INCLUDE")
    with open(path, encoding="utf-8") as file:
        body = re.search(r"typedef struct rubato_options \{(.*?)\} rubato_options;", file.read(),
                         re.DOTALL).group(1)
    fields = []
    for kind, star, name in re.findall(r"^\s*(?:const )?(\w+)\s+?((?:const|\*|\s)*)(\w+);",
                                       body.replace("*", " * "), re.MULTILINE):
        pointer = ctypes.c_char_p if kind == "char" and star.count("*") == 1 else ctypes.c_void_p
        fields.append((name, pointer if "*" in star else KINDS[kind]))
    return fields


def _integer(kind, value, name):
    """Ctypes would take one out of range for another."""
    value, bits = int(value), 8 * ctypes.sizeof(kind)
    low = -1 << bits - 1 if kind(-1).value == -1 else 0
    high = (1 << bits) - 1 + low
    if not low <= value <= high:
        raise ValueError(f"{name}: {value} is not in {low} .. {high}")
    return value


def _set(to, field, value, name, unknown=""):
    """Sets a field that has a number or a text."""
    kind = dict(to._fields_).get(field, ctypes.c_void_p)
    if kind is ctypes.c_void_p:
        raise TypeError(f"{name}: {unknown}")
    wanted = "text" if kind is ctypes.c_char_p else "number"
    if isinstance(value, str) != (wanted == "text"):
        raise TypeError(f"{name}: {value!r} is no {wanted}")
    if wanted == "text":
        if "\0" in value:  # where C would cut it
            raise ValueError(f"{name}: takes a text without null characters")
        setattr(to, field, value.encode())
    elif kind is ctypes.c_double:
        setattr(to, field, float(value))
    else:
        setattr(to, field, _integer(kind, value, name))


class _Library:
    """The C interface; loaded once."""

    def __init__(self):
        name = os.environ.get("RUBATO_LIBRARY") or ctypes.util.find_library("rubato")
        if not name:
            raise OSError("librubato is not installed; or name it by RUBATO_LIBRARY")
        self.c = ctypes.CDLL(name)
        folders = [os.environ.get("RUBATO_INCLUDE", "/usr/include"), "/usr/local/include"]
        self.Scheduler = type("Scheduler", (ctypes.Structure,),
                              {"_fields_": _scheduler_fields(folders)})
        pointer, number = ctypes.c_void_p, ctypes.c_int
        for name, result, *arguments in (
                ("executor_create", pointer, pointer, pointer),
                ("executor_destroy", None, pointer),
                ("executor_run", number, pointer, ctypes.c_int64),
                ("executor_fd", number, pointer),
                ("executor_unfinished", ctypes.c_uint64, pointer),
                ("executor_group_stats", None, pointer, ctypes.c_uint32, pointer,
                 ctypes.c_size_t),
                ("executor_trace", number, pointer, number, pointer),
                ("executor_record", number, pointer, number, pointer),
                ("executor_write_profile", number, pointer, pointer),
                ("completions_create", pointer),
                ("completions_destroy", None, pointer),
                ("completions_fd", number, pointer),
                ("completions_next", ctypes.c_size_t, pointer, pointer, ctypes.c_size_t),
                ("completions_submit", number, pointer, pointer, pointer, pointer, pointer,
                 ctypes.c_uint64)):
            function = getattr(self.c, f"rubato_{name}")
            function.restype, function.argtypes = result, arguments
            setattr(self, name, function)

    def create(self, options):
        scheduler = self.Scheduler()
        self.c.rubato_options_init(ctypes.byref(scheduler), ctypes.sizeof(scheduler))
        c_options = _Options()
        self.c.rubato_executor_options_init(ctypes.byref(c_options), ctypes.sizeof(c_options))
        groups = options.pop("groups", ())
        made = (_Group * len(groups))()
        for to, group in zip(made, groups):
            to.struct_size = ctypes.sizeof(_Group)
            _set(to, "name", group.name, "groups")
            _set(to, "weight", group.weight, f"{group.name}: weight")
            _set(to, "max_tasks", group.max_tasks, f"{group.name}: max_tasks")
        c_options.groups, c_options.groups_count = ctypes.addressof(made), len(groups)
        for name, value in options.items():
            to = c_options if hasattr(c_options, name) else scheduler
            _set(to, name, value, name, "there is no such option")
        c_options.scheduler = ctypes.addressof(scheduler)
        error = _Error()
        executor = self.executor_create(ctypes.byref(c_options), ctypes.byref(error))
        if not executor:
            raise ValueError(error.text.decode())
        return executor


_library = None


def library():
    global _library
    _library = _library or _Library()
    return _library


_in_task = threading.local()  # .of = the _Core whose function in Python the thread runs


class _Core:
    """What is to be closed, and the tasks that wait for their end. `with core as executor:` is a
    call that close waits for. Any thread."""

    def __init__(self, options):
        self.c = library()
        self.executor = self.c.create(options)
        self.ends = self.c.completions_create()
        self._changed = threading.Condition(threading.Lock())  # guards the rest, and `ends`
        self._closed = False
        self._calls = 0
        self._waiting = {}
        self._last = 0

    def __enter__(self):
        with self._changed:
            if self._closed:
                raise RuntimeError("the executor is closed")
            self._calls += 1
        return self.executor

    def __exit__(self, *_):
        with self._changed:
            self._calls -= 1
            self._changed.notify_all()

    def submit(self, attributes, run, pointer, held):
        """`held` is a future, its box and what the task needs until its end."""
        with self as executor:
            with self._changed:
                self._last += 1
                name = self._last
                self._waiting[name] = held
            status = self.c.completions_submit(self.ends, executor, ctypes.byref(attributes),
                                               run, pointer, name)
        if status != 0:
            self._end(name, OUTCOMES.index("refused"), 0)

    def _end(self, name, outcome, retry_after_ns):
        with self._changed:
            future, box, *_ = self._waiting.pop(name)
        if outcome != 0:
            future.set_exception(TaskError(OUTCOMES[outcome], retry_after_ns / 1e9))
        elif box and "trouble" in box:
            future.set_exception(box["trouble"])
        else:
            future.set_result(box["value"] if box else None)

    def take(self):
        ends, count = (_Completion * 64)(), 0
        with self._changed:
            if self.ends:
                count = self.c.completions_next(self.ends, ends, len(ends))
        for end in ends[:count]:
            self._end(end.id, end.outcome, end.retry_after_ns)
        return count > 0

    def close(self):
        with self._changed:
            if self._closed:
                return
            self._closed = True
            self._changed.wait_for(lambda: self._calls == 0)
        self.c.executor_destroy(self.executor)
        while self.take():
            pass
        with self._changed:
            self.c.completions_destroy(self.ends)
            self.ends = None


class _Tasks:
    """What Executor and Loop have in common. Any thread."""

    def __init__(self, **options):
        self._foreign = bool(options.get("foreign_runtime"))
        self._core = _Core(options)
        self._c = self._core.c

    def submit(self, function, argument=None, **attributes):
        """A future. `attributes` are type, is_long, priority, is_control, deadline_s (from now; 0 =
        none), trace, group."""
        c_attributes = _Attributes(struct_size=ctypes.sizeof(_Attributes))
        deadline_ns = attributes.pop("deadline_s", 0) * 1e9
        # Away from 0, which would be none.
        deadline_ns = math.floor(deadline_ns) if deadline_ns < 0 else math.ceil(deadline_ns)
        _set(c_attributes, "deadline_ns", deadline_ns, "deadline_s in ns")
        for key, value in attributes.items():
            _set(c_attributes, key, value, key, "tasks have no such attribute")
        pointer = ctypes.cast(argument, ctypes.c_void_p) if argument is not None else None
        future = concurrent.futures.Future()
        future.set_running_or_notify_cancel()
        run, box = self._native(function, argument)
        self._core.submit(c_attributes, ctypes.cast(run, ctypes.c_void_p), pointer,
                          (future, box, run, argument))
        return future

    def run_async(self, function, argument=None, **attributes):
        return asyncio.wrap_future(self.submit(function, argument, **attributes))

    def _native(self, function, argument):
        """The C function and, for one in Python, where its value will be."""
        if isinstance(function, ctypes._CFuncPtr):
            return function, None
        if not self._foreign:
            raise TypeError("functions in Python take an executor with foreign_runtime=True")
        if argument is not None:
            raise TypeError("functions in Python take no argument; use a lambda")
        box, core = {}, self._core

        def run(_):
            _in_task.of = core
            try:
                box["value"] = function()
            except BaseException as trouble:  # noqa: B902  it goes into the future
                box["trouble"] = trouble
            finally:
                _in_task.of = None
            return 0
        return RUN(run), box

    @property
    def unfinished(self):
        with self._core as executor:
            return self._c.executor_unfinished(executor)

    def group_stats(self, group):
        """The GroupStats of a group by its number; 0 = of the tasks in none."""
        stats = _GroupStats()
        with self._core as executor:
            self._c.executor_group_stats(executor, group, ctypes.byref(stats),
                                         ctypes.sizeof(stats))
        return GroupStats(stats.requests, stats.refused, stats.unfinished,
                          stats.service_ns / 1e9, stats.waited_ns / 1e9)

    def trace(self, wanted):
        """Begins or ends a trace in the file `trace_file` of the options, for Perfetto; this and
        the next two raise OSError where the file cannot be written, or there is none."""
        self._file(self._c.executor_trace, int(wanted))

    def record(self, wanted):
        """The same with a recording of the tasks in `record_file`, for `rubato sim`."""
        self._file(self._c.executor_record, int(wanted))

    def write_profile(self):
        """Writes `profile_file` as it is now; else it is written every 10 s."""
        self._file(self._c.executor_write_profile)

    def _file(self, function, *arguments):
        error = _Error()
        with self._core as executor:
            status = function(executor, *arguments, ctypes.byref(error))
        if status != 0:
            raise OSError(error.text.decode())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Executor(_Tasks):
    """Workers of its own. Options are those of docs/OPTIONS.md by their names in C (`workers`,
    `policy`, `foreign_runtime`, `record_file`), `max_tasks`, `groups` (a list of Group) and
    `weight`."""

    def __init__(self, **options):
        super().__init__(**options)
        wake_r, wake_w = os.pipe()
        # Neither has a reference to this object, which is closed as it is collected.
        self._thread = threading.Thread(target=_serve, args=(self._core, wake_r, wake_w),
                                        name="rubato", daemon=True)
        self._wake = weakref.finalize(self, os.write, wake_w, b"x")  # once
        self._wake.atexit = False
        self._thread.start()

    async def run(self, function, argument=None, **attributes):
        return await self.run_async(function, argument, **attributes)

    def close(self):
        """Finishes the tasks, for as long as the drain limit; again: nothing. Any thread; in a task
        of this executor, or as a future calls back, it raises RuntimeError."""
        if getattr(_in_task, "of", None) is self._core or \
                threading.current_thread() is self._thread:
            raise RuntimeError("close: not in a task or a callback of this executor")
        self._wake()
        self._thread.join()


def _serve(core, wake_r, wake_w):
    with selectors.DefaultSelector() as selector:
        selector.register(core.c.completions_fd(core.ends), selectors.EVENT_READ)
        selector.register(wake_r, selectors.EVENT_READ)
        while not any(key.fd == wake_r for key, _ in selector.select()):
            core.take()
    core.close()
    os.close(wake_r)
    os.close(wake_w)


class Loop(_Tasks):
    """An executor without threads: native tasks run in `run`, on the thread that made this, and
    give it back at the end of a slice. `add_to` has a loop of asyncio call it."""

    def __init__(self, **options):
        if options.get("workers", 0) > 1:
            raise ValueError("workers: a loop has 1")
        super().__init__(in_loop=True, **options)
        self._loop = None
        self._finalizer = weakref.finalize(self, self._core.close)
        self._finalizer.atexit = False

    def fileno(self):
        """Readable when there is something to run."""
        with self._core as executor:
            return self._c.executor_fd(executor)

    def run(self, budget_s=0.0002):
        with self._core as executor:
            state = self._c.executor_run(executor, int(budget_s * 1e9))
        while self._core.take():
            pass
        return state

    def add_to(self, loop, budget_s=0.0002):
        self._loop = loop
        loop.add_reader(self.fileno(), self.run, budget_s)

    def close(self):
        """Runs the tasks to their ends, for as long as the drain limit; again: nothing."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.remove_reader(self.fileno())
        self._core.close()
