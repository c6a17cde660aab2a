"""The validation checklist: how far each variant lies from the reference, guards, checks and their figures."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.records.base import find_case
from phasewise.records.plan import Allowance
from phasewise.records.validate import CaseValidation, CheckResult, Guard, Outcome, TensorError
from phasewise.report import format as show
from phasewise.report.blocks import (
    Block,
    Code,
    Figure,
    Group,
    Inline,
    Paragraph,
    Section,
    Span,
    Table,
    beside,
    code,
    columns,
)
from phasewise.report.figures.recordings import draw_check
from phasewise.report.figures.theme import slug
from phasewise.report.sections.common import case_words, flag, nothing, outcome_cell, phase_link
from phasewise.run import Run

MOST_ERRORS = 12
# that a reader sees without unfolding them
MOST_PASSES = 3


def render_validation(run: Run) -> Section:
    """One line a variant, then the workload's own checks with their numbers and charts."""
    names = list(run.plan.cases) or [case.case for case in run.results]
    cases = list(
        dict.fromkeys(
            names + [one.case for records in run.variants if records.validation for one in records.validation.cases]
        )
    )
    told = [(case, _case(run, case)) for case in cases]
    told = [(case, blocks) for case, blocks in told if blocks]
    if not told:
        return Section("validation", "Validation checklist", nothing("No validation is on record."))
    blocks: list[Block] = [*tier_words(run)]
    for index, (case, inner) in enumerate(told):
        alone = len(told) == 1
        blocks += inner if alone else [Group(f"validation-{slug(case)}", (case_words(index), code(case)), inner)]
    return Section("validation", "Validation checklist", tuple(blocks))


def tier_words(run: Run) -> tuple[Block, ...]:
    """The allowance that errors are compared with, but for variants that have one of their own."""
    allowance, tier = find_tier(run), run.plan.tier
    if allowance is None:
        return (Paragraph(f"Tier: {tier}."),) if tier else ()
    return (Paragraph(f"Tier {tier}: {allowance_words(allowance)}"),)


def find_tier(run: Run) -> Allowance | None:
    """The allowance of the run's tier: that of the baseline, which stands first and has none of its own."""
    return next((records.plan.allowance for records in run.variants if records.plan), None)


def own_tolerance(run: Run, variant: str) -> str:
    """What the variant's own allowance is, where it is not the tier's; "" where it is."""
    plan, tier = run[variant].plan, find_tier(run)
    if plan is None or tier is None or plan.allowance == tier:
        return ""
    return f"tolerance of its own: {allowance_words(plan.allowance)}"


def allowance_words(allowance: Allowance) -> str:
    """An allowance as a formula, with its reason."""
    unit = f" ({allowance.unit})" if allowance.unit else ""
    return (
        f"|error| ≤ {show.power_of_ten(allowance.atol)} + {show.power_of_ten(allowance.rtol)} · |reference|{unit}, and at most "
        f"{show.number(allowance.times_baseline)} times the baseline's own error. {allowance.why}".rstrip()
    )


def _case(run: Run, case: str) -> tuple[Block, ...]:
    found = [(records.name, one) for records in run.variants if (one := records.gate(case)) is not None]
    if not found:
        return ()
    titles = columns(
        "Variant", "Gate", "#Worst error over allowance", "#Largest error", "Against", "Guards", "Checks", "Remarks"
    )
    rows = tuple((phase_link(run, name), *_line(one, own_tolerance(run, name))) for name, one in found)
    note = "Worst error over allowance: at most 1 is within the tier."
    table = Table(f"The gate in {case}", titles, rows, note=note)
    return (table, *_tracebacks(run, case, found), *_checks(run, case, found))


def _tracebacks(run: Run, case: str, found: list[tuple[str, CaseValidation]]) -> tuple[Block, ...]:
    """What the user's code raised, from the first frame of theirs on."""
    return tuple(
        Group(f"crash-{slug(case)}-{slug(name)}", ("Traceback of ", code(name)), (Code(one.failure.traceback),))
        for name, one in found
        if one.failure is not None and one.failure.traceback
    )


def _line(one: CaseValidation, tolerance: str) -> tuple[Inline, ...]:
    sample = f" (sample of {one.sampled_items} items)" if one.sampled_items is not None else ""
    # the message may tell them already
    untold = [reason for reason in one.fallbacks if reason not in one.message]
    remarks = [one.message, tolerance, *(f"fell back: {reason}" for reason in untold)]
    if one.failure is not None and one.failure.message != one.message:
        remarks.append(one.failure.message)
    worst = max((error.worst for error in one.errors if error.worst is not None), default=None)
    return (
        outcome_cell(one.outcome),
        flag(show.power_of_ten(worst), worst is not None and worst > 1),
        show.power_of_ten(max((error.relative for error in one.errors if error.relative is not None), default=None)),
        f"{show.clean(one.against)}{sample}",
        _passed([guard.outcome for guard in one.guards]),
        _passed([check.outcome for check in one.checks]),
        "; ".join(show.clean(remark) for remark in remarks if remark) or show.NOTHING,
    )


