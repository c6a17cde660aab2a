"""Running the graph, and cleaning up after runs that failed."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence

import click

from phasewise.cli.budget import DEADLINE, parse_duration
from phasewise.cli.follow import LOG, follow
from phasewise.cli.project import find_snakefile, load_configuration, open_run, project_layout
from phasewise.cli.results import describe_results
from phasewise.cli.say import say
from phasewise.environment import POOL, VISIBLE, name_gpus
from phasewise.jobs import Stage
from phasewise.model.layout import Layout
from phasewise.records.errors import PlanError, UserError
from phasewise.records.machine import Machine
from phasewise.records.measure import HeadlineMeasurement, Measurement
from phasewise.records.plan import RunPlan
from phasewise.records.profile import Profile
from phasewise.records.validate import Validation
from phasewise.records.verdict import Failure, Reason
from phasewise.run import Run
from phasewise.stages import HEADLINE, MEASURE, PROFILE, VALIDATE, list_later
from phasewise.workers.lock import parse_gpus

# reasons that may be gone the next time
RETRIED = frozenset({Reason.CRASH, Reason.KILLED, Reason.TIMEOUT, Reason.OUT_OF_MEMORY})


class ThroughCommand(click.Command):
    """Hands on a `--` too, which click takes for its own: to Snakemake it ends a list of words."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args:
            # the first is left out
            args = [*args]
            args.insert(args.index("--"), "--")
        return super().parse_args(ctx, args)


