"""The judge without a project: two functions in, a verdict out."""

from __future__ import annotations

from pathlib import Path

import click

from phasewise.match import Effort, ExitCode, Judgement
from phasewise.measure.compare import format_seconds
from phasewise.records.verdict import Status
from phasewise.store import encode

EFFORTS = {
    "quick": Effort(), "standard": Effort(sets=5, rounds=16, seconds=180.0), "thorough": Effort(sets=10, rounds=24, seconds=900.0),
}  # fmt: skip


@click.command()
@click.argument("base")
@click.argument("candidate")
@click.option("--device", default="auto", show_default=True, help="cpu, cuda, or auto: a GPU where there is one.")
@click.option(
    "--tier",
    type=click.Choice(["strict", "moderate", "relaxed"]),
    default="moderate",
    show_default=True,
    help="How far a result may lie from the reference.",
)
@click.option(
    "--budget",
    type=click.Choice(list(EFFORTS)),
    default="quick",
    show_default=True,
    help="How many processes and rounds.",
)
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the verdict with every sample to this file.",
)
def judge(base: str, candidate: str, device: str, tier: str, budget: str, file: Path | None) -> None:
    """Is CANDIDATE right, and faster than BASE? Each is file.py:function or package.module:function.

    Inputs are those that make_inputs(seed) or get_inputs() of the base's module gives. Ends with 0 faster, 10 the same, 11 slower,
    12 can't tell, 20 wrong, 21 cheat, 30 crash, 2 usage.
    """
    from phasewise.match import judge as play
    from phasewise.match.play import choose_device
    from phasewise.workers.lock import lock_machine

    with lock_machine(choose_device(device)):
        found = play(
            base, candidate, device=device, tier=tier, effort=EFFORTS[budget],
            progress=lambda line: click.echo(line, err=True),
        )  # fmt: skip
    if file is not None:
        file.write_bytes(encode(found))
    click.echo(describe(found))
    if found.exit_code is not ExitCode.FASTER:
        raise click.exceptions.Exit(int(found.exit_code))


def describe(found: Judgement) -> str:
    """The verdict in a few lines."""
    lines = [f"{found.status}: {SENTENCES.get(found.status, found.reason)}"]
    if found.ratio is not None:
        ratio, limit = found.ratio, found.noise_limit or 0.0
        lines.append(f"  speed   {ratio.estimate:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}], noise limit {limit:.2%}")
        lines.append(
            f"  times   {format_seconds(found.base_s or 0)} -> {format_seconds(found.candidate_s or 0)} a call"
        )
    elif found.detail:
        lines.append(f"  why     {found.detail}")
    if found.worst is not None:
        allowed = found.allowance
        lines.append(
            f"  result  off by at most {found.worst:.2g} of what is allowed (rtol {allowed.rtol:g}, atol {allowed.atol:g}), "
            f"reference in {found.reference}"
        )
        if found.widened > 1:
            lines.append(
                f"  note    that is {found.widened:.3g} times the tier: the base itself is off by more than the tier allows"
            )
    if found.measurement is not None:
        judged = sum(one.arm == "variant" for one in found.measurement.inspections)
        sets = len({taken.process_set for taken in found.measurement.rounds})
        lines.append(f"  where   {found.device}, {sets} sets of processes, {judged} timed blocks judged")
    return "\n".join(lines)


SENTENCES = {
    Status.FASTER: "the candidate is right and faster",
    Status.SAME: "the candidate is right and as fast as the base, within 1 %",
    Status.SLOWER: "the candidate is right and slower",
    Status.INCONCLUSIVE: "the candidate is right; whether it is faster can't be told",
    Status.INVALID: "the candidate is refused",
    Status.FAILED: "the candidate could not be run",
}
