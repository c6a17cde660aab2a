"""The index of all runs: one line each, with what it came to and which of its targets it reached."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from phasewise import store
from phasewise.model.layout import Layout
from phasewise.records.analyse import CAME_TRUE, DID_NOT, Analysis, CaseResult
from phasewise.records.errors import RecordError
from phasewise.records.plan import PlannedRisk, RunPlan
from phasewise.report import claims
from phasewise.report import format as show
from phasewise.report.blocks import Block, Inline, Page, Paragraph, Section, Span, Table, beside, code, columns
from phasewise.report.figures.ladder import draw_overview
from phasewise.report.rows import row_of
from phasewise.report.sections.common import nothing
from phasewise.report.sections.goals import find_result
from phasewise.report.sections.questions import best_peer, count_targets, tell_ours
from phasewise.report.trials import leave_out_trials


def find_runs(root: Path) -> tuple[tuple[str, str], ...]:
    """Workloads and runs to tell of that have a plan or an analysis."""
    folder = root / "profiles" / "records"
    found = {
        (path.parent.parent.name, path.parent.name)
        for name in ("plan", "analyse")
        for path in folder.glob(f"*/*/{name}.json")
    }
    return leave_out_trials(found)


def make_overview(root: Path) -> Page:
    """The page `reports/index`."""
    runs = [(workload, run, *_read(root, workload, run)) for workload, run in find_runs(root)]
    rows = tuple(_row(root, workload, run, plan, analysis) for workload, run, plan, analysis, _ in runs)
    blocks: list[Block] = []
    if rows:
        often = Counter(workload for workload, *_ in runs)
        analyses = [
            (workload if often[workload] == 1 else f"{workload} on {run}", analysis)
            for workload, run, _, analysis, _ in runs
            if analysis and analysis.cases
        ]
        blocks.append(Paragraph(Span(_count(analyses), strong=True)))
        figure = draw_overview([(name, analysis.cases[0]) for name, analysis in analyses], "overview")
        blocks += beside(figure, _ends([(name, analysis.cases[0]) for name, analysis in analyses]))
        titles = columns(
            "Run",
            "#Speed-up",
            "#Over the strongest alternative",
            "Targets",
            "#Interval",
            "#Step time",
            "#Of the best possible",
            "Device",
            "What it is",
        )
        blocks.append(Table("All runs, each at the end of its headline case's stack", titles, rows))
        blocks.append(
            Paragraph("Speed-ups are over the baseline of the same run, on the same machine, with 95 % intervals.")
        )
    else:
        blocks += nothing("No run is on record yet. `make report` makes the first one.")
    guessed = _weigh_risks([(plan, analysis) for _, _, plan, analysis, _ in runs if plan and analysis])
    blocks += [guessed] if guessed is not None else []
    broken = tuple((problem,) for *_, problem in runs if problem)
    if broken:
        blocks.append(Table("Records that can't be read", columns("Record"), broken, row_titles=False))
    section = Section("runs", "Runs", tuple(blocks))
    return Page(
        "index", "All runs", "Workloads made fast one phase at a time, each step measured and validated.", (section,)
    )


def _ends(ends: list[tuple[str, CaseResult]]) -> Table:
    """The chart in numbers."""
    rows: list[tuple[Inline, ...]] = []
    for name, case in ends:
        ours = [one for one in case.ladder if one.kind in ("baseline", "phase")]
        first = ours[0].time_s.estimate if ours and ours[0].kind == "baseline" else None
        others = [one.time_s.estimate for one in case.ladder if one.kind == "peer"]
        best = [one.time_s.estimate for one in case.ladder if one.kind == "best"]
        now = ours[-1].time_s.estimate if ours else None
        times = (now, min(others, default=None), first, min(best, default=None))
        rows.append((name, *map(show.time, times), code(case.case)))
    titles = columns("Workload", "#Now", "#Strongest other way", "#Your code", "#Best possible", "Case")
    return Table(
        "One step of the first case",
        titles,
        tuple(rows),
        note="Your code and the other way: the time now, times the ratio that was measured side by side.",
    )


def _count(analyses: list[tuple[str, Analysis]]) -> str:
    """What all runs come to: targets by outcome, and the range over the best alternative."""
    targets = tuple(target for _, analysis in analyses for target in analysis.targets)
    peers = [best_peer(analysis.cases[0]) for _, analysis in analyses]
    ratios = sorted(peer.ratio.estimate for peer in peers if peer is not None and peer.ratio is not None)
    apart = [show.clean(name) for (name, _), peer in zip(analyses, peers, strict=True) if peer is None]
    over = f" Over the strongest alternative: {show.ratio(ratios[0])} to {show.ratio(ratios[-1])}." if ratios else ""
    without = f" Not compared with one: {', '.join(apart)}." if apart else ""
    counted = f"; {show.counted(len(targets), 'target')}: {count_targets(targets)}" if targets else ""
    return f"{show.counted(len(analyses), 'run')}{counted}.{over}{without}"


def _weigh_risks(runs: list[tuple[RunPlan, Analysis]]) -> Table | None:
    """How often risks came true, by the probability that their authors gave them; of those that something settled."""
    settled: dict[str, Counter[str]] = {}
    for plan, analysis in runs:
        owners: list[tuple[PlannedRisk, str | None]] = [(risk, None) for risk in plan.risks]
        owners += [(risk, phase.variant) for phase in plan.phases for risk in phase.risks]
        for risk, variant in owners:
            result = find_result(analysis, risk.title, variant)
            if result is not None and result.outcome in (CAME_TRUE, DID_NOT):
                settled.setdefault(risk.probability, Counter())[result.outcome] += 1
    if not settled:
        return None
    rows = tuple(
        (show.clean(probability), str(counts.total()), str(counts[CAME_TRUE]))
        for probability, counts in sorted(settled.items(), key=lambda item: -item[1].total())
    )
    note = "Each risk of a phase counts once. A probability is its author's, in a word or per cent."
    return Table("Risks, by their probability", columns("Probability", "#Settled", "#Came true"), rows, note=note)


def _read(root: Path, workload: str, run: str) -> tuple[RunPlan | None, Analysis | None, str]:
    folder = Layout(root).run(workload, run)
    try:
        return (
            store.read_if_there(folder / "plan.json", RunPlan),
            store.read_if_there(folder / "analyse.json", Analysis),
            "",
        )
    except RecordError as error:
        return None, None, str(error).replace(str(root), "").lstrip("/")


def _row(root: Path, workload: str, run: str, plan: RunPlan | None, analysis: Analysis | None) -> tuple[Inline, ...]:
    there = (Layout(root).report(workload, run) / "index.html").is_file()
    name = f"{workload} on {run}"
    case = analysis.cases[0] if analysis and analysis.cases else None
    row = row_of(case, case.stack) if case else None
    speedup = case.stack_speedup if case else None
    peer = best_peer(case) if case else None
    return (
        Span(name, href=f"{workload}/{run}/index") if there else name,
        show.ratio(speedup.estimate) if speedup else claims.speedup(None, case.stack_at_least if case else None),
        (code(peer.name), f" {show.ratio_interval(peer.ratio)}{tell_ours(peer, case)}")
        if peer and case
        else "not measured",
        count_targets(analysis.targets) if analysis and analysis.targets else show.NOTHING,
        show.only_bounds(speedup) + (claims.mark(case.stack_status, chained=case.stack_chained) if case else ""),
        show.time_interval(row.time_s if row else None),
        show.percent(row.floor_fraction if row else None),
        plan.device if plan else run.partition("-")[2],
        plan.summary if plan else show.NOTHING,
    )