@click.command(cls=ThroughCommand, context_settings={"ignore_unknown_options": True})
@click.option("--budget", help="Start no job that would not fit: 90s, 8m, 1.5h.")
@click.option(
    "--gpus",
    envvar=POOL,
    show_envvar=True,
    help="GPUs of one model, such as 0,1: as many jobs at a time, each on one, or on as many as it has ranks.",
)
@click.option(
    "--expect",
    metavar="RUN",
    help="Run nothing if this machine makes another run; that is an error unless RUN's machine is on record.",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def run(budget: str | None, gpus: str | None, expect: str | None, arguments: tuple[str, ...]) -> None:
    """Run the graph in this folder: snakemake with ARGUMENTS, from the project's own Snakefile or the package's.

    A line a job, then what the phases came to. Snakemake's own lines go to logs/run.log, and are shown where it ran no job.
    """
    # as `make report` has it: threads that wait for each other spin, and are what differs most between two machines
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    extra: list[str] = []
    if gpus is not None:
        pool = parse_gpus(gpus)
        if not name_gpus(pool):
            raise UserError(f"--gpus {gpus}: no NVIDIA GPU is found here; leave the option out, and {POOL} unset")
        # what is planned here and a job that has not taken its own yet see one of them
        os.environ.update({POOL: ",".join(pool), VISIBLE: pool[0]})
        extra += ["--resources", f"turn={len(pool)}"]
    if budget is not None:
        os.environ[DEADLINE] = str(time.time() + parse_duration(budget))
        extra += ["--keep-going"]
    made = plan_here()
    if expect is not None and not makes_run(expect, sorted({name for _, name in made})):
        return
    layout = project_layout()
    snakefile = find_snakefile(layout.root)
    # --resources takes all words up to the next option, so targets must not follow it
    words = [*extra, "--snakefile", str(snakefile), *arguments]
    code, followed = follow(words, os.environ, layout)
    if not (followed.ended or followed.failed) and (code or arguments):
        # what was asked of Snakemake itself, or why it did not start
        say((layout.root / LOG).read_text(errors="replace"))
    else:
        tell_results(made, layout, so_far=code != 0)
        if code:
            say(
                "not everything was made: the verdicts above are of what is on record so far, and pages are of an earlier run"
            )
        say(f"Snakemake's own lines: {LOG}")
    raise click.exceptions.Exit(code)


def tell_results(made: Sequence[tuple[str, str]], layout: Layout, *, so_far: bool) -> None:
    """What each run came to: as it was judged last, or, with `so_far`, judged now by what there is of today's plans."""
    for workload, name in made:
        run = Run(workload, name, layout=layout, forgiving=not so_far)
        if so_far:
            judge_so_far(run)
        say(describe_results(run, layout) or f"{workload} {name}: nothing has been judged yet")


def judge_so_far(run: Run) -> None:
    """Give the run, in memory, the verdicts that can be told already. Without a control only differences of over 10 % are."""
    if run.find(Machine) is None or run.prepared is None or not run.find_all(Validation):
        return
    from phasewise.analyse import analyse_run

    run.add(analyse_run(run)[0])


def plan_here() -> list[tuple[str, str]]:
    """Workload and name of each run that this machine makes; raises PlanError, where Snakemake would wrap the sentence in its own words."""
    from phasewise.plan import find_machine, plan_runs

    layout = project_layout()
    configuration = load_configuration(layout)
    plans = plan_runs(configuration, layout.root, find_machine(layout, configuration.device))
    return [(planned.run_plan.workload, planned.run_plan.run) for planned in plans]


def makes_run(name: str, made: Sequence[str]) -> bool:
    """Whether `made`, the runs of this machine, are that one; False, and said so, if it is on record from another machine.

    :raises PlanError: if it is neither this machine's nor on record
    """
    layout = project_layout()
    if list(made) == [name]:
        return True
    other = f"run {name!r} is expected, and this machine makes {', '.join(made)}"
    if not layout.identity(name.partition("-")[2]).exists():
        raise PlanError(f"{other}; name that run in workflow/record.yaml")
    say(f"{other}: {name} is another machine's and stays as it is")
    return False


@click.command()
@click.argument("workload")
@click.argument("run_name", metavar="RUN")
@click.option("--all", "everything", is_flag=True, help="Also those that were skipped or inconclusive for a neighbour.")
def retry(workload: str, run_name: str, everything: bool) -> None:
    """Delete the records of variants that failed, so that the next run makes them again."""
    records = open_run(project_layout(), workload, run_name)
    # variant -> the first of its stages that failed, and why; what was made from that stage goes with it
    failed: dict[str, tuple[Stage, Failure]] = {}
    for stage, failures in (
        (PROFILE, _profiles_failed(records.find_all(Profile))),
        (MEASURE, _measurements_failed(records.find_all(Measurement))),
        (VALIDATE, _gates_failed(records.find_all(Validation))),
    ):
        for variant, failure in failures:
            if everything or failure.reason in RETRIED:
                failed[variant] = (stage, failure)
    for variant, (stage, failure) in sorted(failed.items()):
        for later in list_later(stage, records, variant):
            records.path(later.record, variant).unlink(missing_ok=True)
        say(f"{variant}: deleted from {stage.name} on ({failure.reason}: {failure.message})")
    cases = {case: arms for case in records.plan.cases if (arms := _find_failed(records, case, everything=everything))}
    for case, arms in cases.items():
        records.path(HEADLINE.record, case).unlink(missing_ok=True)
        say(f"{case}: deleted its headline ({', '.join(arms)} failed)")
    if failed or cases:
        # what was judged from them
        for name in ("analyse", "ledger", "summary"):
            records.path(RunPlan).with_name(f"{name}.json").unlink(missing_ok=True)
    told = [f"{len(found)} {what}" for found, what in ((failed, "variants"), (cases, "headlines")) if found]
    say(f"{' and '.join(told)} will be run again" if told else "nothing failed")


def _find_failed(records: Run, case: str, *, everything: bool) -> list[str]:
    """The arms of a headline that failed for a reason that may be gone."""
    headline = records.find(HeadlineMeasurement, case)
    failures = {} if headline is None else {arm.variant: arm.failure for arm in headline.measured.arms}
    return [name for name, failure in failures.items() if failure and (everything or failure.reason in RETRIED)]


def _gates_failed(found: Mapping[str, Validation]) -> Iterator[tuple[str, Failure]]:
    for variant, gate in found.items():
        yield from ((variant, case.failure) for case in gate.cases if case.failure is not None)


def _measurements_failed(found: Mapping[str, Measurement]) -> Iterator[tuple[str, Failure]]:
    """Whichever arm failed: without its parent a variant has no ratio."""
    for variant, measured in found.items():
        for case in measured.cases:
            yield from ((variant, arm.failure) for arm in case.arms if arm.failure is not None)
            # a gate that failed is told as the reason why nothing was timed
            if case.skipped is not None and case.skipped.reason not in RETRIED:
                yield variant, case.skipped


def _profiles_failed(found: Mapping[str, Profile]) -> Iterator[tuple[str, Failure]]:
    for variant, profiled in found.items():
        yield from ((variant, case.failure) for case in profiled.cases if case.failure is not None)
