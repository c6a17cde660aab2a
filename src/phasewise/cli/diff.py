"""Two runs of a workload beside each other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import msgspec

from phasewise.cli.say import say
from phasewise.model.kernel_names import shorten_kernel
from phasewise.model.layout import Layout
from phasewise.model.seconds import format_seconds
from phasewise.records.base import Interval
from phasewise.records.difference import CaseDifference, Difference, KernelChange, VerdictChange
from phasewise.records.errors import UserError
from phasewise.records.exit_code import ExitCode
from phasewise.run import Run

FORM = "write WORKLOAD/RUN, with a folder of another project in front of it where it lies there, such as ../main/my_workload/tiny-cpu"
KERNELS = 10


@click.command()
@click.argument("old")
@click.argument("new")
@click.option("--json", "as_json", is_flag=True, help="Print all that changed as JSON instead of the lines.")
def diff(old: str, new: str, as_json: bool) -> None:
    """Say what changed from run OLD to run NEW: verdicts, by how much, and kernels that came, went, grew or shrank.

    Each is WORKLOAD/RUN, with the folder of another project in front of it where it lies there: PROJECT/WORKLOAD/RUN.

    Ends with 0, 11 if a verdict or a speed-up got worse, 2 if a run has not been judged.
    """
    from phasewise.analyse.difference import compare_runs

    found = compare_runs(open_judged(old), open_judged(new))
    say(msgspec.json.encode(found).decode() if as_json else describe_difference(found))
    if found.is_worse:
        raise click.exceptions.Exit(int(ExitCode.SLOWER))


def open_judged(text: str) -> Run:
    """The run that `text` names; raises UserError where it has not been judged."""
    *folder, workload, name = Path(text).parts if len(Path(text).parts) > 1 else ("", "", "")
    run = Run(workload, name, layout=Layout(Path(*folder).resolve()))
    if not name or run.analysis is None:
        raise UserError(f"diff: {text}: no such run has been judged; {FORM}")
    return run


def describe_difference(found: Difference) -> str:
    """A line a change."""
    lines = [f"{found.workload}: {found.old} -> {found.new}"]
    for case in found.cases:
        lines += [f"  {case.case}: {line}" for line in _tell_case(case)] or [f"  {case.case}: nothing changed"]
    lines += [f"  {case}: only in the old run" for case in found.went]
    lines += [f"  {case}: only in the new run" for case in found.came]
    return "\n".join(lines)


def _tell_case(case: CaseDifference) -> Iterable[str]:
    for change in case.verdicts:
        yield f"{'worse: ' if change.is_worse else ''}{_tell_verdict(change)}"
    for kernel in case.kernels[:KERNELS]:
        yield _tell_kernel(kernel)
    if len(case.kernels) > KERNELS:
        yield f"and {len(case.kernels) - KERNELS} more kernels (--json)"


def _tell_verdict(change: VerdictChange) -> str:
    if change.old is None or change.new is None:
        return f"{change.phase} {'came' if change.old is None else 'went'} ({change.new or change.old})"
    moved = change.old if change.old is change.new else f"{change.old} -> {change.new}"
    return f"{change.phase} {moved}, {_tell(change.old_ratio)} -> {_tell(change.new_ratio)} over its parent"


def _tell(ratio: Interval | None) -> str:
    return "no ratio" if ratio is None else f"{ratio.estimate:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}]"


def _tell_kernel(kernel: KernelChange) -> str:
    name = shorten_kernel(kernel.name)
    if not kernel.old_s or not kernel.new_s:
        return f"kernel {name} {'came' if not kernel.old_s else 'went'}, {format_seconds(kernel.old_s or kernel.new_s)} a step"
    grew = "grew" if kernel.new_s > kernel.old_s else "shrank"
    return f"kernel {name} {grew}, {format_seconds(kernel.old_s)} -> {format_seconds(kernel.new_s)} a step"
