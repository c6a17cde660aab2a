"""A look as a page. Nothing is computed here."""

from __future__ import annotations

from collections.abc import Iterable

from phasewise.look.describe import (
    describe_ceilings,
    describe_kind,
    describe_memory,
    describe_step,
    describe_waits,
    list_found,
    list_parts,
    name_region,
)
from phasewise.records.look import Look
from phasewise.report import format as show
from phasewise.report.blocks import (
    Block,
    Bullets,
    Definitions,
    Inline,
    Lead,
    Page,
    Paragraph,
    Section,
    Table,
    code,
    columns,
)
from phasewise.report.html import render_html

# rows of a table
MOST = 40


def render_look(found: Look) -> str:
    """The page as one HTML document that loads nothing."""
    page = Page(
        name="look",
        title=f"{show.clean(found.script)}: where a step's time goes",
        subtitle=f"A step is {describe_kind(found)}.",
        sections=(
            Section("time", "Where the time goes", tuple(_tell_time(found))),
            Section("findings", "What holds it back", tuple(_tell_findings(found))),
            Section("kernels", "What ran", tuple(_tell_kernels(found))),
            Section("unseen", "What was not seen", (Bullets(found.unseen),)),
        ),
    )
    return render_html(page, {})


def _tell_time(found: Look) -> Iterable[Block]:
    yield Lead(show.time(found.step_s.estimate), describe_step(found))
    parts = tuple((name, show.time(seconds), show.percent(share)) for name, share, seconds in list_parts(found))
    yield Table("Parts of a traced step", columns("Part", "#Time", "#Share"), parts)
    regions = tuple(
        (code(name_region(one.name)), show.number(one.calls_per_step), show.time(one.seconds), show.percent(one.share))
        for one in found.profile.regions[:MOST]
    )
    if regions:
        note = "One that holds others counts in full; * stands for any number."
        yield Table("Modules and other regions", columns("Region", "#Calls", "#Time", "#Share"), regions, note=note)
    told: list[tuple[Inline, Inline]] = [
        ("waits and copies", describe_waits(found)), ("memory", describe_memory(found)), ("ceilings", describe_ceilings(found)),
        ("traced step", f"{show.ratio(found.profile.overhead)} the time of one without the profiler"),
    ]  # fmt: skip
    yield Definitions(tuple(pair for pair in told if pair[1]))


def _tell_findings(found: Look) -> Iterable[Block]:
    rows = tuple(
        (code(one.finding), show.time(one.seconds), show.percent(one.share), show.ratio_interval(one.gain),
         "; ".join(one.evidence), one.advice)
        for one in list_found(found.findings)
    )  # fmt: skip
    if not rows:
        yield Paragraph("None of the catalogue holds this step back.")
        return
    yield Table(
        "Findings; they hold disjoint parts of the step",
        columns("Finding", "#Holds", "#Share", "#Gain if cured", "Evidence", "Advice"),
        rows,
    )


def _tell_kernels(found: Look) -> Iterable[Block]:
    rows = tuple(
        (code(one.name), one.category, show.number(one.calls), show.time(one.seconds))
        for one in found.profile.kernels[:MOST]
    )
    what = "Kernels" if found.machine.kind == "cuda" else "Operators that compute"
    yield Table(f"{what}, per step", columns("Name", "Kind", "#Calls", "#Time"), rows)
