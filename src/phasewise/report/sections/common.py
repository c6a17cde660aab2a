"""What several sections need: anchors, links to phases, verdict cells, cases in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from phasewise.records.analyse import CaseResult, Row
from phasewise.records.base import Scalar
from phasewise.records.plan import PlannedPhase
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level, Reason, Verdict
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Block, Group, Inline, Paragraph, Span, code
from phasewise.report.figures.theme import slug
from phasewise.run import Run

# page of the phases that belong to no part
LOOSE = "phases"
# the pages of a run that every run has, each with one topic
TOPICS = {
    "results": "All results",
    "profile": "Profile",
    "validation": "Validation",
    "exports": "Exports",
    "method": "Method",
}
RESERVED = ("index", LOOSE, "summary", "figures", *TOPICS)


def part_pages(run: Run) -> dict[str | None, str]:
    """File name of each part's page, without its ending; None stands for phases without a part."""
    planned = list(run.plan.parts)
    planned += [phase.part for phase in run.plan.phases if phase.part is not None and phase.part not in planned]
    pages: dict[str | None, str] = {}
    for part in planned:
        name = slug(part)
        while name in RESERVED or name in pages.values():
            name += "-part"
        if part not in pages:
            pages[part] = name
    if any(phase.part is None for phase in run.plan.phases):
        pages[None] = LOOSE
    return pages


def phase_link(run: Run, variant: str | None) -> Inline:
    """The name of a variant, linked to where its phase is told."""
    if variant is None:
        return show.NOTHING
    planned = run.phases.get(variant)
    if planned is None:
        return code(variant)
    return Span(variant, code=True, href=f"{part_pages(run)[planned.part]}#{slug(planned.variant)}")


def status_cell(verdict: Verdict) -> Span:
    """The status in its tone."""
    return Span(verdict.status.value, strong=True, tone=sentences.tone(verdict))


def outcome_cell(outcome: Outcome) -> Span:
    """An outcome in its tone."""
    return Span(outcome.value, strong=outcome == Outcome.FAIL, tone=sentences.OUTCOME_TONES[outcome])


def level_cell(level: Level) -> Span:
    """A level in its tone."""
    return Span(sentences.LEVEL_WORDS[level], tone=sentences.LEVEL_TONES[level])


def flag(text: str, wrong: bool) -> Span:
    """Text that turns red where something is wrong."""
    return Span(text, tone="bad" if wrong else "")


def switches_text(switches: dict[str, Scalar]) -> str:
    """Switches as they are set: `tf32=True, block=128`."""
    return ", ".join(f"{show.clean(name)}={show.scalar(value)}" for name, value in sorted(switches.items()))


def method(run: Run, variant: str, sets: dict[str, Scalar]) -> Inline:
    """One line on how a phase does it: the author's, else the switches it sets."""
    planned = run.phases.get(variant)
    if planned is not None and planned.method:
        return planned.method
    return code(switches_text(sets)) if sets else show.NOTHING


def by_case(
    cases: Iterable[CaseResult], prefix: str, build: Callable[[CaseResult], tuple[Block, ...]]
) -> tuple[Block, ...]:
    """The headline case first and, where there are several, each under a title of its own."""
    told = [(case, build(case)) for case in cases]
    if len(told) < 2:
        return tuple(block for _, blocks in told for block in blocks)
    return tuple(
        Group(f"{prefix}-{slug(case.case)}", (case_words(index), code(case.case)), blocks)
        for index, (case, blocks) in enumerate(told)
        if blocks
    )


def folded_by_case(
    cases: Iterable[CaseResult], prefix: str, build: Callable[[CaseResult], tuple[Block, ...]]
) -> tuple[Block, ...]:
    """What is told of the headline case, and a fold for each other one."""
    told = [(case, build(case)) for case in cases]
    return tuple(
        block
        for index, (case, blocks) in enumerate(told)
        for block in (
            blocks
            if index == 0
            else (Group(f"{prefix}-{slug(case.case)}", (case_words(index), code(case.case)), blocks, folded=True),)
            if blocks
            else ()
        )
    )


def case_words(index: int) -> str:
    """What stands before the name of a case."""
    return "Headline case " if index == 0 else "Case "


def nothing(text: str) -> tuple[Paragraph]:
    """A section that has nothing to show says so."""
    return (Paragraph(Span(text, tone="muted")),)


def phases_in_order(case: CaseResult) -> tuple[Row, ...]:
    """Rows that the plan tells: baseline and phases."""
    return tuple(row for row in case.rows if row.kind.value in ("baseline", "phase"))


def rows_of(run: Run, phase: PlannedPhase) -> tuple[tuple[CaseResult, Row], ...]:
    """The rows of a phase in every case that it is for."""
    return tuple(
        (case, row)
        for case in run.results
        for row in case.rows
        if row.variant == phase.variant and row.verdict.reason is not Reason.CASE_NOT_CHOSEN
    )
