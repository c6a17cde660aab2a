"""What was recorded while a step ran: the step itself, memory by what allocated it, the device's sensors."""

from __future__ import annotations

from collections.abc import Sequence

from phasewise.model.sensing import settle
from phasewise.records.machine import Sensors
from phasewise.records.profile import Capture, CaseProfile, Memory
from phasewise.report import format as show
from phasewise.report.blocks import Block, Inline, Paragraph, Span, Table, beside, code, columns
from phasewise.report.figures.recordings import draw_memory, draw_sensors, draw_step, read_panels

TORCH = "torch"
# of blocks of one origin
MOST_SIZES = 3


def render_step(profile: CaseProfile, name: str) -> tuple[Block, ...]:
    """One step from start to end where it is on record, and where its whole trace lies."""
    trace = next((one for one in profile.captures if one.tool == TORCH and one.path), None)
    figure = draw_step(profile.stretches, name)
    told = Paragraph(_trace(trace)) if trace is not None else None
    return beside(figure, told)


def _trace(trace: Capture) -> tuple[str | Span, ...]:
    """Where the trace is; git does not hold it, so the file may be elsewhere."""
    return (
        "The trace of these steps is ", Span(trace.path, code=True, file=f"../../../{trace.path}"), f" ({show.size(trace.bytes)}), ",
        "not in git; ui.perfetto.dev opens it.",
    )  # fmt: skip


def render_memory(held: Memory, name: str) -> tuple[Block, ...]:
    """Memory over the step beside its largest blocks, each with what allocated it."""
    numbers = (
        ("Peak", held.peak_bytes),
        ("Reserved", held.reserved_bytes),
        ("Capacity of the device", held.capacity_bytes),
    )
    rows: list[tuple[Inline, ...]] = [(title, show.size(value)) for title, value in numbers if value is not None]
    rows += [(code(title), _sizes(sizes)) for title, sizes in _by_origin(held).items()]
    if not rows:
        return beside(draw_memory(held, name))
    note = "The largest blocks; those of one size and origin count once." if held.largest else ""
    table = Table(
        "Memory of one step, and its largest blocks by what allocated them",
        columns("What", "#Bytes"),
        tuple(rows),
        note=note,
    )
    return beside(draw_memory(held, name), table)


def _by_origin(held: Memory) -> dict[str, list[int]]:
    """Sizes of blocks by what allocated them; the origin of the largest first."""
    found: dict[str, list[int]] = {}
    for origin, size in held.largest:
        found.setdefault(origin, []).append(size)
    return found


def _sizes(sizes: Sequence[int]) -> str:
    more = f" and {len(sizes) - MOST_SIZES} smaller" if len(sizes) > MOST_SIZES else ""
    return ", ".join(map(show.size, sizes[:MOST_SIZES])) + more


def render_sensors(sensors: Sequence[Sensors], name: str) -> tuple[Block, ...]:
    """The device's sensors, without the start-up."""
    settled = settle(sensors)
    panels = read_panels(settled)
    if not panels:
        return ()
    rows = tuple((panel.name, panel.told) for panel in panels)
    left_out = len(sensors) - len(settled)
    note = (
        f"Without the first {show.counted(left_out, 'reading')}, which hold the idle time before the first step."
        if left_out
        else ""
    )
    return beside(
        draw_sensors(panels, name),
        Table("The device's sensors while the step ran", columns("Sensor", "#Seen"), rows, note=note),
    )