def _passed(outcomes: list[Outcome]) -> Inline:
    if not outcomes:
        return show.NOTHING
    failed = sum(outcome == Outcome.FAIL for outcome in outcomes)
    return flag(f"{outcomes.count(Outcome.PASS)} of {len(outcomes)} pass", failed > 0)


def _checks(run: Run, case: str, found: list[tuple[str, CaseValidation]]) -> tuple[Block, ...]:
    names = list(dict.fromkeys(check.check for _, one in found for check in one.checks))
    blocks: list[Block] = []
    for name in names:
        results = [(variant, check) for variant, one in found for check in one.checks if check.check == name]
        rows = tuple((phase_link(run, variant), *check_line(check)) for variant, check in results)
        held = len(results) > MOST_PASSES and all(check.outcome is Outcome.PASS for _, check in results)
        title = f"Check {show.clean(name)} in {case}{': all pass' if held else ''}"
        table = Table(title, columns("Variant", "Outcome", "Numbers", "Message"), rows, folded=held)
        told = beside(_one_chart(run, case, results), table)
        blocks.append(Group(f"check-{slug(case)}-{slug(name)}", ("Check ", code(name)), told))
    return tuple(blocks)


def check_line(check: CheckResult) -> tuple[Inline, ...]:
    """Outcome, numbers and message of a check."""
    numbers = "; ".join(
        f"{show.clean(name).replace('_', ' ')} {show.quantity(value)}" for name, value in check.numbers.items()
    )
    return outcome_cell(check.outcome), numbers or show.NOTHING, check.message or show.NOTHING


def _one_chart(run: Run, case: str, results: list[tuple[str, CheckResult]]) -> Figure | None:
    """The chart of the end of the stack, else of the last variant that has one."""
    judged = find_case(run.analysis, case)
    stack = judged.stack if judged is not None else None
    for variant, check in sorted(reversed(results), key=lambda result: result[0] != stack):
        figure = check_figure(check, case, variant)
        if figure is not None:
            return figure
    return None


def check_figure(check: CheckResult, case: str, variant: str) -> Figure | None:
    """The figure of a check for one variant."""
    if check.chart is None:
        return None
    figure = draw_check(check.chart, f"check-{slug(check.check)[:24]}-{slug(case)[:16]}-{slug(variant)[:20]}")
    return (
        None
        if figure is None
        else Figure(figure.name, f"{figure.caption} ({variant})", figure.alternative, figure.spec)
    )


def error_table(caption: str, errors: Iterable[TensorError]) -> Table:
    """The largest errors first; folded where all are within the tier."""
    ordered = sorted(errors, key=lambda one: (-(one.worst or 0.0), one.kind, one.name, one.step))
    failed = any(one.outcome == Outcome.FAIL for one in ordered)
    titles = columns(
        "Tensor",
        "Kind",
        "#Step",
        "Outcome",
        "#Error over allowance",
        "#Relative",
        "#Largest",
        "#Times the baseline's",
        "Where",
    )
    rows = tuple(
        (
            code(one.name),
            one.kind,
            str(one.step),
            outcome_cell(one.outcome),
            show.power_of_ten(one.worst),
            show.power_of_ten(one.relative),
            show.power_of_ten(one.max_abs),
            show.number(one.times_baseline),
            one.message or (f"[{', '.join(map(str, one.where))}]" if one.where else show.NOTHING),
        )
        for one in ordered[:MOST_ERRORS]
    )
    more = f"The {MOST_ERRORS} worst of {len(ordered)}." if len(ordered) > MOST_ERRORS else ""
    return Table(caption, titles, rows, note=more, folded=not failed)


def guard_table(caption: str, guards: tuple[Guard, ...]) -> Table:
    """Traps for programs that only look right."""
    rows = tuple((code(one.guard), outcome_cell(one.outcome), one.message or show.NOTHING) for one in guards)
    failed = any(one.outcome == Outcome.FAIL for one in guards)
    return Table(caption, columns("Guard", "Outcome", "Message"), rows, folded=not failed)


def failed_guards(case: CaseValidation) -> Span | None:
    """The guards that a variant did not pass, in words."""
    names = [one.guard for one in case.guards if one.outcome == Outcome.FAIL]
    return Span(f"Guards that failed: {', '.join(map(show.clean, names))}.", tone="bad") if names else None
