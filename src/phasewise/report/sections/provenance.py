"""What was weighed and left, the machine that the numbers belong to, and how to get them again."""

from __future__ import annotations

import shlex

from phasewise.records.machine import Machine, Peaks
from phasewise.records.plan import Budget
from phasewise.report import format as show
from phasewise.report.blocks import Block, Code, Definitions, Inline, Paragraph, Section, Span, Table, code, columns
from phasewise.report.rows import find_machine
from phasewise.report.sections.common import nothing, switches_text
from phasewise.run import Run


def render_considered(run: Run) -> Section:
    """Ideas that were not done, each with its reason."""
    title = "Considered and not done"
    considered = run.plan.considered
    if not considered:
        return Section("considered", title, nothing("The workload lists nothing here."))
    table = Table("Weighed and left", columns("Idea", "Why not"), tuple(considered))
    return Section("considered", title, (table,))


def render_environment(run: Run) -> Section:
    """The machine, its measured peaks, its tools, and the versions."""
    blocks: list[Block] = []
    machine = find_machine(run)
    if machine is None:
        blocks += nothing("No record of the machine is there.")
    else:
        blocks += [Definitions(_facts(machine)), *_peaks(machine.peaks), *_tools(machine)]
    blocks += [*_cases(run), *_costs(run)]
    provenance = _provenance(run)
    if provenance:
        blocks.append(Definitions(provenance))
    return Section("environment", "Environment", tuple(blocks))


def _facts(machine: Machine) -> tuple[tuple[Inline, Inline], ...]:
    capability = ".".join(map(str, machine.capability)) if machine.capability else ""
    gpus = f"{machine.gpus} × " if machine.gpus > 1 else ""
    pairs = (
        ("Device", f"{gpus}{machine.name}" if machine.name else machine.device),
        ("Compute capability", capability),
        ("Multiprocessors", str(machine.multiprocessors) if machine.multiprocessors else ""),
        ("Device memory", show.size(machine.memory_bytes) if machine.memory_bytes else ""),
        ("Last-level cache", show.size(machine.cache_bytes) if machine.cache_bytes else ""),
        ("Power limit", f"{show.number(machine.power_limit_w)} W" if machine.power_limit_w is not None else ""),
        ("Driver", machine.driver),
        ("CUDA", machine.cuda),
        ("Processor cores", str(machine.cores)),
        ("Python", machine.python),
        (
            "Packages",
            ", ".join(f"{show.clean(name)} {show.clean(one)}" for name, one in sorted(machine.versions.items())),
        ),
    )
    return tuple((name, value) for name, value in pairs if value)


def _peaks(peaks: Peaks | None) -> tuple[Block, ...]:
    if peaks is None:
        return nothing("No peaks were measured on this machine.")
    rows: list[tuple[Inline, ...]] = [
        ("Copy, device memory", show.rate(peaks.copy_bytes_per_s, "B/s")),
        ("Copy, last-level cache", show.rate(peaks.cached_copy_bytes_per_s, "B/s")),
    ]
    rows += [
        (f"Matrix product, {dtype}", show.rate(rate, "FLOP/s"))
        for dtype, rate in sorted(peaks.matmul_flops_per_s.items())
    ]
    rows += [
        ("One launch", show.time(peaks.launch_s)),
        ("One node of a CUDA graph", show.time(peaks.graph_node_s)),
        ("One synchronisation", show.time(peaks.sync_s)),
    ]
    return (Table("Peaks, as last measured on a machine of this model", columns("Peak", "#Value"), tuple(rows)),)


def _tools(machine: Machine) -> tuple[Block, ...]:
    if not machine.tools:
        return ()
    rows = tuple(
        (
            code(tool.name),
            tool.version or "yes" if tool.available else "no",
            tool.reason or show.NOTHING,
            tool.cure or show.NOTHING,
        )
        for tool in machine.tools
    )
    return (Table("Optional tools", columns("Tool", "Available", "Why not", "Cure"), rows, folded=True),)


