"""A look at any script: where a step's time goes."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from phasewise.cli.deliver import deliver
from phasewise.cli.say import say
from phasewise.environment import detect
from phasewise.look.command import parse_command
from phasewise.records.exit_code import ExitCode
from phasewise.workers.lock import lock_machine


@click.command(context_settings={"ignore_unknown_options": False, "allow_interspersed_args": False})
@click.option(
    "--step",
    default="auto",
    show_default=True,
    metavar="WHAT",
    help="What a step is: optimizer, call (of the outermost module), or the name of a function of the script, or package.module:function.",
)
@click.option(
    "--warmup", type=click.IntRange(0), help="Steps to leave out; by default ten, or those of the first five seconds."
)
@click.option(
    "--steps",
    type=click.IntRange(1),
    help="Steps to time, and as many to trace; by default five, fewer where they are long.",
)
@click.option("--page", type=click.Path(path_type=Path, dir_okay=False), help="Write an HTML page to this file.")
@click.option(
    "--json",
    "file",
    type=click.Path(path_type=Path, dir_okay=False, allow_dash=True),
    help="Write all that was seen to this file; - is the standard output, instead of the lines.",
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- python SCRIPT [ARGUMENTS]...")
def look(
    step: str, warmup: int | None, steps: int | None, page: Path | None, file: Path | None, command: tuple[str, ...]
) -> None:
    """Run a script as it is, and say where the time of one of its steps goes.

    A step is one of its first optimizer's, or else goes from one call of its outermost module to the next. The first are left out, some
    are timed, some are traced; then the script is ended. What it prints goes to standard error.

    Ends with 0, 2 if there were no steps or too few of them, 30 if the script crashed, 70 for a fault of Phasewise.
    """
    from phasewise.look.describe import describe_look
    from phasewise.look.page import render_look
    from phasewise.look.play import ScriptFailed
    from phasewise.look.play import look as play

    parsed = parse_command(command)
    try:
        with lock_machine(detect().device):
            found = play(parsed, step=step, warmup=warmup, steps=steps, progress=partial(say, err=True))
    except ScriptFailed as died:
        if died.failure.traceback:
            say(died.failure.traceback, err=True)
        say(f"phasewise: look: {parsed.name} came to grief: {died.failure.message}", err=True)
        raise click.exceptions.Exit(int(ExitCode.CRASH)) from died
    deliver(found, lines=describe_look, render=render_look, file=file, page=page)
