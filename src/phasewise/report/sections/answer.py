"""The first screen of a run: is it faster, than what, how far from the best, was the promise kept, what next."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult, PeerRow, Row
from phasewise.records.verdict import Level, Status
from phasewise.report import claims, sentences
from phasewise.report import format as show
from phasewise.report.blocks import (
    Block,
    Bullets,
    Inline,
    Section,
    Span,
    Table,
    Tile,
    Tiles,
    beside,
    code,
    columns,
)
from phasewise.report.figures.ladder import KINDS, draw_ladder
from phasewise.report.figures.theme import slug
from phasewise.report.rows import row_of
from phasewise.report.sections.common import folded_by_case, level_cell, nothing, phase_link
from phasewise.report.sections.questions import answer_questions, best_peer, earlier_gain, list_steps, tell_ours
from phasewise.run import Run

MOST_STEPS = 3


def render_answer(run: Run) -> Section:
    """The verdict in a sentence, then five numbers of the headline case."""
    if not run.results:
        return Section(
            "answer", "Verdict", nothing("Nothing has been analysed yet: run the graph, or its analyse stage.")
        )
    case = run.results[0]
    row, peer = row_of(case, case.stack), best_peer(case)
    tiles = Tiles((_now(case, row), _peer(peer, case), _best(case, row), _baseline(case), _cost(row)))
    return Section("answer", "Verdict", (answer_questions(run, case, row, peer), tiles))


def _now(case: CaseResult, row: Row | None) -> Tile:
    if row is None or row.time_s is None:
        return Tile("Now, a step", show.NOTHING, "not timed")
    rate = show.rate(row.items_per_s, f"{case.item}/s")
    return Tile("Now, a step", show.time(row.time_s.estimate), f"{show.time_bounds(row.time_s)}; {rate}")


def _peer(peer: PeerRow | None, case: CaseResult) -> Tile:
    if peer is None or peer.ratio is None:
        return Tile("Over the strongest alternative", show.NOTHING, "none of the same result was measured")
    tone = sentences.STATUS_TONES[Status.FASTER] if peer.verdict.status is Status.SLOWER else "warn"
    told = (code(peer.name), f" {show.only_bounds(peer.ratio)}{tell_ours(peer, case)}")
    return Tile("Over the strongest alternative", show.ratio(peer.ratio.estimate), told, tone)


def _best(case: CaseResult, row: Row | None) -> Tile:
    rung = next((one for one in case.ladder if one.kind == "best"), None)
    if row is None or row.floor_fraction is None:
        return Tile("Of the best possible", show.NOTHING, "no work was declared, or no peak measured")
    told = (
        f"{show.time(rung.time_s.estimate)}: {sentences.floor(case.floor_kind)}"
        if rung
        else sentences.floor(case.floor_kind)
    )
    return Tile("Of the best possible", show.percent(row.floor_fraction), told)


def _baseline(case: CaseResult) -> Tile:
    timed = next((row.time_s for row in case.rows if row.kind.value == "baseline"), None)
    # by the ratios, as in the chart: times of single runs differ by more
    by_ratios = next((one.time_s for one in case.ladder if one.kind == "baseline"), None)
    first = timed or by_ratios if _is_direct(case) else by_ratios or timed
    takes = f"it takes {show.time(first.estimate)}" if first else "too slow to be timed here"
    mark = claims.mark(case.stack_status, chained=case.stack_chained)
    if case.stack_status is Status.BASELINE:
        return Tile("Over your code", show.NOTHING, f"it is your code; {takes}")
    if (earlier := earlier_gain(case)) is not None and earlier.verdict.over_baseline is not None:
        ratio = earlier.verdict.over_baseline
        told = f"{show.only_bounds(ratio)}; held against {show.clean(earlier.variant)}; {takes}"
        return Tile("Over your code", show.ratio(ratio.estimate), told, sentences.STATUS_TONES[Status.FASTER])
    if case.stack_speedup is None:
        bound = f"≥ {show.ratio(case.stack_at_least)}" if case.stack_at_least else show.NOTHING
        return Tile("Over your code", bound, takes if case.stack_at_least else f"no ratio is on record; {takes}")
    told = f"{show.only_bounds(case.stack_speedup)}{mark}; {takes}"
    return Tile("Over your code", show.ratio(case.stack_speedup.estimate), told, claims.headline_tone(case))


def _is_direct(case: CaseResult) -> bool:
    """Whether the end of the stack was timed beside the baseline."""
    return case.stack_speedup is not None and not case.stack_chained


def _cost(row: Row | None) -> Tile:
    first = show.time(row.first_step_s if row else None)
    return Tile(
        "Cost", first, f"to build and first step; {show.size(row.peak_memory_bytes if row else None)} at the peak"
    )


def render_next(run: Run) -> Section:
    """The three that hold the most time."""
    items: list[Inline] = []
    for step in list_steps(run)[:MOST_STEPS]:
        where: list[str | Span] = [" in "]
        for index, name in enumerate(step.cases):
            where += [", " if index else "", code(name)]
        held = f" At most {show.time(step.seconds)} of a step"
        phase: tuple[str | Span, ...] = ("; phase ", code(step.phase)) if step.phase else ()
        items.append((Span(step.advice, strong=True), held, *where, " (", code(step.finding), *phase, ")."))
    blocks = (Bullets(tuple(items), ordered=True),) if items else nothing("No next step stands out.")
    return Section("next-step", "Next three steps", blocks)


def render_ladder(run: Run) -> Section:
    """The times of the headline case; those of others are folded."""
    blocks = folded_by_case(run.results, "ladder", _ladder)
    return Section("ladder", "From your code to the best possible", blocks or nothing("No end of a stack was timed."))


def _ladder(case: CaseResult) -> tuple[Block, ...]:
    figure = draw_ladder(case, f"ladder-{slug(case.case)}")
    if figure is None:
        return ()
    rows = tuple(
        (code(one.name), KINDS.get(one.kind, one.kind), show.time(one.time_s.estimate), show.ratio_interval(one.ratio))
        for one in case.ladder
    )
    note = (
        "Each time is the next one times the ratio between the two, which was measured side by side: single runs of one program "
        "differ by more. Ratio: of a phase over its parent, of another way's time over ours."
    )
    if _is_direct(case):
        note += (
            f" Side by side with your code, the end of the stack is {show.ratio_interval(case.stack_speedup)} as fast."
        )
    titles = columns("What", "Kind", "#A step", "#Ratio")
    return beside(figure, Table(f"Times of {case.case}", titles, rows, note=note))


def render_parts(run: Run) -> Section:
    """Whether each part of the plan is a go, in each case where something of it was kept or asked."""
    rows = tuple(
        (part.part, code(case.case), _go(part.level, part.status, part.variant), phase_link(run, part.variant),
         claims.speedup(part.speedup) + claims.mark(part.status, chained=part.chained), level_cell(part.level))
        for case in run.results
        for part in case.parts
        if part.variant is not None or part.level is not Level.NONE
    )  # fmt: skip
    if not rows:
        return Section("parts", "Go or no-go", nothing("The plan has no parts that were judged."))
    titles = columns("Part", "Case", "Go", "Ends in", "#Over the baseline", "Target")
    note = "Go: the part ends faster than the baseline and misses no target of its own; open: that can't be told."
    return Section("parts", "Go or no-go", (Table("Parts of the plan", titles, rows, note=note),))


def _go(level: Level, status: Status | None, variant: str | None) -> Span:
    if variant is None or level is Level.MISSED or status is Status.SLOWER:
        return Span("no-go", tone="bad")
    if status is Status.FASTER and level is not Level.UNDECIDED:
        return Span("go", tone="good")
    return Span("open", tone="warn")
