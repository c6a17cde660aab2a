"""Hardware counters of the longest kernels, from Nsight Compute.

Clocks are left alone (`--clock-control none`), so that durations compare with those of the trace. Caches are flushed before each
pass, the tool's default: DRAM bytes are those of a cold cache.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from phasewise.environment import find_tool
from phasewise.profile.names import base_name
from phasewise.profile.tools import Finished, relative, replay_command, run_tool, skip
from phasewise.records.profile import Capture, Counters, Kernel
from phasewise.store import write_bytes
from phasewise.workers.scratch import make_scratch

TOOL = "ncu"
# of one process; a step whose counting takes longer is no case for the counters
TIMEOUT_S = 150.0
KERNELS = 3
# launches a function name in which the wanted instance is looked for
LAUNCHES = 24
DURATION = "gpu__time_duration.sum"
DRAM_BYTES = "dram__bytes.sum"
DRAM = "dram__throughput.avg.pct_of_peak_sustained_elapsed"
SM = "sm__throughput.avg.pct_of_peak_sustained_elapsed"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
TENSOR = "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"
L2 = "lts__t_sector_hit_rate.pct"
REGISTERS = "launch__registers_per_thread"
METRICS = (DURATION, DRAM_BYTES, DRAM, SM, WARPS, TENSOR, L2, REGISTERS)

# columns that are kept beside the metrics: the others name the host, or repeat the device's attributes
COLUMNS = ("ID", "Kernel Name", "Block Size", "Grid Size", "Device", "CC")

# metric or column -> number in SI units, or text
Row = dict[str, str | float]

# to SI; the tool scales units to the value unless told otherwise
UNITS = {
    "nsecond": 1e-9, "ns": 1e-9, "usecond": 1e-6, "us": 1e-6, "msecond": 1e-3, "ms": 1e-3, "second": 1.0, "s": 1.0,
    "byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "Tbyte": 1e12, "KB": 1e3, "MB": 1e6, "GB": 1e9,
}  # fmt: skip


def count_kernels(
    plan: Path, case: str, root: Path, kernels: Sequence[Kernel], path: Path, environment: Mapping[str, str], *,
    most: int = KERNELS,
) -> tuple[Capture, tuple[Counters, ...]]:  # fmt: skip
    """Counters of the `most` longest of `kernels`; the table is kept at `path`.

    One process of the workload counts all of them, and one more for each function that had no launch among the first.
    """
    ncu = find_tool(TOOL)
    if ncu is None:
        return Capture(
            tool=TOOL, skipped="Nsight Compute is not installed", cure="install it and put ncu on the PATH"
        ), ()
    wanted = choose_kernels(kernels, most)
    if not wanted:
        return Capture(
            tool=TOOL, skipped="the trace holds no kernels", cure="look at the torch capture of this case"
        ), ()
    functions = tuple(dict.fromkeys(base_name(kernel.name) for kernel in wanted))
    found: dict[str, list[Row]] = {}
    refused: Capture | None = None
    for asked in dict.fromkeys((functions, *((function,) for function in functions))):
        if all(function in found for function in asked):
            continue
        rows, why, done = _run(ncu, replay_command(plan, case, root, 1), asked, root, environment)
        for row in rows:
            # of a single function it is known whose launches these are, however the tool prints its name
            function = asked[0] if len(asked) == 1 else base_name(str(row.get("Kernel Name")))
            found.setdefault(function, []).append(row)
        if not rows:
            refused = refused or why
            # what has a cure would be refused again
            if why.cure:
                break
        # what did not end would not end for another function either
        if done.code is None:
            break
    counted = [(kernel, pick_row(found.get(base_name(kernel.name), ()), kernel)) for kernel in wanted]
    counters = tuple(picked for _, picked in counted if picked is not None)
    if not counters:
        assert refused is not None, "each kernel is either counted or refused"
        return refused, ()
    content = format_table([row for rows in found.values() for row in rows])
    write_bytes(content, path)
    fewer = "" if most >= KERNELS else "of the longest kernel only, since the shape is a smaller one"
    return Capture(tool=TOOL, path=relative(path, root), bytes=len(content), note=fewer), counters


def choose_kernels(kernels: Iterable[Kernel], most: int = KERNELS) -> list[Kernel]:
    """The longest computing kernels."""
    computing = [kernel for kernel in kernels if kernel.grid and kernel.category != "communication"]
    return sorted(computing, key=lambda kernel: -kernel.seconds)[:most]


def make_command(ncu: Path, replay: Sequence[str], functions: Sequence[str], log: Path) -> list[str]:
    """The command that counts the first launches of the functions inside the profiler's range."""
    names = "|".join(map(re.escape, functions))
    return [
        str(ncu), "--clock-control", "none", "--profile-from-start", "off", "--target-processes", "all", "--csv", "--page", "raw",
        "--print-units", "base", "--metrics", ",".join(METRICS), "--kernel-name-base", "function",
        "-k", f"regex:^({names})$", "-c", str(LAUNCHES * len(functions)), "--log-file", str(log), *replay,
    ]  # fmt: skip


