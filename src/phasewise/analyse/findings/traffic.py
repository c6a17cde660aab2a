"""Bytes through device memory, against what the work needs."""

from __future__ import annotations

from phasewise.analyse.evidence import Evidence, Judgement, absent, abstain, ask_rows, count, per_cent, total
from phasewise.records.base import Quantity

# Nsight Compute calls a kernel bound by a unit that is busy for more than 60 %
BUSY = 0.60
# and 85 % of what was measured is all that is left to get (TraceLens attains 75 to 100 %)
NEAR = 0.85
# a half more than necessary is more than caches and padding explain
EXCESS = 1.5


def find_excess_traffic(evidence: Evidence) -> Judgement:
    """More bytes cross device memory than the work needs.

    What it sees: DRAM bytes by Nsight Compute's counters against the bytes that the workload declares.
    Why it costs: a step that is bound by memory takes as long as its bytes take, needed or not.
    Threshold and its source: 1.5 times the declared bytes; caches and padding explain less.
    Advice: fuse producers with consumers, choose a layout that reads whole lines, recompute instead of storing.
    """
    if reason := evidence.lacks("cuda", "breakdown", "counters", "floor"):
        return abstain(reason)
    assert evidence.work is not None and evidence.floor is not None
    needed = evidence.work.bytes
    if needed <= 0.0:
        return abstain("the workload declares no bytes")
    by_name = {counters.kernel: counters for counters in evidence.trace.counters if counters.dram_bytes is not None}
    rows = evidence.rows(lambda kernel: kernel.name in by_name)
    # counters are those of one launch
    moved = sum(kernel.calls * (by_name[kernel.name].dram_bytes or 0.0) for _, kernel, _ in rows)
    excess = moved / needed
    if excess < EXCESS:
        return absent(EXCESS, excess=count(excess, "times declared"))
    gone = 1.0 - 1.0 / excess
    return Judgement(
        outcome="found",
        asks=ask_rows(rows, 0.3 * gone, gone),
        observed={"excess": count(excess, "times declared"), "moved": Quantity(value=moved, unit="B a step")},
        threshold=EXCESS,
        evidence=(f"the counted kernels move {moved:.3g} B a step, {excess:.2g} times the declared {needed:.3g} B",),
        advice="Fuse producers with consumers, read whole cache lines, and recompute instead of storing.",
    )


def find_memory_bound(evidence: Evidence) -> Judgement:
    """The step takes as long as its bytes take.

    What it sees: by counters, kernels whose DRAM is busy; without counters, a step whose floor is bytes and that is near it.
    Why it costs: no better arithmetic helps; only fewer bytes do.
    Threshold and its source: 60 % (Nsight Compute calls a unit the bottleneck from there on).
    Advice: a narrower format for what is stored, recomputation instead of storage, more reuse of what is in the cache.
    """
    if reason := evidence.lacks("breakdown", "kernels"):
        return abstain(reason)
    by_name = {c.kernel: c.dram_percent / 100 for c in evidence.trace.counters if c.dram_percent is not None}
    if by_name:
        rows = evidence.rows(lambda kernel: by_name.get(kernel.name, 0.0) >= BUSY)
        share = evidence.share(total(rows))
        told = f"kernels that keep DRAM over {100 * BUSY:.0f} % busy hold {100 * share:.0f} % of the step"
        is_found = share >= 0.1
    elif evidence.floor is None:
        return abstain(evidence.lacks("floor"))
    elif evidence.work is not None and evidence.work.bytes <= 0.0:
        return abstain("the workload declares no bytes")
    else:
        rows = evidence.rows(lambda kernel: True)
        is_bytes = evidence.floor.bytes_s >= evidence.floor.flops_s
        share = evidence.floor.bytes_s / evidence.time.step_s
        told = f"the declared bytes alone take {100 * share:.0f} % of the step at the measured copy rate"
        is_found = is_bytes and share >= BUSY
    if not is_found:
        return absent(BUSY, share=per_cent(share))
    return Judgement(
        outcome="found",
        # half the bytes at best: the next narrower format
        asks=ask_rows(rows, 0.0, 0.5),
        observed={"share": per_cent(share)},
        threshold=BUSY,
        evidence=(told,),
        advice="Store a narrower format, recompute instead of storing, or reuse what is in the cache.",
    )


def find_near_the_roof(evidence: Evidence) -> Judgement:
    """Little is left to gain: stop here.

    What it sees: the measured time of the step against the best possible one at this machine's measured rates, launches and barriers included.
    Why it costs: it does not; further phases would cost more than they gain.
    Threshold and its source: 85 % of the floor, what the best public kernels reach of a measured copy or product rate.
    Advice: stop here, or change the algorithm so that the declared work itself shrinks.
    """
    if evidence.floor is None:
        return abstain("the workload declares no work for this case, or the machine's peaks were not measured")
    step = evidence.step_s or (evidence.pools.step_s if evidence.pools is not None else None)
    if not step:
        return abstain("the step was not measured, and there is no profile of this variant")
    fraction = evidence.floor.seconds / step
    if fraction < NEAR:
        return absent(NEAR, fraction=per_cent(fraction))
    return Judgement(
        outcome="found",
        observed={"fraction": per_cent(fraction)},
        threshold=NEAR,
        evidence=(f"the step reaches {100 * fraction:.0f} % of its {evidence.floor.kind} floor",),
        advice="Stop here, or change the algorithm so that the work itself shrinks.",
    )
