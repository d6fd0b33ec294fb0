# SPDX-License-Identifier: Apache-2.0
"""`make demo`: what scans do to GETs under each policy, on this machine, in under three minutes."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

from rubato_lab import (alternation, calibration, comparison, contenders, figures, generator,
                        html_report, keys_beside, machine, options, record, run_report, servers,
                        style, table, units)
from rubato_lab.bench import Bench, Clock
from rubato_lab.extras import need
from rubato_lab.program import RubatoError

LOOK_S = 0.5
# More than this of a core used by others is worth a warning before anything runs.
BUSY_CORES = 0.3
FAILURES = (servers.ServerFailed, generator.LoadFailed, calibration.CalibrationFailed,
            run_report.ReportError)


class DemoFailed(Exception):
    """Told to the user as it is; exit status 1."""


def _first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DemoFailed(f"{command[0]} does not run: {error}") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace").strip()
        raise DemoFailed(f"{' '.join(command)}: status {done.returncode}\n{said}")
    return done.stdout.decode(errors="replace").strip().split("\n")[0]


def version_of(binary):
    if not Path(binary).is_file():
        raise DemoFailed(f"{binary} is missing: run 'make build' first, or name it by --binary")
    return _first_line([str(binary), "--version"])


def commit():
    try:
        return _first_line(["git", "-C", str(options.ROOT), "describe", "--always", "--dirty"])
    except DemoFailed:
        return "unknown"


def look_at_machine(say):
    """(facts, server core, generator core); warns about what will spoil the figures."""
    before = machine.sample()
    time.sleep(LOOK_S)
    after = machine.sample()
    facts, noise = machine.describe(), machine.noise_between(before, after)
    server, gen = machine.choose_cores(os.sched_getaffinity(0),
                                       machine.busiest_first(before, after))
    say(f"machine      {facts['cpu']}, {facts['cores']} cores, {facts['memory_gib']} GiB,"
        f" {facts['kernel']}")
    say(f"             load average {facts['load_average']:.2f}; others use {noise.foreign:.2f} "
        f"cores, steal {100 * noise.steal:.1f} %; server on core {server}, generator on {gen}")
    if noise.foreign > BUSY_CORES:
        say("             WARNING: other programs are busy; the figures will be theirs as well")
    if server == gen:
        say("             WARNING: one core for both: the generator will disturb the server")
    return facts, server, gen


def calibrate(bench, say):
    """What this machine holds, by fcfs: the baseline, so that no policy picks its own load."""
    baseline = contenders.rubato(bench.options.policies[0])
    found = bench.calibrate(baseline)
    say(f"calibration  a scan of {found.scan_limit} items takes {units.latency(found.scan_us)};"
        f" the mix saturates one worker at {units.count(found.capacity_rps)}/s")
    say(f"load         {units.count(found.rate_rps)} requests/s, open loop, "
        f"{units.percent(bench.options.scan_share)} of them scans")
    return found


def redis_with_limit(bench, say):
    """[(contender, scan limit)], empty where redis fails, which does not end the demo."""
    contender = contenders.redis()
    try:
        limit, cost_us = bench.scan_limit_of(contender)
    except FAILURES as error:
        say(f"redis        left out: {str(error).splitlines()[0]}")
        return []
    say(f"redis        LRANGE of {limit} items takes {units.latency(cost_us)}")
    return [(contender, limit)]


def beside_keys(bench, with_redis, say):
    """GETs beside KEYS, for the baseline, the subject and redis: [Beside]. A server that fails is
    left out."""
    field = [contenders.rubato(name) for name in bench.options.policies
             if name in (comparison.BASELINE, comparison.SUBJECT)]
    found = []
    for contender in [*field, *([contenders.redis()] if with_redis else [])]:
        try:
            found.append(keys_beside.measure(bench, contender))
        except FAILURES as error:
            say(f"  {contender.name} beside KEYS failed: {str(error).splitlines()[0]}")
    say("")
    for line in table.beside_lines(found, bench.options.keys):
        say(line)
    say("")
    return found


def settings_of(opts, found, version, server_core, generator_core):
    return {"version": version, "commit": commit(),
            "date": time.strftime("%Y-%m-%d %H:%M:%S %Z"), "seed": opts.seed,
            "seconds_per_run": opts.seconds, "repeats": opts.repeats,
            "rate_rps": found.rate_rps, "capacity_rps": round(found.capacity_rps),
            "scan_share": opts.scan_share, "scan_items": found.scan_limit,
            "scan_us": round(found.scan_us), "keys": opts.keys,
            "value_size_bytes": opts.value_size, "connections": opts.flows,
            "closed_loop_clients": opts.closed_clients, "server_core": server_core,
            "generator_core": generator_core}


def measure(opts, say):
    """Runs everything; returns the Record, saved."""
    clock = Clock(opts.limit_s)
    version = version_of(opts.binary)
    say(f"rubato       {version}")
    facts, server_core, generator_core = look_at_machine(say)
    shutil.rmtree(opts.out / "runs", ignore_errors=True)
    bench = Bench(str(opts.binary), opts.out, server_core, generator_core, opts)
    with_redis = not opts.no_redis and shutil.which("redis-server") is not None
    beside = beside_keys(bench, with_redis, say)
    found = calibrate(bench, say)
    field = [(contenders.rubato(name), found.scan_limit) for name in opts.policies]
    field += redis_with_limit(bench, say) if with_redis else []
    done = record.Record(settings_of(opts, found, version, server_core, generator_core), facts,
                         beside=beside)
    done.attempts = {c.name: comparison.Attempts(c.scan) for c, _ in field}
    say(f"runs         {opts.repeats} x {len(field)} of {opts.seconds:g} s, in alternation")
    alternation.Alternation(bench, field, found.rate_rps, clock, say).run(
        done.attempts, done.server_commands)
    if not any(a.used() for a in done.attempts.values()):
        raise DemoFailed("no run succeeded; the servers' logs are in "
                         f"{shown(opts.out / 'runs')}")
    done.settings["took_s"] = round(clock.elapsed_s)
    record.save(done, opts.out)
    return done


def shown(path):
    """Relative to where the user is, when that is shorter."""
    relative = os.path.relpath(path)
    return relative if len(relative) < len(str(path)) else str(path)


def tell(done, opts, say):
    """The table, the verdicts, the noise; and writes the report."""
    summary = comparison.noise_summary(done.attempts)
    if opts.source:
        for line in table.beside_lines(done.beside, done.settings["keys"]):
            say(line)
    say("\n" + table.render(comparison.rows(done.attempts)))
    repeats = max(len(a.opened) for a in done.attempts.values())
    say(f"medians of {repeats}; ratios repeat by repeat, their median [lowest-highest]")
    say(f"closed loop: what a classic tool with {done.settings['closed_loop_clients']} clients "
        "reports")
    if any(a.flagged for a in done.attempts.values()):
        say("! = no valid run: the generator could not keep its schedule; do not trust that line")
    say("")
    for line in table.undisturbed_lines(comparison.rows(done.attempts)):
        say(line)
    say("")
    for line in table.verdict_lines(comparison.verdicts(done.attempts)):
        say(line)
    say(table.folded(table.noise_line(summary)))
    opts.out.mkdir(parents=True, exist_ok=True)
    drawn = figures.get_ccdf(done) if opts.figure else None
    if drawn:
        opts.figure.parent.mkdir(parents=True, exist_ok=True)
        opts.figure.write_text(style.svg(drawn), encoding="utf-8")
        say(f"figure: {shown(opts.figure)}")
    try:
        page = html_report.page_of(done).html()
    except RubatoError as error:
        say(f"report: none was written: {error}")
        return
    report = opts.out / "report.html"
    report.write_text(page, encoding="utf-8")
    say(f"report: {shown(report)}")


def failed_policies(done):
    """Redis is a yardstick: that it could not be measured is no failure of the demo."""
    return [name for name, attempts in done.attempts.items()
            if attempts.failure and name != contenders.REDIS]


def _terminated(*_):
    raise SystemExit(128 + signal.SIGTERM)


def main(arguments=None):
    """Exit status: 0 measured, 1 could not, 2 bad arguments, 130 interrupted."""
    opts = options.parse(arguments)
    signal.signal(signal.SIGTERM, _terminated)
    sink = sys.stderr if opts.json else sys.stdout
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="replace")

    def say(text):
        print(text, file=sink, flush=True)

    try:
        if opts.figure:
            need("matplotlib")
        done = record.load(opts.source) if opts.source else measure(opts, say)
        tell(done, opts, say)
    except KeyboardInterrupt:
        print("demo: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except (DemoFailed, RubatoError, *FAILURES) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    if opts.json:
        print(json.dumps(record.to_object(done), indent=1))
    return 1 if failed_policies(done) else 0


if __name__ == "__main__":
    sys.exit(main())
