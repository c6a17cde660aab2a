"""Which records are of today's code."""

from __future__ import annotations

import click

from phasewise.cli.project import open_run, project_layout
from phasewise.cli.say import say
from phasewise.model.freshness import judge_run
from phasewise.records.plan import RunPlan
from phasewise.store import read


@click.command()
@click.argument("workload", required=False)
@click.argument("run", required=False)
def status(workload: str | None, run: str | None) -> None:
    """Say of each run which of its records are fresh; with a workload and a run, of each variant which files have changed."""
    layout = project_layout()
    if workload is not None and run is not None:
        standing = judge_run(open_run(layout, workload, run).plan, layout.root)
        say(f"{workload}/{run}, made at commit {', '.join(standing.commits) or 'none'}")
        for variant, files in standing.changed.items():
            told = (
                "stale: its files are not on record"
                if files is None
                else f"stale: {', '.join(files)}"
                if files
                else "fresh"
            )
            say(f"  {variant:<28} {told}")
        return
    if workload is not None:
        raise click.UsageError("name the run too")
    plans = sorted((layout.root / "profiles" / "records").glob("*/*/plan.json"))
    if not plans:
        say("no run is on record; call `snakemake` or `phasewise run`")
        return
    say(f"{'run':<36} {'fresh':>5} {'stale':>5}  changed since it was made")
    for path in plans:
        plan = read(path, RunPlan)
        standing = judge_run(plan, layout.root)
        count, files = len(standing.changed), standing.files
        unknown = any(found is None for found in standing.changed.values())
        told = f"{len(files)} files" if files else "files not on record" if unknown else "-"
        say(f"{f'{plan.workload}/{plan.run}':<36} {len(standing.fresh):>5} {count - len(standing.fresh):>5}  {told}")
