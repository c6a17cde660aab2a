"""Numbers as readers want them: three significant digits, a unit that fits, an interval beside the estimate."""

from __future__ import annotations

import math

from phasewise.records.base import Interval, Quantity, Scalar
from phasewise.records.text import clean

__all__ = ["clean"]

NOTHING = "–"
# narrow no-break space: groups of thousands, and between a number and its unit
THIN = "\u202f"
# no-break space before a unit
SPACE = "\u00a0"
SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

TIMES = ((1e-9, "ns"), (1e-6, "µs"), (1e-3, "ms"), (1.0, "s"))
BYTES = ((1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB"), (1e12, "TB"), (1e15, "PB"))
JOULES = ((1e-9, "nJ"), (1e-6, "µJ"), (1e-3, "mJ"), (1.0, "J"), (1e3, "kJ"), (1e6, "MJ"))
# "thousand" and up are spelled with the letters that engineers use for rates
RATES = ((1e-3, "m"), (1.0, ""), (1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"), (1e15, "P"))


def is_number(value: float | None) -> bool:
    """Whether there is something to show."""
    return value is not None and math.isfinite(value)


def digits(value: float | None, decimals: int) -> str:
    """`value` with a fixed number of decimals, thousands grouped, a true minus sign."""
    if value is None or not math.isfinite(value):
        return NOTHING
    text = f"{value:,.{decimals}f}".replace(",", THIN)
    return text.replace("-", "−") if float(f"{value:.{decimals}f}") else text.lstrip("-")


def decimals_for(value: float, significant: int = 3) -> int:
    """Decimals that show `value` with so many significant digits, none below zero."""
    if value == 0 or not math.isfinite(value):
        return 0
    # the rounded value decides: 9.996 is 10.0
    exponent = int(f"{abs(value):.{significant - 1}e}".partition("e")[2])
    return max(0, significant - 1 - exponent)


def number(value: float | None, significant: int = 3) -> str:
    """A plain number; powers of ten only outside 0.001 to ten million."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    if not 1e-3 <= abs(value) < 1e7:
        return power_of_ten(value, significant - 1)
    if float(value).is_integer() and abs(value) < 1e7:
        return digits(value, 0)
    return digits(value, decimals_for(value, significant))


def counted(count: int, noun: str) -> str:
    """`1 set`, `3 sets`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def between(least: int, most: int) -> str:
    """`12 to 24`, or `12` where there is no choice."""
    return f"{least}" if least == most else f"{least} to {most}"


def power_of_ten(value: float | None, significant: int = 2) -> str:
    """Errors and other numbers without a natural scale: 3.2×10⁻⁷."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == 0:
        return "0"
    mantissa, _, exponent = f"{value:.{significant - 1}e}".partition("e")
    if -3 <= int(exponent) <= 3:
        return digits(value, decimals_for(value, significant))
    return f"{mantissa.replace('-', '−')}×10{str(int(exponent)).translate(SUPERSCRIPT)}"


def scaled(value: float | None, units: tuple[tuple[float, str], ...], significant: int = 3) -> str:
    """`value` in the largest unit that leaves at least one whole digit."""
    if value is None or not math.isfinite(value):
        return NOTHING
    scale, unit = unit_for(value, units)
    return f"{digits(value / scale, decimals_for(value / scale, significant))}{SPACE}{unit}".rstrip(SPACE)


def unit_for(value: float, units: tuple[tuple[float, str], ...]) -> tuple[float, str]:
    """The unit in which `value` reads best; zero is told in the unit of one."""
    if value == 0 or not math.isfinite(value):
        return next(((scale, unit) for scale, unit in units if scale == 1.0), units[0])
    # 999.6 reads as 1.00 of the next unit
    size = float(f"{abs(value):.2e}")
    fitting = [unit for unit in units if size >= unit[0] * (1 - 1e-12)]
    return fitting[-1] if fitting else units[0]


def time(value: float | None) -> str:
    """Seconds as 23.4 µs, 1.20 s, 2 min 05 s, 3 h 20 min."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if abs(value) < 120:
        return scaled(value, TIMES)
    minutes, seconds = divmod(round(abs(value)), 60)
    sign = "−" if value < 0 else ""
    if minutes < 120:
        return f"{sign}{minutes}{SPACE}min{SPACE}{seconds:02d}{SPACE}s"
    return f"{sign}{minutes // 60}{SPACE}h{SPACE}{minutes % 60:02d}{SPACE}min"


def bounds(interval: Interval, scale: float = 1.0) -> tuple[str, str, str]:
    """Estimate, low and high with the same decimals: enough to see the interval's width, at most five digits."""
    estimate, low, high = interval.estimate / scale, interval.low / scale, interval.high / scale
    width = abs(high - low) / 2
    wanted = decimals_for(estimate)
    if width > 0 and math.isfinite(width):
        wanted = min(max(wanted, decimals_for(width, 1)), decimals_for(estimate, 5))
    return digits(estimate, wanted), digits(low, wanted), digits(high, wanted)


def time_interval(interval: Interval | None) -> str:
    """23.4 µs [23.1, 23.8]."""
    if interval is None:
        return NOTHING
    scale, unit = unit_for(interval.estimate, TIMES)
    estimate, low, high = bounds(interval, scale)
    return f"{estimate}{SPACE}{unit} [{low},{SPACE}{high}]"


def time_bounds(interval: Interval) -> str:
    """[23.1, 23.8] µs, beside the estimate."""
    scale, unit = unit_for(interval.estimate, TIMES)
    _, low, high = bounds(interval, scale)
    return f"[{low},{SPACE}{high}]{SPACE}{unit}"


def time_range(pair: tuple[float, float] | None) -> str:
    """23.1 to 26.4 µs."""
    if pair is None:
        return NOTHING
    scale, unit = unit_for(pair[0], TIMES)
    return f"{number(pair[0] / scale)} to {number(pair[1] / scale)}{SPACE}{unit}"


def ratio(value: float | None) -> str:
    """4.51×."""
    return f"{number(value)}×" if is_number(value) else NOTHING


def ratio_interval(interval: Interval | None) -> str:
    """4.51× [4.43, 4.60]."""
    if interval is None:
        return NOTHING
    estimate, low, high = bounds(interval)
    return f"{estimate}× [{low},{SPACE}{high}]"


def only_bounds(interval: Interval | None) -> str:
    """[4.43, 4.60], for a column beside the estimate."""
    if interval is None:
        return NOTHING
    _, low, high = bounds(interval)
    return f"[{low},{SPACE}{high}]"


def ratio_range(pair: tuple[float, float] | None) -> str:
    """1.5 to 2.2×, as people write what they expect; a single number where both ends agree."""
    if pair is None:
        return NOTHING
    low, high = (number(end).rstrip("0").rstrip(".") if "." in number(end) else number(end) for end in pair)
    return f"{low}×" if low == high else f"{low} to {high}×"


def percent(share: float | None, *, signed: bool = False) -> str:
    """A share of one as 38 %, 0.62 %; signed as +4.0 % and −38 %."""
    if share is None or not math.isfinite(share):
        return NOTHING
    value = 100 * share
    text = digits(value, decimals_for(value, 2) if abs(value) < 99.5 else 0)
    return f"{'+' if signed and value > 0 else ''}{text}{SPACE}%"


def size(value: float | None) -> str:
    """Bytes as 12.3 GB (decimal units)."""
    return digits(value, 0) + SPACE + "B" if value is not None and abs(value) < 1000 else scaled(value, BYTES)


def rate(value: float | None, unit: str) -> str:
    """Things a second: 1.23 M items/s, 4.10 TB/s."""
    if value is None or not math.isfinite(value):
        return NOTHING
    scale, prefix = unit_for(value, RATES)
    shown = digits(value / scale, decimals_for(value / scale))
    return (
        f"{shown}{SPACE}{prefix}{unit}"
        if unit.startswith(("B", "FLOP"))
        else f"{shown}{SPACE}{prefix}{SPACE}{unit}".replace(SPACE * 2, SPACE)
    )


def quantity(value: Quantity) -> str:
    """A number with the unit that its check or finding gave it, and its bounds where it has some."""
    shown = with_unit(value.value, value.unit)
    if value.low is None or value.high is None:
        return shown
    return f"{shown} [{with_unit(value.low, value.unit)}, {with_unit(value.high, value.unit)}]"


def with_unit(value: float | None, unit: str) -> str:
    """`value` in `unit`, rescaled where the unit is one of ours."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if unit in ("s", "seconds"):
        return time(value)
    if unit in ("B", "bytes"):
        return size(value)
    if unit in ("x", "×", "ratio"):
        return ratio(value)
    if unit in ("J", "J/item", "J/items"):
        return scaled(value, JOULES) + unit.removeprefix("J").rstrip("s")
    if unit in ("1/s", "items/s", "B/s", "FLOP/s"):
        return rate(value, "items/s" if unit == "1/s" else unit)
    if unit in ("fraction", "share"):
        return percent(value)
    return f"{number(value)}{SPACE}{clean(unit)}" if unit and unit != "1" else number(value)


# targets whose unit is one: shares of a whole
SHARES = ("floor_fraction", "scaling_efficiency", "utilisation")


def metric(value: float | None, name: str, unit: str) -> str:
    """The value of a target's metric."""
    return percent(value) if name in SHARES else with_unit(value, unit)


def scalar(value: Scalar) -> str:
    """The value of a switch or a fact, as Python writes it."""
    return clean(value) if isinstance(value, str) else repr(value)
