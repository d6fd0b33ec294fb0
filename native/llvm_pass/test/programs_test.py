#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Whether programs compute the same with checkpoints compiled in: hard cases of C++, random loops,
a computation that changes threads, a request that is preempted in a live server, and requests that
hold locks there."""

import os
import random
import unittest
from pathlib import Path

from pass_test_support import CXX, HERE, INCLUDE, RUNTIME, PassTest, load_pass, main, run

LIBRARY = Path(os.environ.get("PASS_LIBRARY", "build/dev/src/api/librubato.a"))
INTERPOSE = Path(os.environ.get("PASS_INTERPOSE", "librubato-interpose.so")).resolve()
SEED = int(os.environ.get("RUBATO_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 32)
LOOPS = int(os.environ.get("PASS_RANDOM_LOOPS", "50"))


def has_avx2():
    return "avx2" in Path("/proc/cpuinfo").read_text().split()


class BuiltTest(PassTest):
    def build(self, name, sources, flags, *options, instrument=True):
        """`sources` with the pass, and what the checkpoint needs without it."""
        objects = []
        for source in sources:
            target = self.folder / f"{name}.{Path(source).stem}.o"
            more = load_pass(*options) if instrument else []
            run(CXX, "-std=c++20", *flags, *more, *INCLUDE, "-c", source, "-o", target)
            objects.append(target)
        program = self.folder / name
        run(CXX, *flags, *objects, *self.runtime(flags), "-pthread", "-o", program)
        return program

    def runtime(self, flags):
        """What the checkpoint needs, compiled with these flags once."""
        objects = []
        for source in RUNTIME:
            target = self.folder / f"runtime{'.'.join(flags)}.{source.stem}.o"
            if not target.exists():
                run(CXX, *flags, *INCLUDE, *(["-std=c++20"] if source.suffix == ".cc" else []),
                    "-c", source, "-o", target)
            objects.append(target)
        return objects


class HardCases(BuiltTest):
    def compare(self, *flags):
        source = [HERE / "programs.cc"]
        plain = run(self.build("plain", source, flags, instrument=False)).stdout
        program = self.build("instrumented", source, flags, "-rubato-distance=20")
        self.assertEqual(run(program).stdout, plain)
        taken = run(program, "every-one")
        self.assertEqual(taken.stdout, plain)
        self.assertGreater(int(taken.stderr), 100_000)

    def test_not_optimised(self):
        self.compare("-O0")

    def test_optimised(self):
        self.compare("-O2", "-g")

    # With the checkpoint's own code among what is optimised.
    def test_optimised_when_linked(self):
        for kind in ("full", "thin"):
            with self.subTest(kind):
                self.compare("-O2", f"-flto={kind}")

    @unittest.skipUnless(has_avx2(), "this processor has no AVX2")
    def test_with_wide_vectors(self):
        self.compare("-O3", "-march=native")


class RandomLoops(BuiltTest):
    """Loops over all widths, signs, steps and comparisons, whose chunks end everywhere."""

    def loop(self, draw, number):
        bits = draw.choice((8, 16, 32, 64))
        kind = f"{draw.choice(('', 'u'))}int{bits}_t"
        unsigned = f"uint{bits}_t"
        step = draw.choice((1, 1, 2, 3, 5, 7, -1, -2, -3, draw.randint(-100, 100) or 4))
        rises = step > 0
        compare = draw.choice((("<", "<=", "!=") if rises else (">", ">=", "!=")))
        most = draw.choice((3, 50, 120, 5000))
        # Bounds that the step hits, for !=; in unsigned arithmetic, so that wrapping is defined.
        body = draw.choice((
            "s = (s ^ uint64_t(i)) * 0x100000001b3;",
            "s += a[uint64_t(i) & 255]; a[uint64_t(i) & 255] ^= s;",
            "t += a[uint64_t(i) & 255]; if (t % 61 == 7) s += t;",
            "if (((s += uint64_t(i)) & 1023) == 99) break;",
            "for (uint64_t k = t & 7; k < 12; ++k) s += k ^ a[k]; ++t;",
            "if (s & 4) { s += 3; continue; } s = s * 5 + uint64_t(i);"))
        order = f"{kind}(i {compare} end)"
        if draw.random() < 0.3:
            return (f"uint64_t f{number}({kind} start, {kind} count) {{ uint64_t s = 1, t = 2;"
                    f" uint64_t rounds = 0; {kind} i = start;"
                    f" const {kind} end = {kind}({unsigned}(start) + {unsigned}({step}) *"
                    f" {unsigned}(count)); do {{ {body.replace('continue;', 'goto next;')} next:;"
                    f" i = {kind}({unsigned}(i) + {unsigned}({step})); }}"
                    f" while ((i {compare} end) && ++rounds < 70000); return s ^ t ^ rounds; }}\n",
                    kind, most)
        return (f"uint64_t f{number}({kind} start, {kind} count) {{ uint64_t s = 1, t = 2;"
                f" uint64_t rounds = 0;"
                f" const {kind} end = {kind}({unsigned}(start) + {unsigned}({step}) *"
                f" {unsigned}(count)); for ({kind} i = start; {order} && rounds < 70000;"
                f" i = {kind}({unsigned}(i) + {unsigned}({step}))) {{"
                f" {'++rounds;' if draw.random() < 0.5 or len(compare) > 1 or bits < 32 else ''}"
                f" {body} }} return s ^ t ^ rounds; }}\n", kind, most)

    def simple(self, draw, number):
        """Without a second bound, so that it is strip-mined by its comparison alone."""
        bits = draw.choice((16, 32, 64))
        kind = draw.choice(("int", "uint")) + f"{bits}_t"
        step = draw.randint(1, 9)
        rises = draw.random() < 0.5
        compare = draw.choice(("<", "<=")) if rises else draw.choice((">", ">="))
        sign = "+" if rises else "-"
        body = draw.choice(("s = (s ^ uint64_t(i)) * 0x100000001b3;",
                            "s += a[uint64_t(i) & 255]; a[uint64_t(i) & 255] ^= s;",
                            "s += uint64_t(i) * a[uint64_t(i) & 127];"))
        # In the middle of the range, so that no bound is near its ends.
        low = "1000" if kind.startswith("uint") else "0"
        return (f"uint64_t f{number}({kind} start, {kind} count) {{ uint64_t s = 1;"
                f" const {kind} from = {kind}({low} + start % 100 + (count < 0 ? 0 : count));"
                f" const {kind} end = {kind}(from {sign} (count < 0 ? 0 : count));"
                f" for ({kind} i = from; i {compare} end; i = {kind}(i {sign} {step})) {{ {body} }}"
                f" return s; }}\n", kind, draw.choice((3, 50, 700)))

    def program(self, draw):
        text = "#include <cstdint>\n#include <cstdio>\nstatic uint64_t a[256];\n"
        calls = ""
        for number in range(LOOPS):
            make = draw.choice((self.loop, self.simple))
            code, kind, most = make(draw, number)
            text += "__attribute__((noinline)) " + code
            for _ in range(6):
                start = draw.choice((0, 1, draw.randint(0, 255), draw.randint(0, 1 << 62)))
                count = draw.choice((0, 1, 2, draw.randint(0, most), draw.randint(0, most)))
                calls += (f'  std::printf("{number} %llx\\n", (unsigned long long)f{number}'
                          f"({kind}({start}ull), {kind}({count})));\n")
        text += "int main() {\n  for (int i = 0; i < 256; ++i) a[i] = i * i;\n"
        return text + calls + "}\n"

    def test_give_the_same_in_chunks(self):
        print(f"RUBATO_SEED={SEED}")
        draw = random.Random(SEED)
        source = self.folder / "random.cc"
        source.write_text(self.program(draw))
        for level in ("-O1", "-O2"):
            plain = run(self.build("plain", [source], [level], instrument=False)).stdout
            for distance in (10, 100):
                program = self.build("instrumented", [source], [level],
                                     f"-rubato-distance={distance}")
                self.assertEqual(run(program).stdout, plain, f"seed {SEED} {level} {distance}")


class Threads(BuiltTest):
    def test_thread_locals_are_those_of_the_thread_after_a_change(self):
        here = self.folder / "errno_here.o"
        run(CXX, "-O2", "-c", HERE / "errno_here.cc", "-o", here)
        work = self.folder / "migration.o"
        run(CXX, "-std=c++20", "-O2", *INCLUDE, *load_pass("-rubato-distance=300"), "-c",
            HERE / "migration.cc", "-o", work)
        program = self.folder / "migration"
        run(CXX, work, here, *self.runtime(["-O2"]), "-pthread", "-o", program)
        said = run(program).stdout
        self.assertRegex(said, r"^ok: .* [1-9]\d{2,} switches\n$")


@unittest.skipUnless(LIBRARY.exists(), f"there is no {LIBRARY}")
class Live(BuiltTest):
    def server(self, name, instrument):
        target = self.folder / f"{name}.o"
        run(CXX, "-std=c++20", "-O2", *INCLUDE, *(load_pass() if instrument else []), "-c",
            HERE / "live.cc", "-o", target)
        program = self.folder / name
        run(CXX, target, LIBRARY, "-pthread", "-o", program)
        return program

    def test_a_handler_without_a_checkpoint_of_its_own_is_preempted(self):
        said = run(self.server("with", True)).stdout
        self.assertRegex(said, r"^overtaken after [1-9]\d* preemptions; 10 ms of work: "
                               r"[1-9]\d* preemptions\n$")

    def test_and_would_not_be_without_the_pass(self):
        said = run(self.server("without", False), "2").stdout
        self.assertRegex(said, r"^not overtaken; 10 ms of work: 0 preemptions\n$")

    def test_a_lock_is_not_left_at_a_checkpoint_and_nothing_is_lost_or_doubled(self):
        target = self.folder / "locks.o"
        run(CXX, "-std=c++20", "-O2", *INCLUDE, *load_pass("-rubato-distance=300"), "-c",
            HERE / "locks.cc", "-o", target)
        with_it, without = self.folder / "with", self.folder / "without"
        run(CXX, target, "-Wl,--no-as-needed", INTERPOSE, f"-Wl,-rpath,{INTERPOSE.parent}",
            LIBRARY, "-pthread", "-o", with_it)
        run(CXX, target, LIBRARY, "-pthread", "-o", without)
        self.assertRegex(run(with_it).stdout,
                         r"^held 200 times: 0 under the lock, 0 not once at its release\n"
                         r"shared: (\d+) (\d+) (\d+) of \1 \2 \3; \d{3,} preemptions\n$")
        self.assertRegex(run(without, "held").stdout,
                         r"^held 200 times: [1-9]\d* under the lock, 200 not once")


if __name__ == "__main__":
    main()
