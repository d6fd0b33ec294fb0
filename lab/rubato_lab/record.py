# SPDX-License-Identifier: Apache-2.0
"""A finished demo on disk: demo.json beside the generator's own reports in runs/."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from rubato_lab import comparison, machine, run_report
from rubato_lab.comparison import Attempts
from rubato_lab.generator import Measured
from rubato_lab.keys_beside import Beside

SCHEMA = "rubato.demo/1"
RUNS = "runs"
NAME = "demo.json"


@dataclass
class Record:
    """Settings, machine and all runs. `settings` and `machine` are plain, for the report."""

    settings: dict
    machine: dict
    attempts: dict = field(default_factory=dict)
    server_commands: dict = field(default_factory=dict)
    beside: list = field(default_factory=list)  # GETs beside KEYS, a Beside per server


def _run_object(measured):
    if measured is None:
        return None
    return {"report": f"{RUNS}/{measured.json_name}", "command": measured.command,
            "valid": measured.report.valid, "invalid_reason": measured.report.invalid_reason,
            "foreign_cores": measured.noise.foreign, "steal_cores": measured.noise.steal,
            "wall_s": measured.noise.wall_s}


def _run_from(folder, entry):
    if entry is None:
        return None
    path = folder / entry["report"]
    noise = machine.Noise(entry["foreign_cores"], entry["steal_cores"], entry["wall_s"])
    return Measured(run_report.read(path), entry["command"], noise, path.name)


def to_object(record):
    """What demo.json holds; figures in microseconds."""
    noise = comparison.noise_summary(record.attempts)
    return {
        "schema": SCHEMA, "settings": record.settings, "machine": record.machine,
        "rows": [asdict(row) for row in comparison.rows(record.attempts)],
        "verdicts": [asdict(v) for v in comparison.verdicts(record.attempts)],
        "noise": asdict(noise) if noise else None,
        "server_commands": record.server_commands,
        "beside_keys": [asdict(one) for one in record.beside],
        "contenders": [
            {"name": name, "scan": a.scan, "failure": a.failure,
             "opened": [_run_object(m) for m in a.opened],
             "discarded": [_run_object(m) for m in a.discarded],
             "closed": _run_object(a.closed)}
            for name, a in record.attempts.items()]}


def save(record, folder):
    path = Path(folder) / NAME
    path.write_text(json.dumps(to_object(record), indent=1) + "\n", encoding="utf-8")
    return path


def load(folder):
    """Raises ReportError when the folder holds no finished demo."""
    folder = Path(folder)
    try:
        data = json.loads((folder / NAME).read_text(encoding="utf-8"))
        if data.get("schema") != SCHEMA:
            raise run_report.ReportError(f"{folder / NAME}: not a {SCHEMA} object")
        attempts = {
            c["name"]: Attempts(
                c["scan"], [_run_from(folder, m) for m in c["opened"]],
                [_run_from(folder, m) for m in c["discarded"]],
                _run_from(folder, c["closed"]), c["failure"])
            for c in data["contenders"]}
        return Record(data["settings"], data["machine"], attempts, data["server_commands"],
                      [Beside(**one) for one in data["beside_keys"]])
    except (OSError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise run_report.ReportError(f"{folder / NAME}: {error}") from error
