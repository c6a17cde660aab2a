"""What the profilers wrote: operators, counts, Nsight Systems, a second opinion, files."""

from __future__ import annotations

import msgspec

from phasewise.records.profile import CaseProfile, Operator
from phasewise.report import format as show
from phasewise.report.blocks import Block, Inline, Paragraph, Span, Table, code, columns

MOST_OPERATORS = 30


def render_captures(profile: CaseProfile) -> tuple[Block, ...]:
    """The tables behind the charts, folded."""
    return (
        *_operators(profile.operators),
        *_counts(profile),
        *_timeline(profile),
        *_second_opinion(profile),
        *_files(profile),
    )


def _operators(operators: tuple[Operator, ...]) -> tuple[Block, ...]:
    if not operators:
        return ()
    shown = sorted(operators, key=lambda one: (-one.self_s - one.device_s, one.name))[:MOST_OPERATORS]
    rows = tuple(
        (
            code(one.name),
            show.number(one.calls),
            show.time(one.self_s),
            show.time(one.device_s),
            one.shapes or show.NOTHING,
        )
        for one in shown
    )
    titles = columns("Operator", "#Calls", "#Own time on the host", "#Time on the device", "Shapes")
    return (Table("Operators of one step", titles, rows, folded=True),)


def _counts(profile: CaseProfile) -> tuple[Block, ...]:
    """What was counted; what was looked for and is not there stands in a line."""
    rows: list[tuple[Inline, ...]] = []
    absent: list[str] = []
    for name, value in msgspec.structs.asdict(profile.count).items():
        if isinstance(value, str):
            continue
        title = name.replace("_", " ")
        if not value:
            absent.append(title.removesuffix(" s"))
            continue
        shown = (
            show.time(value)
            if name.endswith("_s")
            else show.size(value)
            if name.endswith("bytes")
            else show.number(value)
        )
        repeated = {
            "serial_repeats": profile.count.serial_operator,
            "repeated_calls": profile.count.repeated_operator,
        }.get(name, "")
        rows.append((title.removesuffix(" s"), shown if not repeated else (shown, " × ", code(repeated))))
    rows += [(code(name), show.scalar(value)) for name, value in sorted(profile.facts.items())]
    blocks: list[Block] = []
    if rows:
        caption = "Counts of one step, and facts about the program"
        blocks.append(Table(caption, columns("What", "#Value"), tuple(rows), folded=True))
    if absent:
        blocks.append(Paragraph(Span(f"Counted, and none of it in a step: {', '.join(absent)}.", tone="muted")))
    return tuple(blocks)


def _timeline(profile: CaseProfile) -> tuple[Block, ...]:
    seen = profile.timeline
    if seen is None:
        return ()
    rows: list[tuple[Inline, ...]] = [
        ("Kernels", f"{show.number(seen.kernels)} in {show.time(seen.kernel_s)}"),
        ("Copies", show.time(seen.memcpy_s)),
        ("CUDA calls", show.time(seen.api_s)),
        ("Device busy", show.percent(seen.gpu_busy_share)),
    ]
    rows += [(code(name), show.time(seconds)) for name, seconds in seen.top_api]
    caption = f"Nsight Systems, {seen.steps} steps together"
    return (Table(caption, columns("What", "#Value"), tuple(rows), folded=True),)


def _second_opinion(profile: CaseProfile) -> tuple[Block, ...]:
    other = profile.second_opinion
    if other is None:
        return ()
    if not other.available:
        return (Paragraph(Span(f"No second opinion from torch-tb-profiler: {show.clean(other.reason)}", tone="muted")),)
    rows = tuple((show.clean(name), show.time(seconds)) for name, seconds in sorted(other.parts.items()))
    note = f"Largest difference of kernel time to our own parser: {show.percent(other.disagreement)}."
    caption = f"Second opinion: the same step as torch-tb-profiler {show.clean(other.version)} reads it"
    return (Table(caption, columns("Part", "#Time"), rows, note=note, folded=True),)


def _files(profile: CaseProfile) -> tuple[Block, ...]:
    blocks: list[Block] = []
    if profile.probes:
        rows = tuple(
            (one.what, code(one.finding), show.number(one.calls), show.time(one.now_s), show.time(one.then_s))
            for one in profile.probes
        )
        titles = columns("Alternative", "Finding", "#Calls", "#Now", "#Then")
        blocks.append(Table("Probes: alternatives timed on the recorded shapes", titles, rows))
    if profile.captures:
        files = tuple(
            (
                one.tool,
                code(one.path) if one.path else show.NOTHING,
                show.size(one.bytes) if one.path else show.NOTHING,
                f"skipped: {show.clean(one.skipped)}" if one.skipped else "",
                one.cure,
            )
            for one in profile.captures
        )
        titles = columns("Tool", "File", "#Size", "Note", "Cure")
        blocks.append(Table("Captures, whose files are not in git", titles, files, folded=True))
    return tuple(blocks)
