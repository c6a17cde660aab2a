"""Starting a workload of one's own, and trying a variant outside the graph."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import click
import msgspec

from phasewise.cli.project import load_configuration, project_layout
from phasewise.cli.say import say
from phasewise.environment import detect
from phasewise.model.apart import call_apart
from phasewise.model.fields import WorkloadName
from phasewise.model.parse import parse
from phasewise.records.base import Scalar
from phasewise.records.errors import PlanError, UserError
from phasewise.records.plan import Kind, VariantPlan
from phasewise.records.verdict import Failure
from phasewise.workers.isolated import run_isolated
from phasewise.workers.lock import lock_machine
from phasewise.workers.scratch import make_scratch

TEMPLATE = Path(__file__).with_name("template.py")
CONFIG = """# What to run; the comments in the package's own workflow/config.yaml explain every key.
workloads:
  {name}: {{source: {name}.py}}
"""


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--name", default="my_workload", show_default=True, help="Name of the workload and of its file.")
@click.option(
    "--from",
    "module",
    metavar="FILE.py:MODEL",
    help="Start from a class of modules, file.py:name or package.module:name: its weights, its get_inputs() or what its layers take.",
)
def init(folder: Path, name: str, module: str | None) -> None:
    """Write a workload that runs, and the configuration for it, into FOLDER."""
    parse(name, WorkloadName, "--name")
    file, config = folder / f"{name}.py", folder / "workflow" / "config.yaml"
    own = Path(module.partition(":")[0]) if module and module.partition(":")[0].endswith(".py") else None
    beside = folder / own.name if own is not None else None
    if beside is not None and file.resolve() == beside.resolve():
        raise PlanError(f"--name {name}: {beside} is the module's own file; choose another name for the workload")
    is_there = own is not None and beside is not None and own.resolve() == beside.resolve()
    for path in (file, config, *(() if beside is None or is_there else (beside,))):
        if path.exists():
            raise PlanError(f"{path}: exists already; choose another folder or --name")
    text = TEMPLATE.read_text() if module is None else adopt(module)
    try:
        config.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        config.write_text(CONFIG.format(name=name))
        if own is not None and beside is not None and not is_there:
            # a project has its sources in its folder
            shutil.copyfile(own, beside)
    except OSError as error:
        raise UserError(f"{folder}: nothing can be written there ({error.strerror}); name another folder") from error
    say(f"wrote {file} and {config}; now: cd {folder} && phasewise run")


def adopt(module: str) -> str:
    """The workload of a module: what it is called with, and the first phase that a look at it suggests."""
    from phasewise.adopt.known import Known
    from phasewise.adopt.suggest import suggest_phase
    from phasewise.adopt.write import write_workload
    from phasewise.look.play import ScriptFailed
    from phasewise.match.side import parse_side, write_side

    side = parse_side(module)
    found = run_isolated("phasewise.adopt.probe:probe_module", write_side(side))
    if isinstance(found, Failure):
        raise UserError(f"init --from {module}: {found.message}")
    known = msgspec.convert(found, Known)
    side = msgspec.structs.replace(side, name=known.name)
    try:
        suggestion = suggest_phase(side, partial(say, err=True))
    except ScriptFailed as died:
        raise UserError(f"init --from {module}: {died.failure.message}") from died
    source = Path(side.source).stem if side.source.endswith(".py") else side.source
    return write_workload(known, source, suggestion)


@click.command("try")
@click.argument("workload")
@click.argument("variant")
@click.option("--case", help="One case instead of all.")
@click.option("--set", "changes", multiple=True, metavar="SWITCH=VALUE", help="Change a switch for this try only.")
def try_variant(workload: str, variant: str, case: str | None, changes: tuple[str, ...]) -> None:
    """Take one variant through all stages in seconds, outside the graph; nothing is put on record.

    Ends with 0 faster, 10 the same, 11 slower, 12 can't tell, 20 wrong, 21 cheat, 30 crash, 2 usage; of several cases, with the worst.
    """
    from phasewise.cli.attempt import attempt, choose_exit, describe_attempt
    from phasewise.cli.stages import list_tracebacks
    from phasewise.plan import plan_runs

    layout = project_layout()
    configuration = load_configuration(layout)
    # a try is asked for by name, so it runs on any machine
    chosen = [dataclasses.replace(one, where="any") for one in configuration.workloads if one.name == workload]
    if not chosen:
        known = ", ".join(options.name for options in configuration.workloads)
        raise PlanError(f"try: workload {workload!r} is not in the configuration; choose among {known}")
    machine = detect(configuration.device)
    planned = plan_runs(dataclasses.replace(configuration, workloads=(chosen[0],)), layout.root, machine)[0]
    plans = {plan.variant: plan for plan in planned.variants}
    if variant not in plans:
        raise PlanError(f"try: variant {variant!r} is not planned; choose among {', '.join(plans)}")
    baseline = next(row for row in planned.run_plan.variants if row.kind is Kind.BASELINE)
    plan = _change(_choose(plans[variant], case), changes, baseline.switches)
    # a workload may refuse a value itself, and then no stage has to start
    payload = {"source": chosen[0].source, "root": str(layout.root), "switches": [one.switches for one in plan.cases]}
    call_apart("phasewise.model.discover:try_switches", [payload], type(None), places=[f"try: {variant}"])
    # of the others, which may lack the case, whatever cases they have
    plans = {name: _choose(other, case) if _has(other, case) else other for name, other in plans.items()} | {
        variant: plan
    }
    with make_scratch("try") as folder, lock_machine(machine.device):
        found = attempt(plan, plans, planned, machine, layout, folder)
    say(describe_attempt(found))
    say("not on record: run the graph to keep a result")
    for text in list_tracebacks(found.validation):
        say(text, err=True)
    raise click.exceptions.Exit(int(choose_exit(found)))


def _has(plan: VariantPlan, case: str | None) -> bool:
    return any(planned.case == case for planned in plan.cases)


def _choose(plan: VariantPlan, case: str | None) -> VariantPlan:
    """The plan with this case only, or with all for None; raises PlanError where it lacks the case."""
    if case is None:
        return plan
    if not _has(plan, case):
        known = ", ".join(planned.case for planned in plan.cases)
        raise PlanError(f"try: {plan.variant} has no case {case!r}; choose among {known}")
    return msgspec.structs.replace(plan, cases=tuple(planned for planned in plan.cases if planned.case == case))


def _change(plan: VariantPlan, changes: tuple[str, ...], defaults: Mapping[str, Scalar]) -> VariantPlan:
    """The plan with switches overridden; raises PlanError for an unknown switch or a value of another type."""
    values: dict[str, Scalar] = {}
    for change in changes:
        name, separator, text = change.partition("=")
        if not separator or name not in defaults:
            raise PlanError(f"--set {change!r}: write SWITCH=VALUE with a switch of {', '.join(defaults)}")
        values[name] = _parse(text, defaults[name], change)
    cases = tuple(msgspec.structs.replace(case, switches={**case.switches, **values}) for case in plan.cases)
    return msgspec.structs.replace(plan, cases=cases, switches={**plan.switches, **values})


def _parse(text: str, like: Scalar, change: str) -> Scalar:
    if isinstance(like, str):
        return text
    try:
        value = msgspec.json.decode(text.lower())
    except msgspec.DecodeError:
        value = None
    if type(value) is not type(like) and not (isinstance(like, float) and type(value) is int):
        raise PlanError(f"--set {change!r}: a value of type {type(like).__name__} is needed")
    return type(like)(value)
