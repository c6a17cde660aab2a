"""Tables of what a step is made of: two variants side by side, kernels, and what the hardware counted of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from phasewise.model.kernel_names import shorten_kernel
from phasewise.records.profile import Breakdown, CaseProfile, Counters, Kernel
from phasewise.report import format as show
from phasewise.report.blocks import Block, Column, Inline, Table, beside, code, columns, numeral
from phasewise.report.figures.profile import draw_breakdown, parts_of

MOST_KERNELS = 40
# of each variant that is compared
MOST_COMPARED = 5
NO_TIME = Breakdown(wall_s=0.0)


def compare(profiled: Sequence[tuple[str, CaseProfile]], case: str, name: str) -> tuple[Block, ...]:
    """Steps of variants beside one another: as bars, and in a table of which a reader sees two."""
    shown = [(variant, profile) for variant, profile in profiled if profile.breakdown is not None]
    if not shown:
        return ()
    figure = draw_breakdown([(variant, profile.breakdown or NO_TIME) for variant, profile in shown], name)
    return beside(figure, _compared(shown, case))


def _compared(shown: Sequence[tuple[str, CaseProfile]], case: str) -> Table:
    rows: list[tuple[Inline, ...]] = []

    def tell(what: Inline, value: Callable[[CaseProfile], float | None], words: Callable[[float | None], str]) -> None:
        values = [value(profile) for _, profile in shown]
        if any(values):
            rows.append((what, *(words(one) if one else "0" if one == 0 else show.NOTHING for one in values)))

    tell("step, profiled", lambda one: (one.breakdown or NO_TIME).wall_s, show.time)
    for index, (part, _) in enumerate(parts_of(NO_TIME)):
        tell(part, lambda one, index=index: parts_of(one.breakdown or NO_TIME)[index][1], show.time)  # type: ignore[misc]
    tell("launches", lambda one: one.count.launches, show.number)
    tell("graphs launched", lambda one: one.count.graph_launches, show.number)
    tell("waits for the device", lambda one: one.count.synchronisations, show.number)
    tell("peak memory", lambda one: one.memory.peak_bytes, show.size)
    for kernel in _longest(shown):
        tell(code(kernel), lambda one, kernel=kernel: _seconds(one, kernel), show.time)  # type: ignore[misc]
    titles = (Column("Of one step"), *(Column(variant, number=True) for variant, _ in shown))
    note = "The parts sum to the step. A kernel's time is the sum of its launches."
    return Table(f"Variants of {case} side by side", titles, tuple(rows), note=note, paired=True)


def _longest(shown: Sequence[tuple[str, CaseProfile]]) -> list[str]:
    """The longest kernels of the first and the last variant, by their short names."""
    found: list[str] = []
    for _, profile in (shown[-1], shown[0]):
        names = dict.fromkeys(shorten_kernel(one.name) for one in sorted(profile.kernels, key=lambda one: -one.seconds))
        found += [name for name in list(names)[:MOST_COMPARED] if name not in found]
    return found


def _seconds(profile: CaseProfile, kernel: str) -> float | None:
    """All launches of a short name together."""
    times = [one.seconds for one in profile.kernels if shorten_kernel(one.name) == kernel]
    return sum(times) if times else None


def kernel_table(kernels: Sequence[Kernel]) -> Table | None:
    """The longest first, until a reader sorts them by something else."""
    if not kernels:
        return None
    longest = sorted(kernels, key=lambda kernel: (-kernel.seconds, kernel.name))[:MOST_KERNELS]
    titles = columns(
        "Kernel", "#Time", "#Calls", "Category", "Tensor cores", "#Occupancy", "#Registers", "Grid", "Block"
    )
    rows = tuple(
        (
            code(shorten_kernel(one.name)),
            numeral(show.time(one.seconds), one.seconds),
            numeral(show.number(one.calls), one.calls),
            one.category,
            "yes" if one.tensor_core else "no",
            numeral(show.percent(one.occupancy), one.occupancy),
            numeral(show.NOTHING if one.registers is None else str(one.registers), one.registers),
            "×".join(map(str, one.grid)) or show.NOTHING,
            "×".join(map(str, one.block)) or show.NOTHING,
        )
        for one in longest
    )
    more = f" The {len(longest)} longest of {len(kernels)}." if len(kernels) > len(longest) else ""
    note = f"Names without namespaces and arguments. Occupancy is estimated from the launch.{more}"
    return Table("Kernels of one step", titles, rows, note=note, sortable=True)


def counter_table(counters: Sequence[Counters]) -> Table | None:
    """What Nsight Compute counted of the longest kernels."""
    if not counters:
        return None
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
    rows = tuple(
        (
            code(shorten_kernel(one.kernel)),
            numeral(show.time(one.duration_s), one.duration_s),
            numeral(show.size(one.dram_bytes), one.dram_bytes),
            *(_share(value) for value in (one.dram_percent, one.sm_percent, one.occupancy_percent, one.tensor_percent, one.l2_hit_percent)),
            numeral(show.NOTHING if one.registers is None else str(one.registers), one.registers),
        )
        for one in counters
    )  # fmt: skip
    caption = "Hardware counters of the longest kernels (Nsight Compute)"
    above = any(
        value is not None and value > 100
        for one in counters
        for value in (one.dram_percent, one.sm_percent, one.l2_hit_percent)
    )
    note = "A share above 100 % is left out: its counters come of separate passes, between which the kernel's traffic changed."
    return Table(caption, titles, rows, note=note if above else "", sortable=True)


def _share(percent: float | None) -> Inline:
    """A share of a whole; nothing where counters of several passes give more than there is."""
    value = None if percent is None or percent > 100 else percent / 100
    return numeral(show.percent(value), value)
