"""The first screen of a run: is it faster, than what, how far from the best, was the promise kept, what next."""

from __future__ import annotations

from collections import Counter

from phasewise.records.analyse import CaseResult, PeerRow, Row, TargetResult
from phasewise.records.verdict import Level, Status
from phasewise.report import claims, sentences
from phasewise.report import format as show
from phasewise.report.blocks import Block, Bullets, Inline, Paragraph, Section, Span, Table, Tile, Tiles, code, columns
from phasewise.report.figures.ladder import draw_ladder
from phasewise.report.figures.theme import slug
from phasewise.report.rows import row_of
from phasewise.report.sections.common import folded_by_case, level_cell, nothing, phase_link
from phasewise.run import Run

MOST_STEPS = 3
# of a list of targets by what became of them
COUNTED = (
    ("reached", (Level.STRETCH, Level.TARGET, Level.MINIMUM)), ("undecided", (Level.UNDECIDED,)), ("missed", (Level.MISSED,)),
    ("disowned", (Level.DISOWNED,)), ("without a value", (Level.NONE,)),
)  # fmt: skip


def render_answer(run: Run) -> Section:
    """The verdict in a sentence, then five numbers of the headline case."""
    if not run.results:
        return Section(
            "answer", "Verdict", nothing("Nothing has been analysed yet: run the graph, or its analyse stage.")
        )
    case = run.results[0]
    row, peer = row_of(case, case.stack), best_peer(case)
    blocks: list[Block] = [Paragraph(Span(_verdict(run, case, row, peer), strong=True))]
    blocks.append(Tiles((_now(case, row), _peer(peer, case), _best(case, row), _baseline(case), _cost(row))))
    return Section("answer", "Verdict", tuple(blocks))


def best_peer(case: CaseResult) -> PeerRow | None:
    """The fastest other way to the same result: of those that the end of the stack was held against, else of those that an earlier
    program of ours was."""
    found = [one for one in case.peers if one.ratio is not None and one.same_output]
    found = [one for one in found if one.variant == case.stack] or found
    return min(found, key=lambda one: one.ratio.estimate if one.ratio else 0.0, default=None)


def tell_ours(peer: PeerRow, case: CaseResult) -> str:
    """Which program of ours a peer was held against, where it is not the end of the stack."""
    return "" if peer.variant == case.stack else f"; held against {show.clean(peer.variant)}"


def count_targets(targets: tuple[TargetResult, ...]) -> str:
    """How many targets were reached, are undecided, and so on; what is none is left out."""
    counts = Counter(one.level for one in targets)
    told = [(sum(counts[level] for level in levels), words) for words, levels in COUNTED]
    return ", ".join(f"{count} {words}" for count, words in told if count)


def _verdict(run: Run, case: CaseResult, row: Row | None, peer: PeerRow | None) -> str:
    if row is None or row.time_s is None:
        first = f"{show.clean(case.case)}: the end of its stack was not timed."
    else:
        first = f"{show.clean(case.case)} takes {show.time(row.time_s.estimate)} a step{_gain(case)}."
    against = f" {_against(peer, case)}" if peer else " No other way to the same result was measured."
    targets = run.analysis.targets if run.analysis else ()
    goals = f" Of {show.counted(len(targets), 'target')}: {count_targets(targets)}." if targets else ""
    claim = claims.no_claim(case)
    return f"{first}{f' {claim}' if claim else ''}{against}{goals}"


def _gain(case: CaseResult) -> str:
    if case.stack_status is Status.BASELINE:
        return " in your own code: no phase has taken its place"
    if case.stack_speedup is None:
        return f", at least {show.ratio(case.stack_at_least)} as fast as the baseline" if case.stack_at_least else ""
    word = "product of measured ratios" if case.stack_chained else "measured side by side"
    return f", {show.ratio_interval(case.stack_speedup)} as fast as the baseline ({word})"


def _against(peer: PeerRow, case: CaseResult) -> str:
    told = f"{show.ratio_interval(peer.ratio)} as fast as the strongest other way to the same result, {show.clean(peer.name)}"
    told += tell_ours(peer, case)
    return f"{told}, which is no claim." if peer.verdict.status is Status.INCONCLUSIVE else f"{told}."


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
    first = next((row for row in case.rows if row.kind.value == "baseline"), None)
    takes = (
        f"takes {show.time_interval(first.time_s)}"
        if first is not None and first.time_s
        else "too slow to be timed here"
    )
    mark = claims.mark(case.stack_status, chained=case.stack_chained)
    if case.stack_status is Status.BASELINE:
        return Tile("Over your code", show.NOTHING, f"it is your code; {takes}")
    if case.stack_speedup is None:
        bound = f"≥ {show.ratio(case.stack_at_least)}" if case.stack_at_least else show.NOTHING
        return Tile("Over your code", bound, takes if case.stack_at_least else f"no ratio is on record; {takes}")
    told = f"{show.only_bounds(case.stack_speedup)}{mark}; {takes}"
    return Tile("Over your code", show.ratio(case.stack_speedup.estimate), told, claims.headline_tone(case))


def _cost(row: Row | None) -> Tile:
    first = show.time(row.first_step_s if row else None)
    return Tile(
        "Cost", first, f"to build and first step; {show.size(row.peak_memory_bytes if row else None)} at the peak"
    )


def render_next(run: Run) -> Section:
    """The three that hold the most time."""
    steps = [step for step in run.analysis.next_steps if step.seconds] if run.analysis else []
    items: list[Inline] = []
    for step in steps[:MOST_STEPS]:
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
    return (figure,) if figure is not None else ()


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
