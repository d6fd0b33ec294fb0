# SPDX-License-Identifier: Apache-2.0
"""Commands for gdb that show the fibers of a Rubato server, in a live process and in a core dump:

    rubato fibers             a line per fiber: what it does, where in the application it is
    rubato bt N [full]        the backtrace of fiber N; full = with its variables
    rubato bt all [full]      those of all suspended fibers

Load it by `gdb -x tools/gdb/rubato.py`. For x86-64. The program needs its symbol table but no other
debug information, so release builds will do.

Where the fibers are: the CurrentWorker in the thread-local t_current_worker of each worker is a
LiveWorker, which has the address of its runtime's RuntimeState. The RuntimeState holds the vector
of all LoopFibers, which point back at it, and so it is recognised. What else this relies on stands
below, and tests/gdb fails if it changes.

How they are shown: registers cannot be set in a core dump. So an unwinder says that the innermost
function of the selected thread was called from where the fiber has left its Context, and gdb's own
backtrace does the rest. What it shows of the thread is taken away.
"""

import contextlib
import re
import struct

import gdb
import gdb.unwinder

SEAT = "'rubato::(anonymous namespace)::t_current_worker'"
ENTRY = "rubato_context_entry"
WORKER_SHARED = 64  # LiveWorker::context_.shared, src/runtime/live_worker.h
LOOP_STACK, LOOP_RUNTIME = 80, 128  # in LoopFiber; its Context is at 0
CONTEXT = ("rsp", "rbx", "rbp", "r12", "r13", "r14", "r15")  # src/mechanism/fiber/context.h
LINE_BYTES = 64
SHARED_MAX_LINES = 1024  # far more than any RuntimeState has
FIBERS_MAX = 1 << 20

# Frames of the runtime, by name or source, and those between it and the application.
RUNTIME = re.compile(r"rubato(_|::(?!kv::|spin::|cli::))")
RUNTIME_FILE = re.compile(r"(^|/)(src/(api|base|datapath|mechanism|runtime|sched)|include/rubato)/")
BETWEEN = re.compile(r"std::|__gnu_cxx::")
BETWEEN_FILE = re.compile(r"/include/c\+\+/")
IN_RECV = re.compile(r"LiveWorker<.*>::(recv|recv_here|resume)\b")
AT_LOCK = re.compile(r"LiveWorker<.*>::yield_for_lock\b")


def words(address, count):
    data = gdb.selected_inferior().read_memory(address, 8 * count)
    return struct.unpack(f"<{count}Q", data)


def word(address):
    return words(address, 1)[0]


def address_of(symbol):
    return int(gdb.parse_and_eval(f"&{symbol}"))


def place(frame):
    return int(frame.read_register("rsp")), int(frame.read_register("rip"))


@contextlib.contextmanager
def selection_kept():
    thread, level = gdb.selected_thread(), gdb.selected_frame().level()
    try:
        yield
    finally:
        thread.switch()
        frame = gdb.newest_frame()
        while frame.level() < level:
            frame = frame.older()
        frame.select()


class Splice(gdb.unwinder.Unwinder):
    """While it has registers, they are those of the caller of the thread's innermost function."""

    def __init__(self):
        super().__init__("rubato")
        self.registers = None
        self.top = None

    def __call__(self, pending):
        # What is inlined into that function is in the same place, and gdb unwinds it itself.
        if self.registers is None or place(pending) != self.top:
            return None
        saved = {name: gdb.Value(value).cast(pending.read_register(name).type)
                 for name, value in self.registers.items()}
        # Its identity must not lie above the frames of the fiber: else gdb finds the stack broken.
        info = pending.create_unwind_info(FrameId(saved["rsp"], pending.read_register("rip")))
        for name, value in saved.items():
            info.add_saved_register(name, value)
        return info

    @contextlib.contextmanager
    def to(self, registers):
        """Yields how many frames are the thread's, before those of who has these registers."""
        frame = gdb.newest_frame()
        self.top = place(frame)
        while frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
        skipped = frame.level() + 1
        try:
            self.registers = registers
            gdb.invalidate_cached_frames()
            yield skipped
        finally:
            self.registers = None
            gdb.invalidate_cached_frames()


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = sp, pc


class Fiber:
    def __init__(self, number, address, threads):
        self.number = number
        low, size = words(word(address + LOOP_STACK), 2)
        # Whoever has its stack pointer in there runs it.
        self.thread = next((thread for thread, sp in threads if low <= sp < low + size), None)
        self.registers = dict(zip(CONTEXT, words(address, len(CONTEXT))))
        if self.thread is None:
            # The switch pops the address where it goes on.
            sp = self.registers["rsp"]
            self.registers.update(rip=word(sp), rsp=sp + 8)
        self.new = self.registers.get("rip") == address_of(ENTRY)

    @contextlib.contextmanager
    def shown(self):
        """gdb shows its frames meanwhile. Yields how many it shows before those."""
        if self.thread is not None:
            self.thread.switch()
            yield 0
        else:
            with splice.to(self.registers) as skipped:
                yield skipped

    def describe(self):
        """What it does, and the innermost function that is not the runtime's, "" if none is."""
        if self.new:
            return "new", ""
        with self.shown() as skipped:
            frames = []
            frame = gdb.newest_frame()
            while frame is not None:
                frames.append((frame.name() or "", frame.find_sal()))
                frame = frame.older()
        del frames[:skipped]
        serves = not any(IN_RECV.search(name) for name, _ in frames)
        if self.thread is not None:
            what = f"runs in thread {self.thread.num}"
        elif not serves:
            what = "parked"
        else:
            waits = any(AT_LOCK.search(name) for name, _ in frames)
            what = "waits for a lock" if waits else "preempted request"
        return what, innermost_of_application(frames) if serves else ""

    def backtrace(self, full):
        if self.new:
            return ""
        with self.shown() as skipped:
            text = gdb.execute("backtrace full" if full else "backtrace", to_string=True)
        text = text[re.search(rf"^#{skipped}\b", text, re.MULTILINE).start():]
        return re.sub(r"^#(\d+) *", lambda at: f"#{int(at[1]) - skipped:<3}", text,
                      flags=re.MULTILINE)


