"""Running the graph, and cleaning up after runs that failed."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import click

from phasewise.cli.budget import DEADLINE, parse_duration
from phasewise.cli.project import load_all, load_run, project_layout
from phasewise.records.errors import PlanError
from phasewise.records.measure import Measurement
from phasewise.records.validate import Validation
from phasewise.records.verdict import Failure


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--budget", help="Start no job that would not fit: 90s, 8m, 1.5h.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(budget: str | None, arguments: tuple[str, ...]) -> None:
    """Run the graph in this folder: snakemake with ARGUMENTS, from the project's own Snakefile or the package's."""
    environment = dict(os.environ)
    extra: list[str] = []
    if budget is not None:
        environment[DEADLINE] = str(time.time() + parse_duration(budget))
        extra = ["--keep-going"]
    snakefile = Path("Snakefile") if Path("Snakefile").is_file() else Path(__file__).parents[3] / "Snakefile"
    if not snakefile.is_file():
        raise PlanError("Snakefile: none here nor beside the package's sources; call this in a project's top folder")
    command = [sys.executable, "-m", "snakemake", "--snakefile", str(snakefile)]
    done = subprocess.run([*command, *extra, *arguments], env=environment, check=False)
    raise click.exceptions.Exit(done.returncode)


@click.command()
@click.argument("workload")
@click.argument("run_name", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Also those that were skipped or inconclusive for a neighbour.")
def retry(workload: str, run_name: str, everything: bool) -> None:
    """Delete the records of variants that failed, so that the next run makes them again."""
    layout = project_layout()
    story = load_run(layout, workload, run_name)
    failed: dict[str, list[Failure]] = {}
    for variant, gate in load_all(layout, story, "validate.json", Validation).items():
        failed.setdefault(variant, []).extend(case.failure for case in gate.cases if case.failure is not None)
    for variant, measured in load_all(layout, story, "measure.json", Measurement).items():
        for case in measured.cases:
            failed.setdefault(variant, []).extend(arm.failure for arm in case.arms if arm.failure is not None)
            if case.skipped is not None and everything:
                failed[variant].append(case.skipped)
    deleted = 0
    for variant, failures in failed.items():
        wanted = [failure for failure in failures if everything or failure.reason in ("crash", "timeout", "oom")]
        if not wanted:
            continue
        deleted += 1
        for file in ("validate.json", "measure.json", "profile.json", "export.json", "analyse.json"):
            (layout.records(workload, run_name, variant) / file).unlink(missing_ok=True)
        click.echo(f"{variant}: deleted ({wanted[0].reason}: {wanted[0].message})")
    click.echo(f"{deleted} variants will be run again" if deleted else "nothing failed")