def parse_table(text: str) -> list[Row]:
    """Rows of the raw page, numbers in SI units: the line after the header holds the units. Other lines are skipped."""
    lines = text.splitlines()
    first = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if first is None:
        return []
    header, *body = csv.reader(lines[first:])
    if not body:
        return []
    units = body[0] if not body[0][0] else [""] * len(header)
    rows = []
    for values in body[1:] if not body[0][0] else body:
        if len(values) == len(header):
            rows.append({name: _number(value, unit) for name, value, unit in zip(header, values, units, strict=True)})
    return rows


def pick_row(rows: Sequence[Row], kernel: Kernel) -> Counters | None:
    """The launch that is most like the traced kernel: same template, same grid, else the nearest duration."""
    if not rows:
        return None
    mean = kernel.seconds / max(kernel.calls, 1e-9)

    def distance(row: Row) -> tuple[bool, bool, float]:
        return (
            _bare(str(row.get("Kernel Name", ""))) != _bare(kernel.name),
            _triple(row.get("Grid Size")) != kernel.grid,
            abs(_float(row, DURATION, 0.0) - mean),
        )

    best = min(rows, key=distance)
    like = [row for row in rows if distance(row)[:2] == distance(best)[:2]]
    registers = best.get(REGISTERS)
    return Counters(
        kernel=kernel.name, launches=len(like), duration_s=_float(best, DURATION, 0.0), dram_bytes=_maybe(best, DRAM_BYTES),
        dram_percent=_maybe(best, DRAM), sm_percent=_maybe(best, SM), occupancy_percent=_maybe(best, WARPS),
        tensor_percent=_maybe(best, TENSOR), l2_hit_percent=_maybe(best, L2),
        registers=int(registers) if isinstance(registers, float) else None,
        metrics={name: value for name, value in best.items() if isinstance(value, float) and name in METRICS},
    )  # fmt: skip


def format_table(rows: Sequence[Row]) -> bytes:
    """The rows as CSV in SI units, without columns that name the host and its programs."""
    # most profiles are made without this tool, and the import takes longer than they do
    import pandas

    columns = [name for name in (*COLUMNS, *METRICS) if any(name in row for row in rows)]
    return pandas.DataFrame(rows, columns=columns).to_csv(index=False, lineterminator="\n").encode()


def _run(
    ncu: Path, replay: Sequence[str], functions: Sequence[str], root: Path, environment: Mapping[str, str]
) -> tuple[list[Row], Capture, Finished]:
    with make_scratch("ncu") as folder:
        log = folder / "ncu.csv"
        done = run_tool(
            make_command(ncu, replay, functions, log), timeout_s=TIMEOUT_S, environment=environment, folder=root
        )
        text = log.read_text(errors="replace") if log.is_file() else ""
    return (
        parse_table(text),
        skip(TOOL, f"{done.output}\n{text}", f"ncu counted no launch of {' or '.join(functions)}"),
        done,
    )


def _number(value: str, unit: str) -> str | float:
    try:
        return float(value.replace(",", "")) * UNITS.get(
            unit.split("/")[0] if unit.startswith(("register", "byte/")) else unit, 1.0
        )
    except ValueError:
        return value


def _bare(name: str) -> str:
    """A name without spaces, casts in template arguments and call arguments, which tools print differently."""
    text = re.sub(r"\((?:unsigned )?(?:int|bool|char|short|long)\)", "", name.removeprefix("void "))
    return re.sub(r"\s+|(?<=\d)u?l*(?=[,>])", "", text.split(">(")[0])


def _triple(value: object) -> tuple[int, ...]:
    """`(1, 2, 3)` -> (1, 2, 3)."""
    return tuple(int(part) for part in re.findall(r"\d+", str(value)))


def _float(row: Row, name: str, default: float) -> float:
    value = row.get(name)
    return value if isinstance(value, float) else default


def _maybe(row: Row, name: str) -> float | None:
    value = row.get(name)
    return value if isinstance(value, float) else None
