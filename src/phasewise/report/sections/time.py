"""Where the time of a step goes now: two phases side by side, roofline and kernels, one step, memory and device."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult
from phasewise.records.profile import CaseProfile, Region
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Block, Figure, Paragraph, Section, Span, Table, beside, code, columns
from phasewise.report.figures.profile import draw_limits, draw_regions, draw_roofline
from phasewise.report.figures.theme import slug
from phasewise.report.rows import find_machine, kept_rows
from phasewise.report.sections.captures import render_captures
from phasewise.report.sections.common import folded_by_case, nothing
from phasewise.report.sections.kernels import compare, counter_table, kernel_table
from phasewise.report.sections.recorded import render_memory, render_sensors, render_step
from phasewise.run import Run


def render_time(run: Run) -> Section:
    """The profile of the end of the stack in each case, beside the baseline's."""
    blocks = folded_by_case(run.results, "time", lambda case: _case(run, case))
    return Section("time", "Where the time goes now", blocks or nothing("No profile is on record."))


def _case(run: Run, case: CaseResult) -> tuple[Block, ...]:
    variant, profile = last_profiled(run, case)
    if profile is None:
        return (*nothing("No profile of this case is on record."), *beside(_roofline(run, case)), *_best(run, case))
    stem = slug(case.case)
    told: tuple[Block, ...] = (
        Paragraph(
            ("Profile of ", code(variant), f": {profile.steps} steps{_overhead(profile)}.", *_attribution(profile))
        ),
    )
    if profile.failure is not None:
        told += (Paragraph(Span(f"The profiler failed: {profile.failure.message}", tone="bad")),)
    return (
        *told,
        *compare(_profiled(run, case), case.case, f"breakdown-{stem}"),
        *_best(run, case),
        *beside(_roofline(run, case), kernel_table(profile.kernels)),
        *beside(draw_limits(profile.counters, f"limits-{stem}"), counter_table(profile.counters)),
        *render_step(profile, f"step-{stem}"),
        *_regions(profile.regions, f"regions-{stem}"),
        *render_memory(profile.memory, f"memory-{stem}"),
        *render_sensors(profile.sensors, f"hardware-{stem}"),
        *render_captures(profile),
    )


def last_profiled(run: Run, case: CaseResult) -> tuple[str, CaseProfile | None]:
    """The last kept variant that has a profile with something in it; the stack's own where there is none."""
    order = [case.stack or "", *(row.variant for row in reversed(kept_rows(case)))]
    for variant in order:
        profile = run[variant].profiled(case.case)
        if profile is not None and (profile.breakdown is not None or profile.kernels):
            return variant, profile
    return order[0], run[order[0]].profiled(case.case)


def _overhead(profile: CaseProfile) -> str:
    return f", {show.ratio(profile.overhead)} the time of a step without the profiler" if profile.overhead else ""


def _attribution(profile: CaseProfile) -> tuple[str, ...]:
    if not profile.graph_replay:
        return ()
    return (f" It replays a CUDA graph, which hides its kernels: attributed by {show.clean(profile.attributed_by)}.",)


def _profiled(run: Run, case: CaseResult) -> list[tuple[str, CaseProfile]]:
    """The kept variants that have a profile."""
    found = ((row.variant, run[row.variant].profiled(case.case)) for row in kept_rows(case))
    return [(variant, profile) for variant, profile in found if profile is not None]


def _regions(regions: tuple[Region, ...], name: str) -> tuple[Block, ...]:
    if not regions:
        return ()
    titles = columns("Region", "#Calls a step", "#Time", "#Share", "#Gain at most")
    rows = tuple(
        (
            code(one.name),
            show.number(one.calls_per_step),
            show.time(one.seconds),
            show.percent(one.share),
            show.ratio(one.bound),
        )
        for one in regions
    )
    note = "Gain at most: if the region took no time at all (Amdahl)."
    return beside(draw_regions(regions, name), Table("Regions with what they could gain", titles, rows, note=note))


def _roofline(run: Run, case: CaseResult) -> Figure | None:
    machine = find_machine(run)
    peaks = machine.peaks if machine else None
    return draw_roofline(case, run.work(case.case), peaks, f"roofline-{slug(case.case)}")


def _best(run: Run, case: CaseResult) -> tuple[Block, ...]:
    # the case's own floor is that of the baseline's step, which may be of a single item
    own = run[last_profiled(run, case)[0]].analysed(case.case) or case
    if own.floor_s is None:
        return ()
    kind = f" ({sentences.floor(own.floor_kind)})" if own.floor_kind else ""
    return (Paragraph(f"Best possible time of one step at the measured peaks{kind}: {show.time(own.floor_s)}."),)
