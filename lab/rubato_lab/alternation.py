# SPDX-License-Identifier: Apache-2.0
"""A B C, A B C, ...: every contender once per repeat, so that a slow minute of the machine hits
all of them. An invalid run is told, repeated once, and kept in the record either way."""

import textwrap

from rubato_lab import units
from rubato_lab.bench import get_p999
from rubato_lab.generator import LoadFailed
from rubato_lab.servers import ServerFailed

COLUMNS = 100
# Starting a server, loading keys and stopping it, for estimates.
OVERHEAD_S = 2.0


class Alternation:
    """`contenders` is a list of (Contender, scan_limit); `say` prints one line."""

    def __init__(self, bench, contenders, rate, clock, say):
        self.bench = bench
        self.contenders = contenders
        self.rate = rate
        self.clock = clock
        self.say = say

    def run_seconds(self):
        return self.bench.options.seconds + OVERHEAD_S

    def remaining_seconds(self, position):
        """An estimate of what the rest of this repeat takes."""
        return (len(self.contenders) - position) * self.run_seconds()

    def run(self, attempts_by_name, server_commands):
        """Fills both, in place, so that an interrupted demo keeps what it has."""
        for repeat in range(self.bench.options.repeats):
            if repeat and not self.clock.allows(self.remaining_seconds(0)):
                self.say(f"  out of time: {repeat} of {self.bench.options.repeats} repeats done")
                return
            for position, (contender, limit) in enumerate(self.contenders):
                attempts = attempts_by_name[contender.name]
                if attempts.failure:
                    continue
                try:
                    self.one(repeat, position, contender, limit, attempts, server_commands)
                except (ServerFailed, LoadFailed) as error:
                    attempts.failure = str(error)
                    self.say(f"  {contender.name} FAILED: {error}")

    def one(self, repeat, position, contender, limit, attempts, server_commands):
        measured = self.open_run(repeat, 0, contender, limit, attempts, server_commands)
        if not measured.report.valid:
            later = self.remaining_seconds(position)
            if self.clock.allows(later):
                attempts.discarded.append(measured)
                measured = self.open_run(repeat, 1, contender, limit, attempts, server_commands)
        attempts.opened.append(measured)

    def open_run(self, repeat, attempt, contender, limit, attempts, server_commands):
        with self.bench.server(contender) as server:
            server_commands[contender.name] = server.command
            measured = self.bench.open_run(server, contender, limit, self.rate, repeat, attempt)
            self.tell(repeat, attempt, contender, measured)
            if attempts.closed is None:
                self.closed_run(server, contender, limit, attempts)
        return measured

    def closed_run(self, server, contender, limit, attempts):
        """On the same server. Its failure leaves the figure out, for the next repeat to try."""
        try:
            attempts.closed = self.bench.closed_run(server, contender, limit)
        except (ServerFailed, LoadFailed) as error:
            self.say(f"  {contender.name} closed loop failed: {error}")

    def tell(self, repeat, attempt, contender, measured):
        report = measured.report
        state = "" if report.valid else f"  INVALID: {report.invalid_reason or 'no reason'}"
        again = " again" if attempt else ""
        self.say(textwrap.fill(
            f"  {repeat + 1}/{self.bench.options.repeats} {contender.name:<10} GET p99.9 "
            f"{units.latency(get_p999(measured)):>8}{again}{state}", COLUMNS,
            subsequent_indent=" " * 17))