def innermost_of_application(frames):
    """Seen from the outermost frame, the application ends where it calls the runtime."""
    found = ""
    for name, sal in reversed(frames):
        file = sal.symtab.filename if sal.symtab is not None else ""
        # Without what is returned, template arguments and parameters.
        scoped = re.split(r"[(<]", name, maxsplit=1)[0].rpartition(" ")[2]
        if BETWEEN.match(scoped) or BETWEEN_FILE.search(file):
            continue
        if not RUNTIME.match(scoped) and not RUNTIME_FILE.search(file):
            found = f"{name} at {file}:{sal.line}" if file else name
        elif found:
            break
    return found


def find_vector(shared):
    """The addresses of the fibers of the runtime whose RuntimeState stands there; () = none."""
    data = []
    with contextlib.suppress(gdb.MemoryError):
        for line in range(SHARED_MAX_LINES):
            data += words(shared + line * LINE_BYTES, LINE_BYTES // 8)
    for begin, end, limit in zip(data, data[1:], data[2:]):
        size, rest = divmod(end - begin, 8)
        if rest == 0 and 0 < size <= FIBERS_MAX and begin > 0 and end <= limit:
            with contextlib.suppress(gdb.MemoryError, OverflowError):
                fibers = words(begin, size)
                if all(word(fiber + LOOP_RUNTIME) == shared for fiber in fibers):
                    return fibers
    return ()


def find_fibers():
    """Those of all runtimes in the process, in the order in which each has made them."""
    threads, runtimes, trouble = [], [], "no thread is a worker's"
    for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
        thread.switch()
        threads.append((thread, place(gdb.newest_frame())[0]))
        try:
            seat = word(address_of(SEAT))
            shared = word(seat + WORKER_SHARED) if seat != 0 else 0
        except gdb.error as error:  # gdb.MemoryError is one
            trouble = str(error)
            continue
        if shared != 0 and shared not in runtimes:
            runtimes.append(shared)
    addresses = [address for shared in runtimes for address in find_vector(shared)]
    if not runtimes:
        raise gdb.GdbError(f"no fibers found: {trouble}")
    if not addresses:
        raise gdb.GdbError("no fibers found: is this script of the program's version?")
    return [Fiber(number, address, threads) for number, address in enumerate(addresses, 1)]


class Rubato(gdb.Command):
    """Fibers of a Rubato server."""

    def __init__(self):
        super().__init__("rubato", gdb.COMMAND_STACK, prefix=True)


class Command(gdb.Command):
    def invoke(self, argument, from_tty):
        if gdb.selected_thread() is None:
            raise gdb.GdbError("there is no process and no core dump")
        with selection_kept():
            self.run(argument.split())


class Fibers(Command):
    """List the fibers: `rubato fibers`.
For each its number, whether it runs, is parked until a worker needs it or holds a request that is
suspended, and the innermost function that is not the runtime's."""

    def __init__(self):
        super().__init__("rubato fibers", gdb.COMMAND_STACK)

    def run(self, arguments):
        if arguments:
            raise gdb.GdbError("usage: rubato fibers")
        for fiber in find_fibers():
            what, where = fiber.describe()
            print(f"{fiber.number:>4}  {what:<20}  {where}".rstrip())


class Backtrace(Command):
    """Print backtraces of fibers: `rubato bt N [full]`, `rubato bt all [full]`.
N is a number that `rubato fibers` shows, all stands for all that are suspended."""

    def __init__(self):
        super().__init__("rubato bt", gdb.COMMAND_STACK)

    def run(self, arguments):
        which, *rest = arguments or [""]
        if not re.fullmatch(r"all|\d+", which) or rest not in ([], ["full"]):
            raise gdb.GdbError("usage: rubato bt N|all [full]")
        found = find_fibers()
        if which == "all":
            chosen = [fiber for fiber in found if fiber.thread is None]
        else:
            chosen = [fiber for fiber in found if fiber.number == int(which)]
            if not chosen:
                raise gdb.GdbError(f"there is no fiber {which}, see `rubato fibers`")
        for fiber in chosen:
            print(f"Fiber {fiber.number} ({fiber.describe()[0]}):\n{fiber.backtrace(bool(rest))}")


splice = Splice()
gdb.unwinder.register_unwinder(None, splice, replace=True)
Rubato()
Fibers()
Backtrace()
