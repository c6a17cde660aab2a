"""Peers, and the A/A control that says what this machine pretends when both arms are the same."""

from __future__ import annotations

from phasewise.records.analyse import CaseResult, Control
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Block, Inline, Section, Span, Table, code, columns
from phasewise.report.sections.common import by_case, flag, nothing, outcome_cell, phase_link, status_cell
from phasewise.run import Run


def render_peers(run: Run) -> Section:
    """Other packages' ways to do the same work, measured in the same rounds, and those that were not measured."""
    with_peers = tuple(case for case in run.results if case.peers)
    blocks = by_case(with_peers, "peers", lambda case: (_table(run, case),))
    if run.plan.unmeasured:
        blocks = (*blocks, Table("Not measured", columns("Way", "Why not"), tuple(run.plan.unmeasured)))
    return Section("peers", "Peers", blocks or nothing("No peers were declared."))


def _table(run: Run, case: CaseResult) -> Table:
    titles = columns(
        "Peer",
        "#Its time over ours",
        "Same output",
        "The peer is",
        "#Step time",
        "Gate",
        "Against",
        "Version",
        "Remarks",
    )
    rows = tuple(
        (
            code(peer.name),
            show.ratio_interval(peer.ratio),
            "yes" if peer.same_output else Span("no", tone="warn"),
            (status_cell(peer.verdict), " ", sentences.peer(peer)),
            show.time_interval(peer.time_s),
            outcome_cell(peer.validation),
            phase_link(run, peer.variant or None),
            peer.version or show.NOTHING,
            "; ".join(part for part in (peer.different, peer.validation_message) if part) or show.NOTHING,
        )
        for peer in case.peers
    )
    return Table(f"Peers in {case.case}", titles, rows, note="Above 1, ours is faster.")


def render_control(run: Run) -> Section:
    """A variant against itself: its spread is the noise limit that a claim has to clear."""
    rows: list[tuple[Inline, ...]] = []
    for case in run.results:
        for control in (case.control, case.baseline_control):
            if control is not None:
                rows.append((code(case.case), phase_link(run, control.variant), *_control(control)))
    title = "A/A control and noise limit"
    if not rows:
        return Section("control", title, nothing("No A/A control is on record: small differences can't be claimed."))
    titles = columns("Case", "Against itself", "#Ratio", "Covers no change", "#Noise limit", "Status")
    note = (
        "Noise limit: what a claim as noisy as the control, of as many sets of processes, has to clear. "
        "A control whose interval leaves out 1 is an alarm."
    )
    blocks: tuple[Block, ...] = (Table("The same variant in both arms", titles, tuple(rows), note=note),)
    return Section("control", title, blocks)


def _control(control: Control) -> tuple[Inline, ...]:
    covers: Inline = show.NOTHING
    if control.covers_zero is not None:
        covers = Span("yes" if control.covers_zero else "no", tone="good" if control.covers_zero else "bad")
    return (
        show.ratio_interval(control.ratio),
        covers,
        "none: one set" if control.floor is None and control.ratio is not None else show.percent(control.floor),
        flag(control.status or show.NOTHING, control.status in ("FASTER", "SLOWER")),
    )
