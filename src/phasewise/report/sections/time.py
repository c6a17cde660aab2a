"""Where the time of a step goes now: parts, regions, kernels, roofline, hardware and memory over time."""

from __future__ import annotations

from phasewise.model.kernel_names import shorten_kernel
from phasewise.records.analyse import CaseResult
from phasewise.records.profile import Breakdown, CaseProfile, Counters, Kernel, Region
from phasewise.report import format as show
from phasewise.report import sentences
from phasewise.report.blocks import Block, Definitions, Group, Inline, Paragraph, Section, Span, Table, code, columns
from phasewise.report.figures.profile import draw_breakdown, draw_kernels, draw_regions, draw_roofline, parts_of
from phasewise.report.figures.recordings import draw_memory, draw_sensors
from phasewise.report.figures.theme import slug
from phasewise.report.rows import find_machine, kept_rows
from phasewise.report.sections.captures import render_captures
from phasewise.report.sections.common import by_case, nothing
from phasewise.run import Run

MOST_KERNELS = 40


def render_time(run: Run) -> Section:
    """The profile of the end of the stack in each case, beside the baseline's."""
    blocks = by_case(run.results, "time", lambda case: _case(run, case))
    return Section("time", "Where the time goes now", blocks or nothing("No profile is on record."))


def _case(run: Run, case: CaseResult) -> tuple[Block, ...]:
    variant, profile = last_profiled(run, case)
    if profile is None:
        return (*nothing("No profile of this case is on record."), *_roofline(run, case))
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
        *_breakdown(run, case, f"breakdown-{stem}"),
        *_regions(profile.regions, f"regions-{stem}"),
        *_kernels(profile.kernels, f"kernels-{stem}"),
        *_counters(profile.counters),
        *_roofline(run, case),
        *_over_time(profile, stem),
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


def _breakdown(run: Run, case: CaseResult, name: str) -> tuple[Block, ...]:
    found: list[tuple[str, Breakdown]] = []
    for row in kept_rows(case):
        profile = run[row.variant].profiled(case.case)
        if profile is not None and profile.breakdown is not None:
            found.append((row.variant, profile.breakdown))
    figure = draw_breakdown(found, name)
    return (figure, breakdown_table(found)) if figure is not None else ()


def breakdown_table(found: list[tuple[str, Breakdown]]) -> Table:
    """The same numbers as the chart of parts."""
    titles = columns("Variant", "#Step", *(f"#{part.capitalize()}" for part, _ in parts_of(Breakdown(wall_s=0.0))))
    rows: tuple[tuple[Inline, ...], ...] = tuple(
        (
            code(variant),
            show.time(one.wall_s),
            *(show.time(seconds) if seconds else "0" for _, seconds in parts_of(one)),
        )
        for variant, one in found
    )
    return Table("Parts of a profiled step; they sum to its wall time", titles, rows, folded=True)


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
    table = Table(
        "Regions with what they could gain",
        titles,
        rows,
        note="Gain at most: if the region took no time at all (Amdahl).",
    )
    figure = draw_regions(regions, name)
    return (figure, table) if figure else (table,)


def _kernels(kernels: tuple[Kernel, ...], name: str) -> tuple[Block, ...]:
    if not kernels:
        return ()
    figure = draw_kernels(kernels, name)
    longest = sorted(kernels, key=lambda kernel: (-kernel.seconds, kernel.name))[:MOST_KERNELS]
    titles = columns(
        "Kernel", "#Calls", "#Time", "Category", "Tensor cores", "Grid", "Block", "#Registers", "#Occupancy"
    )
    rows = tuple(
        (
            code(shorten_kernel(one.name)),
            show.number(one.calls),
            show.time(one.seconds),
            one.category,
            "yes" if one.tensor_core else "no",
            "×".join(map(str, one.grid)) or show.NOTHING,
            "×".join(map(str, one.block)) or show.NOTHING,
            show.NOTHING if one.registers is None else str(one.registers),
            show.percent(one.occupancy),
        )
        for one in longest
    )
    more = f" The {len(longest)} longest of {len(kernels)}." if len(kernels) > len(longest) else ""
    table = Table(
        "Kernels of one step",
        titles,
        rows,
        note=f"Names without namespaces and arguments. Occupancy is estimated from the launch.{more}",
        folded=True,
    )
    return (figure, table) if figure else (table,)


def _counters(counters: tuple[Counters, ...]) -> tuple[Block, ...]:
    if not counters:
        return ()
    titles = columns(
        "Kernel",
        "#Duration",
        "#DRAM",
        "#DRAM of peak",
        "#SM of peak",
        "#Occupancy",
        "#Tensor pipe",
        "#L2 hits",
        "#Registers",
    )

    def share(value: float | None) -> str:
        return show.percent(None if value is None else value / 100)

    rows = tuple(
        (
            code(shorten_kernel(one.kernel)),
            show.time(one.duration_s),
            show.size(one.dram_bytes),
            share(one.dram_percent),
            share(one.sm_percent),
            share(one.occupancy_percent),
            share(one.tensor_percent),
            share(one.l2_hit_percent),
            show.NOTHING if one.registers is None else str(one.registers),
        )
        for one in counters
    )
    return (Table("Hardware counters of the longest kernels (Nsight Compute)", titles, rows),)


def _roofline(run: Run, case: CaseResult) -> tuple[Block, ...]:
    machine = find_machine(run)
    figure = draw_roofline(case, run.work(case.case), machine.peaks if machine else None, f"roofline-{slug(case.case)}")
    blocks: list[Block] = [figure] if figure else []
    # the case's own floor is that of the baseline's step, which may be of a single item
    own = run[last_profiled(run, case)[0]].analysed(case.case) or case
    if own.floor_s is not None:
        kind = f" ({sentences.floor(own.floor_kind)})" if own.floor_kind else ""
        blocks.append(
            Paragraph(f"Best possible time of one step at the measured peaks{kind}: {show.time(own.floor_s)}.")
        )
    return tuple(blocks)


def _over_time(profile: CaseProfile, stem: str) -> tuple[Block, ...]:
    blocks: list[Block] = []
    sensors = draw_sensors(profile.sensors, f"hardware-{stem}")
    if sensors:
        blocks.append(sensors)
    memory = draw_memory(profile.memory, f"memory-{stem}")
    if memory:
        blocks.append(memory)
    held = profile.memory
    numbers = (("Peak", held.peak_bytes), ("Reserved", held.reserved_bytes), ("Capacity", held.capacity_bytes))
    pairs: tuple[tuple[Inline, Inline], ...] = tuple(
        (name, show.size(value)) for name, value in numbers if value is not None
    )
    if pairs:
        blocks.append(Group(f"allocator-{stem}", "Allocator", (Definitions(pairs), *_largest(held.largest))))
    return tuple(blocks)


def _largest(largest: tuple[tuple[str, int], ...]) -> tuple[Block, ...]:
    if not largest:
        return ()
    rows = tuple((code(name), show.size(held)) for name, held in largest)
    return (Table("Largest allocations", columns("What", "#Bytes"), rows, folded=True),)
