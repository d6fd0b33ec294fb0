# SPDX-License-Identifier: Apache-2.0
"""Which policies the program has, and which of them somebody asked for."""

import json
import subprocess

from rubato_lab.program import RubatoError

LIMIT_S = 60


def live(binary):
    """What `rubato policies --json` says of those that serve live; `options` are their names.
    Raises OSError, SubprocessError and RubatoError."""
    done = subprocess.run([binary, "policies", "--json"], capture_output=True, text=True,
                          timeout=LIMIT_S, check=True)
    try:
        found = [policy for policy in json.loads(done.stdout) if not policy["simulated_only"]]
        return [{**policy, "options": {o["name"] for o in policy["options"]}} for policy in found]
    except (ValueError, LookupError, TypeError) as error:
        raise RubatoError(f"{binary} is no rubato: it tells no policies") from error


def chosen(wanted, known, what):
    """Names of `known`, all or as wanted. Raises ValueError for a name that is not there."""
    names = list(known) if wanted == "all" else wanted.split(",")
    for name in names:
        if name not in known:
            raise ValueError(f"{what} takes all or names of {', '.join(known)}, not '{name}'")
    return names
