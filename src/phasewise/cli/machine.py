"""`phasewise doctor`: what this machine can resolve, and what it lacks."""

from __future__ import annotations

import click

from phasewise.cli.project import project_layout
from phasewise.cli.say import say
from phasewise.environment import detect
from phasewise.store import write
from phasewise.workers.lock import lock_machine


@click.command()
@click.option(
    "--repeats", default=5, show_default=True, help="A/A comparisons, and comparisons with a planted slow-down."
)
@click.option(
    "--planted",
    type=float,
    help="Planted slow-down as a fraction; by default 0.02 on a GPU, three noise limits on a CPU.",
)
def doctor(repeats: int, planted: float | None) -> None:
    """Measure the noise floor of this machine, find a planted slow-down, and say what is missing and its cure."""
    from phasewise.measure.doctor import describe_doctor, examine

    layout = project_layout()
    machine = detect()
    with lock_machine(machine.device):
        found = examine(machine, repeats=repeats, planted=planted)
    write(found, layout.machine(machine.device).with_suffix(".doctor.json"))
    say(describe_doctor(found))
