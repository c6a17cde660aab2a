"""The machine's timeline of a few steps, from Nsight Systems: collected, converted, exported to SQLite, summed."""

from __future__ import annotations

import gzip
import os
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from phasewise.environment import find_tool
from phasewise.profile.intervals import Interval, length, merge
from phasewise.profile.tools import RANGE, Finished, relative, replay_command, run_tool, skip
from phasewise.records.profile import Capture, SystemTimeline
from phasewise.store import write_bytes
from phasewise.workers.lock import lock_captures
from phasewise.workers.scratch import make_scratch

TOOL = "nsys"
TIMEOUT_S = 300.0
LIBRARIES = "PHASEWISE_NSYS_LIBRARIES"
NANO = 1e-9
# calls that a record keeps
ROWS = 12
# packed tables larger than this are summed and not kept
LIMIT_BYTES = 16 << 20
TABLES = frozenset({
    "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET", "CUPTI_ACTIVITY_KIND_RUNTIME",
    "NVTX_EVENTS",
})  # fmt: skip
# columns of these tables that point into StringIds
STRINGS = frozenset({"nameId", "shortName", "demangledName", "mangledName", "textId"})


def watch_system(
    plan: Path,
    case: str,
    root: Path,
    steps: int,
    path: Path,
    environment: Mapping[str, str],
    device: str,
) -> tuple[Capture, SystemTimeline | None]:
    """Collect `steps` steps, alone on the device. What is kept at `path` (.sqlite.gz) are the tables that were summed:
    the report itself names the host, its users and their environment.
    """
    nsys = find_tool(TOOL)
    if nsys is None:
        return Capture(
            tool=TOOL, skipped="Nsight Systems is not installed", cure="install it and put nsys on the PATH"
        ), None
    with make_scratch("nsys") as folder:
        command = collect_command(nsys, folder / "report", replay_command(plan, case, root, steps))
        with lock_captures(device):
            done = run_tool(command, timeout_s=TIMEOUT_S, environment=environment, folder=root)
        report, done = _convert(nsys, folder, done)
        if report is None:
            return skip(TOOL, done.output, "nsys wrote no report"), None
        tables = folder / "report.sqlite"
        done = run_tool(
            [nsys, "export", "--type", "sqlite", "--force-overwrite", "true", "-o", tables, report], timeout_s=TIMEOUT_S
        )
        if not tables.is_file():
            return skip(TOOL, done.output, "nsys exported no tables"), None
        try:
            timeline = read_tables(tables, steps)
        except sqlite3.DatabaseError as error:
            return skip(TOOL, str(error), "the tables of nsys cannot be read"), None
        condense(tables, folder / "condensed.sqlite")
        content = gzip.compress((folder / "condensed.sqlite").read_bytes(), mtime=0)
    if len(content) > LIMIT_BYTES:
        reason = f"its tables of {len(content) >> 20} MiB are summed and not kept"
        return Capture(tool=TOOL, skipped=reason, cure="name fewer cases"), timeline
    write_bytes(content, path)
    return Capture(tool=TOOL, path=relative(path, root), bytes=len(content)), timeline


def collect_command(nsys: Path, output: Path, replay: list[str]) -> list[str]:
    """Without samples and context switches, with which the file of a toy program is 2 GB; kernels of graphs one by one."""
    return [
        str(nsys), "profile", "-s", "none", "--cpuctxsw=none", "-t", "cuda,nvtx", "--cuda-graph-trace=node", "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop", "-f", "true", "-o", str(output), *replay,
    ]  # fmt: skip


def read_tables(path: Path, steps: int) -> SystemTimeline:
    """Sum the tables that nsys exported; a table is absent where nothing of its kind was seen."""
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        kernels = _spans(connection, tables, "CUPTI_ACTIVITY_KIND_KERNEL")
        copies = _spans(connection, tables, "CUPTI_ACTIVITY_KIND_MEMCPY") + _spans(
            connection, tables, "CUPTI_ACTIVITY_KIND_MEMSET"
        )
        calls = _spans(connection, tables, "CUPTI_ACTIVITY_KIND_RUNTIME")
        names = _call_times(connection, tables)
        ranges = _ranges(connection, tables)
    finally:
        connection.close()
    everything = kernels + copies + calls + ranges
    whole = max(end for _, end in everything) - min(start for start, _ in everything) if everything else 0
    return SystemTimeline(
        kernel_s=length(merge(kernels)) * NANO, memcpy_s=length(merge(copies)) * NANO, api_s=length(merge(calls)) * NANO,
        kernels=len(kernels), steps=len(ranges) or steps,
        gpu_busy_share=length(merge(kernels + copies)) / whole if whole else None,
        top_api=tuple(sorted(names.items(), key=lambda item: (-item[1], item[0]))[:ROWS]),
    )  # fmt: skip


