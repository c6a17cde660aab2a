"""Rounds that do not count: a clock fell, or a throttle bit changed for one arm and not for the others."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from phasewise.records.measure import Round, Sample

# a clock below this part of the arm's own median has fallen; arms are not mixed, since one that draws much power runs at a lower clock by itself
CLOCK_SHARE = 0.92
# a throttle bit has changed if its state is rarer than this among the arm's blocks; with a power cap that comes and goes, neither state is rare
RARE_SHARE = 0.2
BITS = 64


def mark_drops(rounds: Sequence[Round]) -> tuple[Round, ...]:
    """The rounds with `dropped` set anew from all of them."""
    by_arm: dict[str, list[Sample]] = {}
    for taken in rounds:
        for sample in taken.samples:
            by_arm.setdefault(sample.arm, []).append(sample)
    clocks = {arm: _median_clock(samples) for arm, samples in by_arm.items()}
    return tuple(
        msgspec.structs.replace(taken, dropped=_clock_drop(taken, clocks) or _throttle_drop(taken, by_arm))
        for taken in rounds
    )


def _median_clock(samples: Sequence[Sample]) -> float | None:
    clocks = [sample.sm_clock_mhz for sample in samples if sample.sm_clock_mhz is not None]
    return median(clocks) if clocks else None


def _clock_drop(taken: Round, clocks: dict[str, float | None]) -> str:
    for sample in taken.samples:
        usual = clocks[sample.arm]
        if usual and sample.sm_clock_mhz is not None and sample.sm_clock_mhz < CLOCK_SHARE * usual:
            return f"clock of {sample.arm} at {sample.sm_clock_mhz:.0f} of {usual:.0f} MHz"
    return ""


def _throttle_drop(taken: Round, by_arm: dict[str, list[Sample]]) -> str:
    changed = [sample for sample in taken.samples if _is_unusual(sample, by_arm[sample.arm])]
    if changed and len(changed) < len(taken.samples):
        return f"throttle reasons of {changed[0].arm} changed to {changed[0].throttle_bits:#x}"
    return ""


def _is_unusual(sample: Sample, others: Sequence[Sample]) -> bool:
    """Whether any throttle bit stands otherwise than in most blocks of the arm."""
    if sample.throttle_bits is None:
        return False
    known = [other.throttle_bits for other in others if other.throttle_bits is not None]
    if all(bits == sample.throttle_bits for bits in known):
        return False
    for bit in range(BITS):
        alike = sum((bits ^ sample.throttle_bits) >> bit & 1 == 0 for bits in known)
        if alike < RARE_SHARE * len(known):
            return True
    return False
