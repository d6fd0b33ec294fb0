# SPDX-License-Identifier: Apache-2.0
"""Policies in Python, for trying an idea: `simulate(MyPolicy(), ...)`. The hooks are those of
src/policy/contract.h, and the simulator decides nothing itself. Slow: some 20 us per question, so
that a run of 10,000 requests takes seconds. Once it has shown its worth, write it in C++."""

import contextlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from typing import NamedTuple

from rubato_lab import program, servers
from rubato_lab.program import RubatoError

HOOKS = ("route", "begins", "quantum", "expired", "requeue", "finished", "dispatch", "may_serve",
         "adapt")
NEVER = 2 ** 63 - 1  # no deadline
NO_WORD = 2 ** 64 - 1  # what `first_word` says of an empty queue
UNKNOWN = "(unknown)"  # the name of type 0
PREEMPTED, YIELDED = 0, 1  # why a request is requeued
LONG = 1  # job_class


class Queue(NamedTuple):
    declaration: int
    index: int


def own(worker):
    """The queue of a worker, in order of arrival; every worker may put there and take."""
    return Queue(0, worker)


def shared(index=0):
    """One of 64 queues of all workers, in order of arrival."""
    return Queue(1, index)


def ordered(index=0):
    """One of 64 queues of all workers: the smallest `word` first, of equal ones the first put."""
    return Queue(2, index)


@dataclass(slots=True)
class Request:
    """What a policy may know of a request; it may set `word`, before it puts it into `ordered`.
    Times are nanoseconds; a `size_hint` of 0 is unknown, a `deadline` of NEVER is none."""

    number: int
    arrived: int
    started: int
    attained: int
    size_hint: int
    deadline: int
    word: int
    flow: int
    type: int
    preemptions: int
    job_class: int
    priority: int


class Policy:
    """A policy: override `next`, and which other hooks it needs. State is kept in `self`: `start`
    makes it anew for each run. A hook may be asked on behalf of any worker."""

    interchangeable = False  # what one idle worker does not find, no other finds but in its own
    adapt_period = 0  # nanoseconds between calls of `adapt`; 0 = never

    def start(self, workers, types, seed):
        """A run begins: `types[request.type]` is the name of a request's type."""

    def route(self, request, at, host):
        """The queue for a request that arrived at worker `at`; default: its own."""
        return own(at)

    def next(self, me, host):
        """The request that worker `me` runs next, from host.take; None = nothing to do."""
        raise NotImplementedError

    def begins(self, request, me, host):
        """A request begins, or goes on, at worker `me`."""

    def quantum(self, request, host):
        """How long its slice is, in nanoseconds; None = without an end."""

    def expired(self, request, me, host):
        """True: its slice on worker `me` is over, and it goes back; else it goes on."""
        return False

    def requeue(self, request, why, me, host):
        """The queue for a request that goes back (PREEMPTED or YIELDED); default: as `route`."""
        return self.route(request, me, host)

    def finished(self, request, service):
        """It is done, after `service` nanoseconds on workers in all."""

    def dispatch(self, host):
        """Called after each event, with which a central place hands requests to workers: from
        host.take to host.put. What it takes it must put somewhere."""

    def may_serve(self, queue, worker, host):
        """Whether that worker may take from the queue, which is not one worker's own."""
        return True

    def adapt(self, host):
        """Called every `adapt_period`."""


class Host:
    """What a hook may ask. `now` is in nanoseconds; hints may be a moment old."""

    def __init__(self, ask, workers):
        self._ask, self.workers, self.now = ask, workers, 0

    def depth(self, queue):
        """How many requests wait there; a hint."""
        return int(self._ask("depth", *queue))

    def first_word(self, queue):
        """The word of the first request of an `ordered` queue, NO_WORD without one; a hint."""
        return int(self._ask("first_word", *queue))

    def busy(self, worker):
        return self._ask("busy", worker) == "1"

    def arrived(self, type_number):
        """Requests of that type since the start."""
        return int(self._ask("arrived", type_number))

    def served(self, type_number):
        """(count, service, waited) of what was done of that type; nanoseconds in all."""
        return tuple(map(int, self._ask("served", type_number).split()))

    def take(self, queue):
        """The first request of a queue, None if it is empty. Only in `next` and `dispatch`."""
        reply = self._ask("take", *queue)
        return None if reply == "-" else _request(reply.split())

    def put(self, queue, request):
        """Puts what the hook has taken. False: the queue is full, and it is still taken."""
        return self._ask("put", *queue, request.number, request.word) == "1"

    def random(self, below):
        """Uniform from 0 on, of the run's seed. After a `next` that returned None the worker draws
        the same again: who tries one queue at random goes on to the others."""
        return int(self._ask("random", below))


def _request(words):
    return Request(*map(int, words))


class _Gone(BaseException):
    """The simulator has ended. No hook may catch it by mistake."""


