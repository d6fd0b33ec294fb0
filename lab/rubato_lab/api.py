# SPDX-License-Identifier: Apache-2.0
"""Questions for the simulator. Every further keyword is an option of the command, with `_` for `-`
(`rubato_lab.help("sim")` lists them): `costs="synergy-testbed"`, `max_requests=10**6`,
`arrivals="bursty"`. What the program refuses raises RubatoError with its line. Any thread."""

import json
import tomllib
from pathlib import Path

from rubato_lab import program
from rubato_lab.policy import Policy, run as run_policy
from rubato_lab.program import RubatoError
from rubato_lab.results import MaxLoad, MaxLoads, Profile, ProfileType, Run, Runs, Tuned

PROFILE_SCHEMA = "rubato.profile/1"
JSON = ("--json", "-")
POLICY_REQUESTS = 10_000  # of a run with a policy in Python: seconds
LENGTHS = ("requests", "until", "max_requests")


def simulate(policy="synergy", *, workload, workers=16, load=None, settings=None, **options):
    """A Run of one policy: rubato sim --policy, or an object of a class derived from Policy.
    `load` is a share of the capacity (0.7 if neither it nor `rate` is given), `settings` a dict of
    the policy's, of which an object has none. `requests` is 10,000 by default of an object, which
    is slow, without `until`. Raises RubatoError."""
    if isinstance(policy, Policy) and not any(name in options for name in LENGTHS):
        options["requests"] = POLICY_REQUESTS
    words = _words(options, workload=_workload(workload), workers=workers, load=load,
                   set=settings)
    if isinstance(policy, Policy):
        found = json.loads(run_policy(policy, [*words, *JSON]))
        return Run.of({**found, "policy": type(policy).__name__})
    return Run.of(program.run_json(["sim", *_words({}, policy=policy), *words, *JSON]))


def compare(policies="all", *, workload, workers=16, loads=None, load=None, settings=None,
            **options):
    """Runs of several policies with the same requests: rubato sim --compare. `loads` is a list, or
    text as "0.1:0.9:0.1", and gives a run for each policy and load. Raises RubatoError."""
    words = _words(options, compare=_joined(policies), workload=_workload(workload),
                   workers=workers, load=load, loads=_joined(loads), set=settings)
    found = program.run_json(["sim", *words, *JSON])
    return Runs(tuple(Run.of(one) for one in found["runs"]), found)


def find_max(policies="all", *, slo, workload, workers=16, settings=None, **options):
    """The highest load at which each policy meets the SLO: rubato sim --find-max. `slo` is text as
    "short:p99_latency=50us", a list of it, or a dict. Raises RubatoError."""
    words = _words(options, compare=_joined(policies), workload=_workload(workload),
                   workers=workers, find_max=True, slo=slo, set=settings)
    found = program.run_json(["sim", *words, *JSON])
    return MaxLoads(tuple(MaxLoad.of(one) for one in found["results"]), found)


def tune(*, slo, workload, rate=None, policies=None, max_workers=16, **options):
    """The cheapest configuration that meets the SLO: rubato tune. `rate` is required but of a
    Profile, which has its own. Raises RubatoError, also if nothing meets it."""
    from_profile = workload.path if isinstance(workload, Profile) else None
    words = _words(options, slo=slo, rate=rate, from_profile=from_profile,
                   workload=None if from_profile else workload, policies=_joined(policies),
                   max_workers=max_workers)
    text = program.run(["tune", *words, "--output", "-"]).decode()
    found = tomllib.loads(text)
    return Tuned(found["policy"], found["workers"], found["classify"], found.get("set", {}),
                 _notes(text), text)


def profile(path):
    """The traffic that `rubato serve --profile` recorded into this file. Raises RubatoError."""
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
        if found["schema"] != PROFILE_SCHEMA:
            raise RubatoError(f"{path} is '{found['schema']}', not {PROFILE_SCHEMA}")
        types = tuple(ProfileType(one["name"], one["count"], _mean_us(one["service_ns"]),
                                  tuple(map(tuple, one["service_ns"]))) for one in found["types"])
        return Profile(str(path), found["arrivals"]["rate_rps"], types, found)
    except OSError as error:
        raise RubatoError(f"{path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, ZeroDivisionError) as error:
        raise RubatoError(f"{path} is no profile ({PROFILE_SCHEMA}): "
                          f"{type(error).__name__} {error}") from error


def known_policies():
    """What `rubato policies --json` tells of each. Raises RubatoError."""
    return program.run_json(["policies", "--json"])


def help(command="sim"):  # pylint: disable=redefined-builtin
    """The options of `rubato COMMAND`, as text. Raises RubatoError."""
    return program.run([command, "--help"]).decode()


def _words(options, **more):
    return program.words_of({**more, **options})


def _joined(value):
    if value is None or isinstance(value, str):
        return value
    return ",".join(str(one) for one in value)


def _workload(workload):
    return workload.workload if isinstance(workload, Profile) else workload


def _mean_us(buckets):
    total = sum(count for _, _, count in buckets)
    return sum((low + high) / 2 * count for low, high, count in buckets) / total / 1000


def _notes(text):
    """{word: what stands behind it} of the comments "# word    text"."""
    notes = {}
    for line in text.splitlines():
        word, _, rest = line.removeprefix("# ").partition("  ")
        if line.startswith("# ") and word.isalpha() and rest:
            notes[word] = rest.strip()
    return notes