def _cases(run: Run) -> tuple[Block, ...]:
    """Each case as it was planned for this size."""
    places = {place.case: place for records in run.variants if records.plan for place in records.plan.cases}
    if not places:
        return ()
    rows = tuple(
        (
            code(case),
            code(switches_text(place.shape)),
            show.clean(place.inputs),
            show.clean(place.cache),
            show.clean(place.scaling),
            str(place.steps),
        )
        for case, place in places.items()
    )
    titles = columns("Case", "Shape", "Placing the inputs", "Cache", "Scaling", "#Steps validated")
    return (Table("Cases as they were run", titles, rows),)


def _costs(run: Run) -> tuple[Block, ...]:
    """What the run took; older records don't tell that of profiles."""
    costs = run.analysis.costs if run.analysis is not None else ()
    if not costs:
        return ()
    rows = tuple(
        (
            code(cost.stage),
            str(cost.cases),
            show.time(cost.seconds),
            "alone on the device" if cost.alone else "side by side",
        )
        for cost in costs
    )
    alone = sum(cost.seconds for cost in costs if cost.alone)
    return (
        Table("What the run took", columns("Stage", "#Cases", "#Together", "How"), rows),
        Paragraph(
            f"Jobs that have the device to themselves took {show.time(alone)}, the starts of their processes included."
        ),
    )


def _provenance(run: Run) -> tuple[tuple[Inline, Inline], ...]:
    pairs: list[tuple[Inline, Inline]] = []
    if run.plan.source:
        pairs.append(("Source of the workload", code(run.plan.source)))
    if run.analysis:
        machines = run.analysis.machines
        pairs.append(("Commits of the records", tuple(_spaced(run.analysis.commits)) or show.NOTHING))
        pairs.append(("Machines of the records", ", ".join(map(show.clean, machines)) or show.NOTHING))
    planned = next((records.plan for records in run.variants if records.plan), None)
    if planned is not None:
        pairs += [
            ("Budget of a comparison", budget_words(planned.budget)),
            ("Lock file", code(planned.lock)),
            ("Seed", str(planned.seed)),
        ]
    return tuple(pairs)


def _spaced(names: tuple[str, ...]) -> list[str | Span]:
    spans: list[str | Span] = []
    for index, name in enumerate(names):
        spans += [", ", code(name)] if index else [code(name)]
    return spans


def budget_words(budget: Budget) -> str:
    """How long one comparison may take."""
    rounds, sets = show.between(budget.min_rounds, budget.max_rounds), show.between(budget.min_sets, budget.max_sets)
    return (
        f"{rounds} rounds in {'one set' if budget.max_sets == 1 else f'each of {sets} sets'} of fresh "
        f"processes, none added after {show.time(budget.seconds)}; blocks of {show.time(budget.block_s)} and "
        f"{budget.block_steps} steps at least"
    )


def render_reproduce(run: Run) -> Section:
    """Commands that lead to these numbers again."""
    commits = run.analysis.commits if run.analysis else ()
    folder = f"profiles/records/{run.workload}/{run.name}/"
    stack = run.results[0].stack if run.results else None
    lines = [f"git checkout {shlex.quote(show.clean(commits[-1]).removesuffix('+'))}"] if commits else []
    root = run.layout.root if run.layout is not None else None
    lines += ["snakemake --cores all" if root is not None and (root / "Snakefile").is_file() else "phasewise run"]
    once = [f"phasewise try {_word(run.workload)} {_word(stack)}"] if stack else []
    return Section(
        "reproduce",
        "How to reproduce",
        (
            Paragraph(
                ("Every number on these pages comes from the records below ", code(folder), ". The whole run again:")
            ),
            Code("\n".join(lines)),
            *((Paragraph("One variant, in seconds and off the record:"), Code("\n".join(once))) if once else ()),
            Paragraph("The pages alone, from the records and without a GPU:"),
            Code(f"phasewise report {_word(run.workload)} {_word(run.name)}"),
        ),
    )


def _word(text: str) -> str:
    return shlex.quote(show.clean(text))