class _Conversation:
    """The other end of src/sim/piped_policy.h."""

    def __init__(self, policy, hear, say):
        self.policy, self.hear, self.say = policy, hear, say
        self.host = None

    def line(self):
        line = self.hear.readline()
        if not line.endswith("\n"):
            raise _Gone
        return line[:-1]

    def tell(self, *words):
        try:
            self.say.write((" ".join(map(str, words)) + "\n").encode())
        except BrokenPipeError as error:
            raise _Gone from error

    def ask(self, *words):
        self.tell(*words)
        return self.line()

    def serve(self):
        """Until the simulator ends. Raises what a hook raises, and the name of the hook."""
        while True:
            hook = "start"
            try:
                hook, *words = self.line().split(" ")
                self.tell("=", getattr(self, "_" + hook)(words))
            except _Gone:
                return
            except Exception as error:
                name = type(self.policy).__name__
                raise RubatoError(f"policy {name}: {hook}: "
                                  f"{type(error).__name__}: {error}") from error

    def _at(self, words):
        """The host, and the words before the time."""
        self.host.now = int(words[-1])
        return words[:-1]

    @staticmethod
    def _queue(request, queue):
        declaration, index = queue
        return f"{declaration} {index} {request.word}"

    def _start(self, words):
        workers, seed, count = map(int, words)
        self.host = Host(self.ask, workers)
        types = [UNKNOWN, *(self.line() for _ in range(count))]
        self.policy.start(workers, types, seed)
        own_hooks = [hook for hook in HOOKS
                     if getattr(type(self.policy), hook) is not getattr(Policy, hook)]
        return (f"{','.join(own_hooks) or '-'} {int(self.policy.adapt_period)} "
                f"{int(bool(self.policy.interchangeable))}")

    def _route(self, words):
        *fields, at = self._at(words)
        request = _request(fields)
        return self._queue(request, self.policy.route(request, int(at), self.host))

    def _next(self, words):
        me, = self._at(words)
        chosen = self.policy.next(int(me), self.host)
        return "-" if chosen is None else chosen.number

    def _begins(self, words):
        *fields, me = self._at(words)
        self.policy.begins(_request(fields), int(me), self.host)
        return ""

    def _quantum(self, words):
        length = self.policy.quantum(_request(self._at(words)), self.host)
        return "-" if length is None else int(length)

    def _expired(self, words):
        *fields, me = self._at(words)
        return int(bool(self.policy.expired(_request(fields), int(me), self.host)))

    def _requeue(self, words):
        *fields, why, me = self._at(words)
        request = _request(fields)
        return self._queue(request, self.policy.requeue(request, int(why), int(me), self.host))

    def _finished(self, words):
        *fields, service = words
        self.policy.finished(_request(fields), int(service))
        return ""

    def _dispatch(self, words):
        self._at(words)
        self.policy.dispatch(self.host)
        return ""

    def _may_serve(self, words):
        declaration, index, worker = map(int, self._at(words))
        return int(bool(self.policy.may_serve(Queue(declaration, index), worker, self.host)))

    def _adapt(self, words):
        self._at(words)
        self.policy.adapt(self.host)
        return ""


def run(policy, words):
    """What `rubato sim WORDS` prints, with the policy's decisions. Raises RubatoError; an error of
    a hook is its cause."""
    with contextlib.ExitStack() as ends:
        (hear_us, say), (hear, say_to_us) = _pipe(ends), _pipe(ends)
        arguments = ["sim", "--policy", f"pipe:{hear_us.fileno()},{say_to_us.fileno()}", *words]
        printed, said = (ends.enter_context(tempfile.TemporaryFile()) for _ in range(2))
        path = program.path()
        try:
            process = subprocess.Popen([path, *arguments], stdin=subprocess.DEVNULL,
                                       stdout=printed, stderr=said,
                                       pass_fds=(hear_us.fileno(), say_to_us.fileno()),
                                       preexec_fn=servers.die_with_parent)
        except OSError as error:
            raise RubatoError(f"{path}: {error.strerror}") from error
        for theirs in (hear_us, say_to_us):
            theirs.close()
        try:
            with open(hear.fileno(), encoding="utf-8", closefd=False) as lines:
                _Conversation(policy, lines, say).serve()
            status = process.wait()
        finally:
            process.kill()
            process.wait()
        for file in (printed, said):
            file.seek(0)
        if status != 0:
            raise RubatoError(_complaint(policy, program.complaint(arguments, status, said.read())),
                              status)
        return printed.read()


def _pipe(ends):
    """A new one: the end to read, the end to write, without buffers. `ends` closes them."""
    read, write = os.pipe()
    return (ends.enter_context(open(read, "rb", buffering=0)),
            ends.enter_context(open(write, "wb", buffering=0)))


def _complaint(policy, line):
    wrong = re.fullmatch(r"rubato: --policy: (.*?)( \(rubato sim --help tells more\))?", line)
    return f"policy {type(policy).__name__}: {wrong[1]}" if wrong else line
