"""What was exported, whether it gives the same numbers, and what it keeps of the speed."""

from __future__ import annotations

import math

from phasewise.records.base import Interval
from phasewise.records.export import Export, ExportResult, ExportStatus
from phasewise.report import format as show
from phasewise.report.blocks import Block, Inline, Paragraph, Section, Span, Table, Tone, code, columns
from phasewise.report.sections.common import nothing, phase_link
from phasewise.run import Run
from phasewise.stats.trimmed import trimmed_mean, yuen_interval

TONES: dict[ExportStatus, Tone] = {
    ExportStatus.OK: "good", ExportStatus.MISMATCH: "bad", ExportStatus.FAILED: "bad", ExportStatus.UNSUPPORTED: "warn",
    ExportStatus.SKIPPED: "muted",
}  # fmt: skip


def render_exports(run: Run) -> Section:
    """Every export of every variant that has one."""
    exports = [(records.name, records.export) for records in run.variants if records.export is not None]
    if not exports:
        return Section("exports", "Exports", nothing("Nothing was exported."))
    blocks: list[Block] = []
    for name, export in exports:
        if export.skipped:
            blocks.append(Paragraph((code(name), f" was not exported: {show.clean(export.skipped)}")))
    results = [(name, one) for name, export in exports for one in export.results]
    if results:
        titles = columns(
            "Variant", "Case", "Target", "Outcome", "#Largest error", "#Over eager", "#Size", "#Took", "Reason"
        )
        rows = tuple((phase_link(run, name), *_row(one)) for name, one in results)
        note = "Over eager: time of the eager module over that of the reloaded export, in interleaved calls."
        blocks.append(Table("Exports, each reloaded in a clean process", titles, rows, note=note))
    for name, export in exports:
        blocks += _details(name, export)
    return Section("exports", "Exports", tuple(blocks))


def _row(one: ExportResult) -> tuple[Inline, ...]:
    worst = max((error.relative for error in one.errors if error.relative is not None), default=None)
    return (
        code(one.case),
        one.format,
        Span(one.status.value, tone=TONES[one.status]),
        show.power_of_ten(worst),
        show.ratio_interval(over_eager(one)),
        show.size(sum(file.bytes for file in one.files)) if one.files else show.NOTHING,
        show.time(one.seconds) if one.seconds else show.NOTHING,
        one.reason or show.NOTHING,
    )


def over_eager(one: ExportResult) -> Interval | None:
    """The ratio of a record's raw pairs, by the statistics that judge everything else."""
    pairs = [
        (eager, export) for eager, export in zip(one.eager_s, one.export_s, strict=False) if min(eager, export) > 0
    ]
    if len(pairs) < 2:
        return None
    logs = [math.log(eager / export) for eager, export in pairs]
    low, high = yuen_interval(logs)
    return Interval(estimate=math.exp(trimmed_mean(logs).estimate), low=math.exp(low), high=math.exp(high))


def _details(name: str, export: Export) -> tuple[Block, ...]:
    files = tuple(
        (code(file.path), show.size(file.bytes), code(file.sha256)) for one in export.results for file in one.files
    )
    blocks: list[Block] = []
    if files:
        titles = columns("File", "#Size", "SHA-256")
        blocks.append(Table(f"Files exported from {name}", titles, files, folded=True))
    if export.signature:
        rows = tuple((code(tensor), code(kind)) for tensor, kind in sorted(export.signature.items()))
        blocks.append(Table(f"Inputs and outputs of {name}", columns("Tensor", "Type"), rows, folded=True))
    if export.versions:
        versions: tuple[tuple[Inline, ...], ...] = tuple(
            (code(package), version) for package, version in sorted(export.versions.items())
        )
        blocks.append(Table(f"Versions that exported {name}", columns("Package", "Version"), versions, folded=True))
    return tuple(blocks)
