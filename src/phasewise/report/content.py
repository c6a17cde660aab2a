"""The pages of a run: which sections stand on which page, in which order."""

from __future__ import annotations

from collections.abc import Callable

from phasewise.records.plan import PlannedPhase
from phasewise.records.verdict import Reason
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Block, Inline, Link, Page, Paragraph, Section, Table, code, columns
from phasewise.report.rows import row_of
from phasewise.report.sections.advice import render_findings, render_ledger
from phasewise.report.sections.answer import render_answer, render_ladder, render_next, render_parts
from phasewise.report.sections.common import TOPICS, level_cell, part_pages, phase_link
from phasewise.report.sections.exports import render_exports
from phasewise.report.sections.gate import render_validation
from phasewise.report.sections.goals import criteria_table, render_criteria, render_open_risks, render_risks
from phasewise.report.sections.headline import render_alarms, render_cases
from phasewise.report.sections.phase import render_phase
from phasewise.report.sections.promises import render_document, render_promises
from phasewise.report.sections.provenance import render_considered, render_environment, render_reproduce
from phasewise.report.sections.rivals import render_control, render_peers
from phasewise.report.sections.summary import render_roadmap, render_summary
from phasewise.report.sections.time import render_time
from phasewise.run import Run

# from reports/<workload>/<run>/ to reports/
UP = "../../"

# the order in which a reader decides: what came of it, was it promised, what next, then why
ANSWER = (
    render_answer, render_promises, render_next, render_ladder, render_alarms, render_criteria, render_open_risks, render_parts, render_cases,
)  # fmt: skip
# page -> its sections
SECTIONS: dict[str, tuple[Callable[[Run], Section], ...]] = {
    "results": (render_summary, render_roadmap, render_peers, render_control),
    "profile": (render_findings, render_time),
    "validation": (render_validation, render_document),
    "exports": (render_exports,),
    "method": (render_risks, render_ledger, render_considered, render_environment, render_reproduce),
}
# whose charts answer to the pointer
INTERACTIVE = ("results", "profile")


def make_pages(run: Run) -> tuple[Page, ...]:
    """The answer, a page for each topic, then one for each part and one for phases without a part."""
    pages = part_pages(run)
    index = Page(
        name="index",
        title=f"{show.clean(run.workload)} on {show.clean(run.name)}",
        subtitle=run.plan.summary or "The plan of this run is missing.",
        sections=tuple(tell(run) for tell in ANSWER),
        trail=(Link("All runs", f"{UP}index"),),
        pages=_links(pages, "index"),
        interactive=True,
        up=UP,
    )
    topics = (_topic_page(run, name, pages) for name in SECTIONS)
    return (index, *topics, *(_part_page(run, part, name, pages) for part, name in pages.items()))


def _links(pages: dict[str | None, str], current: str) -> tuple[Link, ...]:
    links = [Link("Overview", "index", current == "index")]
    links += [Link(title, name, current == name) for name, title in TOPICS.items()]
    links += [Link(part or "Phases", name, current == name) for part, name in pages.items()]
    return tuple(links)


def _topic_page(run: Run, name: str, pages: dict[str | None, str]) -> Page:
    return Page(
        name=name,
        title=f"{TOPICS[name]} of {show.clean(run.workload)}",
        subtitle=("of the run ", code(run.name)),
        sections=tuple(tell(run) for tell in SECTIONS[name]),
        trail=(Link("All runs", f"{UP}index"), Link(f"{run.workload} on {run.name}", "index")),
        pages=_links(pages, name),
        interactive=name in INTERACTIVE,
        up=UP,
    )


def _part_page(run: Run, part: str | None, name: str, pages: dict[str | None, str]) -> Page:
    phases = tuple(phase for phase in run.plan.phases if phase.part == part)
    return Page(
        name=name,
        title=f"{show.clean(part) if part else 'Phases'} of {show.clean(run.workload)}",
        subtitle=(f"{len(phases)} {'phase' if len(phases) == 1 else 'phases'} of the run ", code(run.name)),
        sections=(_overview(run, part, phases), *(render_phase(run, phase) for phase in phases)),
        trail=(Link("All runs", f"{UP}index"), Link(f"{run.workload} on {run.name}", "index")),
        pages=_links(pages, name),
        up=UP,
    )


def _overview(run: Run, part: str | None, phases: tuple[PlannedPhase, ...]) -> Section:
    """Where the part ended, its targets, and its phases at a glance."""
    blocks: list[Block] = []
    for case in run.results:
        for result in case.parts:
            if part is not None and result.part == part:
                told = sentences.part_sentence(result)
                blocks.append(Paragraph((code(case.case), ": ", told, " ", level_cell(result.level))))
    targets = [one for one in (run.analysis.targets if run.analysis else ()) if part is not None and one.part == part]
    if targets:
        blocks.append(criteria_table("Targets of this part", targets))
    titles = columns("Phase", "Case", "#Documented", "#Over the parent", "Verdict")
    rows = tuple(_glance(run, phase) for phase in phases)
    blocks.append(Table("The phases in order, each in the first case that it is for", titles, rows))
    return Section("overview", "Overview", tuple(blocks))


def _glance(run: Run, phase: PlannedPhase) -> tuple[Inline, ...]:
    """A phase in one row."""
    told = [(case.case, row) for case in run.results if (row := row_of(case, phase.variant)) is not None]
    # where it is for no case, the first says why
    chosen = [(case, row) for case, row in told if row.verdict.reason is not Reason.CASE_NOT_CHOSEN]
    case, row = next(iter([*chosen, *told]), ("", None))
    return (
        phase_link(run, phase.variant),
        code(case) if case else show.NOTHING,
        show.ratio_range(phase.documented),
        show.ratio_interval(row.verdict.over_parent) if row else show.NOTHING,
        sentences.sentence(row.verdict, row.parent) if row else "No outcome yet.",
    )
