# SPDX-License-Identifier: Apache-2.0
"""The rows of sweeps: a folder of Parquet files, each written once, as a whole, under a new name,
and read through DuckDB. One process writes at a time. A file that was not finished has another
suffix and is ignored."""

import contextlib
import fcntl
import json
import os
from pathlib import Path

from rubato_lab.extras import need
from rubato_lab.program import RubatoError

FIGURES = ("mean", "p50", "p90", "p99", "p999")
TEXTS = ("key", "point", "version", "options", "verdict", "report", "worker")
WHOLES = ("seed", "requests", "refused", "lost")
NUMBERS = ("load", "offered_rps", "achieved_rps", "utilization",
           *(f"{of}_{name}" for of in ("latency_us", "slowdown") for name in FIGURES), "wall_s")
# What the machine decides and not the simulation.
OF_MACHINE = ("worker", "wall_s")
LOCK = "lock"


def row_of(point, seed, printed, wall_s, worker):
    """The row of what a run printed. Raises RubatoError."""
    try:
        report = json.loads(printed)
        row = {name: report[name] for name in ("load", "offered_rps", "achieved_rps",
                                               "utilization", "requests", "refused", "lost")}
        row |= {f"{of}_{name}": report[of][name] for of in ("latency_us", "slowdown")
                for name in FIGURES}
        row["valid"] = report["valid"]
    except (ValueError, KeyError) as error:
        raise RubatoError(f"rubato sim printed no report: {error}") from error
    return row | {"key": point.run_key(seed), "point": point.key, "version": point.version,
                  "options": json.dumps([[n, list(v)] for n, v in point.options]), "seed": seed,
                  "verdict": report.get("verdict", ""), "report": printed, "wall_s": wall_s,
                  "worker": worker}


class Store:
    """A folder of rows. Raises RubatoError where the folder or a file in it is of no use."""

    def __init__(self, folder, create=False):
        self.folder = Path(folder)
        if create:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise RubatoError(f"--store {folder}: {error.strerror}") from error
        elif not self.folder.is_dir():
            raise RubatoError(f"there is no store {folder}")

    @contextlib.contextmanager
    def writing(self):
        """Keeps other processes from writing."""
        try:
            held = os.open(self.folder / LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise RubatoError(f"{self.folder / LOCK}: {error.strerror}") from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(held)
            raise RubatoError(f"another sweep writes to {self.folder}") from error
        try:
            yield
        finally:
            os.close(held)

    def parts(self):
        return sorted(self.folder.glob("part-*.parquet"))

    def append(self, rows):
        """Writes these rows; they are on the disk when this returns. Raises RubatoError."""
        last = max((int(p.stem.removeprefix("part-")) for p in self.parts()), default=0)
        self.write(rows, self.folder / f"part-{last + 1:07d}.parquet")

    def write(self, rows, path, without=()):
        arrow, parquet = need("pyarrow"), need("pyarrow.parquet")
        columns = [(name, arrow.string()) for name in TEXTS] \
            + [(name, arrow.int64()) for name in WHOLES] \
            + [(name, arrow.float64()) for name in NUMBERS] + [("valid", arrow.bool_())]
        schema = arrow.schema([c for c in columns if c[0] not in without])
        new = path.with_suffix(".new")
        try:
            with open(new, "wb") as out:
                parquet.write_table(arrow.Table.from_pylist(rows, schema), out,
                                    compression="zstd")
                out.flush()
                os.fsync(out.fileno())
            os.replace(new, path)
            self._sync_folder(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink()
            raise RubatoError(f"{path}: {error.strerror or error}; rows written before are "
                              "kept, and --resume goes on") from error

    @staticmethod
    def _sync_folder(folder):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def set_aside(self):
        """Moves all rows into a folder of their own, for a sweep from the start; its path."""
        number = 1
        while (aside := self.folder / f"before-{number}").exists():
            number += 1
        aside.mkdir()
        for part in self.parts():
            part.rename(aside / part.name)
        return aside

    def query(self, sql, parameters=()):
        """(names, rows) of SQL over the view `runs`, a row for each run. Raises RubatoError."""
        duckdb = need("duckdb")
        parts = [str(part) for part in self.parts()]
        if not parts:
            raise RubatoError(f"{self.folder} holds no rows")
        database = duckdb.connect()
        try:
            quoted = ", ".join("'" + part.replace("'", "''") + "'" for part in parts)
            database.execute(f"CREATE VIEW runs AS SELECT * FROM read_parquet([{quoted}], "
                             "union_by_name=true) QUALIFY row_number() OVER (PARTITION BY key) = 1")
            found = database.execute(sql, list(parameters))
            return [column[0] for column in found.description], found.fetchall()
        except duckdb.Error as error:
            raise RubatoError(str(error).strip().splitlines()[0] + self._unreadable()) from error
        finally:
            database.close()

    def _unreadable(self):
        """Names a damaged file, which an error of DuckDB may not."""
        parquet = need("pyarrow.parquet")
        for part in self.parts():
            try:
                parquet.read_metadata(part)
            except Exception:  # pylint: disable=broad-except
                return f": {part} cannot be read; move it away, and --resume runs its rows again"
        return ""

    def rows(self, without=()):
        """Every row as a dict, in the order of its key."""
        if not self.parts():
            return []
        names, rows = self.query("SELECT * FROM runs ORDER BY key")
        return [{n: v for n, v in zip(names, row) if n not in without} for row in rows]

    def figures(self, column):
        """{point: {seed: value}} of a column."""
        found = {}
        if self.parts():
            for point, seed, value in self.query(f'SELECT point, seed, "{column}" FROM runs')[1]:
                found.setdefault(point, {})[seed] = value
        return found