def condense(source: Path, path: Path) -> None:
    """Copy the tables that `read_tables` reads, with the strings that they refer to and no others."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("ATTACH DATABASE ? AS report", (str(source),))
        there = {row[0] for row in connection.execute("SELECT name FROM report.sqlite_master WHERE type = 'table'")}
        used = []
        for table in sorted(TABLES & there):
            columns = [row[1] for row in connection.execute(f"PRAGMA report.table_info({table})")]
            only = " WHERE eventType = 59" if table == "NVTX_EVENTS" and "eventType" in columns else ""
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM report.{table}{only}")
            used += [f"SELECT {name} FROM {table}" for name in columns if name in STRINGS]
        if used and "StringIds" in there:
            connection.execute(
                f"CREATE TABLE StringIds AS SELECT * FROM report.StringIds WHERE id IN ({' UNION '.join(used)})"
            )
        connection.commit()
    finally:
        connection.close()


def _convert(nsys: Path, folder: Path, done: Finished) -> tuple[Path | None, Finished]:
    """The report: as nsys left it, or imported from the raw file with the libraries that the importer lacks."""
    report, raw = folder / "report.nsys-rep", folder / "report.qdstrm"
    if report.is_file():
        return report, done
    importer = find_importer(nsys)
    if not raw.is_file() or importer is None:
        return None, done
    paths = [os.environ.get(LIBRARIES, ""), str(importer.parent), os.environ.get("LD_LIBRARY_PATH", "")]
    environment: Mapping[str, str] = {"LD_LIBRARY_PATH": ":".join(path for path in paths if path)}
    imported = run_tool([importer, "-i", raw, "-o", report], timeout_s=TIMEOUT_S, environment=environment)
    return (report if report.is_file() else None), Finished(imported.code, f"{done.output}\n{imported.output}")


def find_importer(nsys: Path) -> Path | None:
    """QdstrmImporter beside nsys: `target-linux-x64/nsys` -> `host-linux-x64/` or `linux-desktop-*/`."""
    for folder in (nsys.resolve().parent, nsys.resolve().parent.parent):
        for pattern in ("QdstrmImporter", "*/QdstrmImporter"):
            found = sorted(folder.glob(pattern))
            if found:
                return found[0]
    return None


def _spans(connection: sqlite3.Connection, tables: set[str], table: str) -> list[Interval]:
    if table not in tables:
        return []
    return [(int(start), int(end)) for start, end in connection.execute(f"SELECT start, end FROM {table}")]


def _call_times(connection: sqlite3.Connection, tables: set[str]) -> dict[str, float]:
    if not {"CUPTI_ACTIVITY_KIND_RUNTIME", "StringIds"} <= tables:
        return {}
    rows = connection.execute(
        "SELECT s.value, SUM(r.end - r.start) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId GROUP BY s.value"
    )
    times: dict[str, float] = {}
    for name, spent in rows:
        # `cudaLaunchKernel_v7000`: the version of the interface is no part of the name
        bare = str(name).rpartition("_v")[0] or str(name)
        times[bare] = times.get(bare, 0.0) + spent * NANO
    return times


def _ranges(connection: sqlite3.Connection, tables: set[str]) -> list[Interval]:
    """The steps that `replay` marked."""
    if "NVTX_EVENTS" not in tables:
        return []
    columns = {row[1] for row in connection.execute("PRAGMA table_info(NVTX_EVENTS)")}
    text = "e.text"
    join = ""
    if "textId" in columns and "StringIds" in tables:
        text, join = "COALESCE(e.text, s.value)", "LEFT JOIN StringIds s ON s.id = e.textId"
    query = f"SELECT e.start, e.end FROM NVTX_EVENTS e {join} WHERE {text} = ? AND e.end IS NOT NULL"
    return [(int(start), int(end)) for start, end in connection.execute(query, (RANGE,))]
