"""The state of the device: its memory, its clocks, and an optimizer that sends too many kernels."""

from __future__ import annotations

from phasewise.analyse.claims import KERNEL, Ask
from phasewise.analyse.evidence import Evidence, Judgement, absent, abstain, count, per_cent
from phasewise.records.base import Quantity
from phasewise.records.profile import CLOSURE, OPTIMIZER
from phasewise.records.verdict import Reason

# torch-tb-profiler warns from 90 % of the device's memory on
FULL = 0.90
# NVML clocks event reasons: power cap, hardware slowdown, software and hardware thermal, power brake (nvml.h)
SLOWING_BITS = 0x4 | 0x8 | 0x20 | 0x40 | 0x80
THROTTLED_SHARE = 0.10
# a clock under 92 % of the session's best is dropped from measurements; the same bound says that it matters
CLOCK = 0.92
# the same 5 % as for other parts of a step
OPTIMIZER_SHARE = 0.05


def find_memory_capacity(evidence: Evidence) -> Judgement:
    """Memory is what keeps the work from being larger, or from running at all.

    What it sees: a process that ran out of memory, or a peak over 90 % of what there is.
    Why it costs: a batch that does not fit has to be cut, and close to the limit the allocator frees and waits.
    Threshold and its source: 90 % of the device's memory (torch-tb-profiler), or of the case's own limit.
    Advice: work in slices, recompute activations, keep the optimizer's state on the host, store a narrower format.
    """
    advice = "Work in slices, recompute activations, or store a narrower format."
    of_profile = evidence.profile.failure if evidence.profile is not None else None
    for failure in (evidence.failure, of_profile):
        if failure is not None and failure.reason is Reason.OUT_OF_MEMORY:
            return Judgement(
                outcome="found", threshold=FULL, evidence=(f"it ran out of memory: {failure.message}",), advice=advice
            )
    memory = evidence.profile.memory if evidence.profile is not None else None
    peak = evidence.peak_memory_bytes or (memory.peak_bytes if memory is not None else None)
    there = evidence.memory_limit_bytes or (memory.capacity_bytes if memory is not None else None)
    there = there or evidence.machine.memory_bytes or None
    if peak is None or there is None:
        return abstain("neither a peak nor a capacity of memory was recorded")
    share = peak / there
    if share < FULL:
        return absent(FULL, share=per_cent(share))
    return Judgement(
        outcome="found",
        observed={"share": per_cent(share), "peak": Quantity(value=float(peak), unit="B")},
        threshold=FULL,
        evidence=(f"the peak takes {100 * share:.0f} % of the memory there is",),
        advice=advice,
    )


def find_optimizer_not_fused(evidence: Evidence) -> Judgement:
    """The optimizer updates parameters one after the other.

    What it sees: a region named Optimizer.step without a fused operator in the trace.
    Why it costs: each parameter costs several small kernels; a fused optimizer updates all of them in a few.
    Threshold and its source: 5 % of the step (TorchTidy reports any single-tensor optimizer; here it has to matter).
    Advice: construct the optimizer with fused=True, or foreach=True where it has no fused form.
    """
    if reason := evidence.lacks("breakdown", "operators"):
        return abstain(reason)
    regions = [region for region in evidence.trace.regions if region.name.startswith(OPTIMIZER)]
    names = {operator.name for operator in evidence.trace.operators}
    if not regions or any(name.startswith("aten::_fused_") for name in names):
        return absent(OPTIMIZER_SHARE, share=per_cent(0.0))
    closures = sum(region.share for region in evidence.trace.regions if region.name == CLOSURE)
    share = sum(region.share for region in regions) - closures
    if share < OPTIMIZER_SHARE:
        return absent(OPTIMIZER_SHARE, share=per_cent(share))
    is_foreach = any(name.startswith("aten::_foreach_") for name in names)
    least, most = (0.0, 0.5) if is_foreach else (0.4, 0.95)
    # a region holds its part of the kernels and of what the device waits for
    pools = (KERNEL, "launch_gap", "host")
    asks = tuple(
        Ask(pool=pool, seconds=min(share, 1.0) * evidence.time.of(pool), least=least, most=most) for pool in pools
    )
    kind = "foreach" if is_foreach else "one parameter at a time"
    return Judgement(
        outcome="found",
        asks=asks,
        observed={"share": per_cent(share)},
        threshold=OPTIMIZER_SHARE,
        evidence=(f"{regions[0].name} runs {kind} and holds {100 * share:.0f} % of the step",),
        advice="Construct the optimizer with fused=True.",
    )


def find_throttled(evidence: Evidence) -> Judgement:
    """The device ran slower than it can.

    What it sees: the driver's reasons for lowered clocks, and the clock against its own highest during the capture.
    Why it costs: kernels that compute take longer in proportion.
    Threshold and its source: a slowing reason in 10 % of the readings, with a mean clock under 92 % of the highest.
    Advice: look at power cap and cooling; compare only what was measured in the same rounds.
    """
    if reason := evidence.lacks("cuda", "breakdown"):
        return abstain(reason)
    readings = [reading for reading in evidence.trace.sensors if reading.throttle_bits is not None]
    if not readings:
        return abstain("no readings of the device's clocks were taken")
    slowed = sum(bool((reading.throttle_bits or 0) & SLOWING_BITS) for reading in readings) / len(readings)
    clocks = [reading.sm_clock_mhz for reading in readings if reading.sm_clock_mhz]
    level = sum(clocks) / len(clocks) / max(clocks) if clocks else 1.0
    if slowed < THROTTLED_SHARE or level >= CLOCK:
        return absent(THROTTLED_SHARE, readings=per_cent(slowed), clock=per_cent(level))
    lost = (1.0 - level) * evidence.time.of(KERNEL)
    return Judgement(
        outcome="found",
        asks=(Ask(pool=KERNEL, seconds=lost, least=0.0, most=1.0),),
        observed={"readings": per_cent(slowed), "clock": per_cent(level), "count": count(len(readings), "readings")},
        threshold=THROTTLED_SHARE,
        evidence=(
            f"clocks were held down in {100 * slowed:.0f} % of the readings, to {100 * level:.0f} % of the highest",
        ),
        advice="Look at the power cap and the cooling, and compare only what was measured in the same rounds.",
    )
