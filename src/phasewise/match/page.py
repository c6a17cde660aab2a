"""A match as a page. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.match.describe import SENTENCES, describe_best, describe_result, describe_speed, name_outcome, name_shape
from phasewise.records.judgement import Judgement, Match
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Status
from phasewise.report.blocks import (
    Block,
    Code,
    Definitions,
    Inline,
    Lead,
    Page,
    Paragraph,
    Section,
    Table,
    Tone,
    code,
    columns,
)
from phasewise.report.html import render_html
from phasewise.report.sections.common import outcome_cell
from phasewise.report.sections.gate import error_table

TONES: dict[Status, Tone] = {
    Status.FASTER: "good", Status.SAME: "muted", Status.SLOWER: "warn", Status.INCONCLUSIVE: "warn", Status.INVALID: "bad",
    Status.FAILED: "bad",
}  # fmt: skip


def render_match(found: Match) -> str:
    """The page as one HTML document that loads nothing."""
    first, *others = found.judgements
    about = (
        ("base", code(found.base)),
        ("candidate", code(found.candidate)),
        ("device", found.device),
        ("kept apart by", found.isolated or "nothing: both are trusted"),
        ("took", f"{found.seconds:.0f} s"),
        ("next", found.next_step),
    )
    sections = [Section("verdict", "Verdict", (*_tell(first), Definitions(about)))]
    sections += [
        Section(f"shape-{number}", f"At {name_shape(one)}", tuple(_tell(one))) for number, one in enumerate(others, 1)
    ]
    sections += [Section("gate", "Gate", tuple(_tell_gate(first)))] if first.gate is not None else []
    title = f"{found.exit_code.name.lower()}: {SENTENCES.get(first.status, first.status)}"
    page = Page(
        name="judge",
        title=title,
        subtitle=(code(found.candidate), " against ", code(found.base)),
        sections=tuple(sections),
    )
    return render_html(page, {})


def _tell(found: Judgement) -> Iterable[Block]:
    value = found.status.value if found.ratio is None else f"{found.ratio.estimate:.3g}×"
    yield Lead(value, name_outcome(found), TONES.get(found.status, ""))
    told: list[tuple[Inline, Inline]] = [
        ("speed", describe_speed(found)),
        ("result", describe_result(found)),
        ("best possible", describe_best(found)),
        ("why", found.detail),
        *(("doubt", doubt) for doubt in found.doubts),
    ]
    yield Definitions(tuple(pair for pair in told if pair[1]))
    if found.traceback:
        yield Code(found.traceback)


def _tell_gate(found: Judgement) -> Iterable[Block]:
    assert found.gate is not None, "there is a section for it"
    if found.gate.errors:
        yield error_table("Results at the gate", found.gate.errors)
    rows = tuple(
        (code(one.guard), outcome_cell(one.outcome), one.message or "–")
        for one in sorted(found.gate.guards, key=lambda one: one.outcome is not Outcome.FAIL)
    )
    if rows:
        yield Table(
            "Guards",
            columns("Guard", "Outcome", "Message"),
            rows,
            folded=all(one.outcome is not Outcome.FAIL for one in found.gate.guards),
        )
    if found.measurement is not None:
        judged = sum(one.arm == "variant" for one in found.measurement.inspections)
        sets = len({taken.process_set for taken in found.measurement.rounds})
        yield Paragraph(
            f"{len(found.measurement.rounds)} rounds in {sets} sets of processes were timed; {judged} timed blocks of the candidate were judged."
        )
