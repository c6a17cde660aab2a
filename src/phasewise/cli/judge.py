"""The judge without a project: two sides in, a verdict out."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click
import msgspec

from phasewise.cli.deliver import deliver
from phasewise.cli.say import say
from phasewise.match.aggregate import aggregate
from phasewise.match.describe import describe_match
from phasewise.match.plan import Effort
from phasewise.records.base import Scalar
from phasewise.records.errors import UserError
from phasewise.records.exit_code import ExitCode

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
    "--shapes",
    multiple=True,
    metavar="NAME=VALUE,...",
    help="Judge at these sizes too: parameters of the inputs, or constants of BASE's module. May be given again.",
)
@click.option(
    "--isolated/--unisolated",
    default=None,
    help="Keep both sides from the network, from other processes and from writing, but for a folder of their own.",
)
@click.option(
    "--agent",
    "for_agent",
    is_flag=True,
    help="For programs that write candidates: isolated unless --unisolated is given, and one JSON of numbers of two digits.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML page to this file.")
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write the verdict with every sample to this file; - is the standard output, instead of the lines.",
)
def judge(
    base: str,
    candidate: str,
    device: str,
    tier: str,
    budget: str,
    shapes: tuple[str, ...],
    isolated: bool | None,
    for_agent: bool,
    page: Path | None,
    file: Path | None,
) -> None:
    """Is CANDIDATE right, and faster than BASE?

    Each is file.py:name or package.module:name of a function or a class of modules, with @revision behind it for one of git's, or a file
    of KernelBench's form: Model, get_inputs and get_init_inputs in BASE, ModelNew in CANDIDATE. Inputs are those that make_inputs(seed),
    get_inputs() or setup() of BASE's module gives.

    Ends with 0 faster, 10 the same, 11 slower, 12 can't tell, 20 wrong, 21 cheat, 30 crash, 2 usage, 70 a fault of Phasewise.
    """
    from phasewise.match.page import render_match
    from phasewise.match.play import choose_device
    from phasewise.match.play import judge as play
    from phasewise.workers.forkserver import start_fork_server
    from phasewise.workers.lock import lock_machine

    if for_agent and (file is not None or page is not None):
        raise UserError(
            "judge: --agent tells numbers of two digits, and --json and --page tell everything; leave out one or the other"
        )
    parsed = [parse_shape(text) for text in shapes]
    device = choose_device(device)
    if device == "cpu":
        start_fork_server()
    with lock_machine(device):
        found = play(
            base, candidate, device=device, tier=tier, effort=EFFORTS[budget], shapes=parsed,
            isolated=for_agent if isolated is None else isolated, progress=(lambda line: None) if for_agent else partial(say, err=True),
        )  # fmt: skip
    if for_agent:
        say(msgspec.json.encode(aggregate(found)).decode())
    elif deliver(found, lines=describe_match, render=render_match, file=file, page=page):
        for one in found.judgements:
            if one.traceback:
                say(one.traceback, err=True)
    if found.exit_code is not ExitCode.FASTER:
        raise click.exceptions.Exit(int(found.exit_code))


def parse_shape(text: str) -> dict[str, Scalar]:
    """The sizes that "n=64,kind=wide" names; raises UserError."""
    found: dict[str, Scalar] = {}
    for part in text.split(","):
        name, separator, value = part.partition("=")
        if not separator or not name.strip().isidentifier():
            raise UserError(f"--shapes {text!r}: write NAME=VALUE, several with commas between them")
        found[name.strip()] = parse_value(value.strip())
    return found


def parse_value(text: str) -> Scalar:
    """A number or a truth value where it reads as one, else text."""
    try:
        value = msgspec.json.decode(text.lower())
    except msgspec.DecodeError:
        return text
    return value if isinstance(value, bool | int | float) else text
