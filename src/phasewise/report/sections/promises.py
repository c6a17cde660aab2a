"""What the user's document promised, line by line, beside what was measured."""

from __future__ import annotations

from collections import Counter

from phasewise.records.analyse import PromiseResult
from phasewise.records.promise import Kept
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Inline, Paragraph, Section, Span, Table, Tone, code, columns
from phasewise.report.sections.common import nothing, phase_link
from phasewise.run import Run

TONES: dict[Kept, Tone] = {
    Kept.BEATEN: "good", Kept.KEPT: "good", Kept.UNDECIDED: "warn", Kept.BROKEN: "bad", Kept.DISOWNED: "muted", Kept.UNMEASURED: "muted",
    Kept.NO_PROMISE: "muted",
}  # fmt: skip
NONE = "The document that this plan comes from promises nothing."


def render_promises(run: Run) -> Section:
    """The numbers that the document promised, and how many of all its lines were kept."""
    told = run.analysis.promises if run.analysis else ()
    if not told:
        return Section("promises", "Promised and measured", nothing(NONE))
    numbers = tuple(_row(run, one) for one in told if one.measured is not None)
    titles = columns("Promised", "Verdict", "Measured", "In numbers", "Where")
    note = (
        "Promised: in the document's own words; a phase over the step before it. Kept: the whole interval reaches the low end of the "
        "promise, and the ratio is a claim."
    )
    whole = Paragraph(
        (f"{_count(run, told)} ", Span("All of them, with what answers each", href="validation#document"), ".")
    )
    return Section(
        "promises",
        "Promised and measured",
        (Table("What the document promised, and what came", titles, numbers, note=note), whole)
        if numbers
        else (whole,),
    )


def render_document(run: Run) -> Section:
    """Every line of the document that promises something, with its place and what answers it."""
    told = run.analysis.promises if run.analysis else ()
    if not told:
        return Section("document", "The document, line by line", nothing(NONE))
    titles = columns("Line", "Promised", "Answered by", "Evidence", "Verdict")
    rows = tuple(
        (
            _list_lines(one),
            _quote(one),
            _answer(run, one),
            _evidence(one),
            Span(one.outcome.value, tone=TONES[one.outcome]),
        )
        for one in told
    )
    note = "No promise: a guess of the author's, a probability, or something that nothing measured answers; the evidence says which."
    return Section("document", "The document, line by line", (Table("All that it promises", titles, rows, note=note),))


def _count(run: Run, told: tuple[PromiseResult, ...]) -> str:
    counts = Counter(one.outcome for one in told)
    outcomes = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in TONES if counts[outcome])
    document = show.clean(run.plan.document) or "The document"
    return f"{document}: {show.counted(len(told), 'promise')}, {outcomes}."


def _row(run: Run, one: PromiseResult) -> tuple[Inline, ...]:
    return (
        _quote(one),
        Span(one.outcome.value, tone=TONES[one.outcome]),
        _evidence(one),
        _promised(one),
        _place(run, one),
    )


def _quote(one: PromiseResult) -> Inline:
    return show.clean(one.promise.quote)


def _list_lines(one: PromiseResult) -> str:
    return ", ".join(map(str, one.promise.lines)) or show.NOTHING


def _promised(one: PromiseResult) -> str:
    if one.promise.promised is None or one.measured is None:
        return "the target's bounds"
    if one.measured.unit == "x":
        return show.ratio_range(one.promise.promised)
    low, high = (show.metric(bound, one.measured.metric, one.measured.unit) for bound in one.promise.promised)
    return low if low == high else f"{low} to {high}"


def _evidence(one: PromiseResult) -> str:
    return sentences.target(one.measured) if one.measured is not None else show.clean(one.evidence) or show.NOTHING


def _answer(run: Run, one: PromiseResult) -> Inline:
    promise = one.promise
    if promise.target:
        return f"target {show.clean(promise.target)}"
    if promise.check:
        return ("check ", code(promise.check))
    if promise.risk:
        return f"risk {show.clean(promise.risk)}"
    return phase_link(run, one.variant) if one.variant else show.clean(promise.phase) or "nothing"


def _place(run: Run, one: PromiseResult) -> Inline:
    """The variant that it was measured in, if it is one phase's, and the case."""
    case = code(one.case) if one.case else show.NOTHING
    variant = phase_link(run, one.variant) if one.variant else None
    return case if not isinstance(variant, Span) or not isinstance(case, Span) else (variant, ", ", case)
