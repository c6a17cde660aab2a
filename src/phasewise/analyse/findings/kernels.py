"""Kernels that are too small, too many, or leave the device empty. On a CPU operators stand for kernels."""

from __future__ import annotations

import math

from phasewise.analyse.evidence import (
    Evidence,
    Judgement,
    absent,
    abstain,
    ask_rows,
    count,
    name_longest,
    per_cent,
    total,
)
from phasewise.records.profile import Kernel

# TraceLens calls kernels under 10 us short: about what an eager launch costs end to end
SHORT_S = 10e-6
SHORT_SHARE = 0.10
# TraceLens drops fusions that gain under 2 %; a chain that holds a tenth of the step can gain more
CHAIN_SHARE = 0.10
CHAIN_CALLS = 3
CHAIN_GAIN = 0.02
# what streams through memory and can be fused with its neighbours
STREAMING = ("elementwise", "reduction", "scan", "copy")
# a fused chain still reads and writes once; TraceLens lets fused kernels overlap at 85 %
FUSED_AT = 0.85
# Nsight Compute asks for more occupancy below about a quarter where latency is exposed
OCCUPANCY = 0.25
OCCUPANCY_SHARE = 0.10
# kernels that run well at low occupancy: their tiles live in registers and shared memory
BY_DESIGN = ("gemm", "convolution", "attention", "communication", "copy")
FILL_SHARE = 0.10


def find_small_kernels(evidence: Evidence) -> Judgement:
    """Many kernels that end as soon as they have begun.

    What it sees: kernels (on a CPU operators) that take less than 10 us a call, and the time that they take together.
    Why it costs: each pays some microseconds to start and to drain, in which the device does no work.
    Threshold and its source: under 10 us a call (TraceLens: "short"; an eager launch costs about as much), 10 % of the step.
    Advice: fuse neighbours into one kernel, batch equal calls (foreach, bmm, a batch dimension), or replay them in a graph.
    """
    if reason := evidence.lacks("breakdown", "kernels"):
        return abstain(reason)
    rows = evidence.rows(lambda kernel: kernel.calls > 1 and kernel.seconds / kernel.calls < SHORT_S)
    share = evidence.share(total(rows))
    calls = sum(kernel.calls for _, kernel, _ in rows)
    if share < SHORT_SHARE:
        return absent(SHORT_S, calls=count(calls), share=per_cent(share))
    # fused, one start is left of all; the work itself is not known to be less
    return Judgement(
        outcome="found",
        asks=ask_rows(rows, 0.2, 1.0 - 1.0 / calls),
        observed={"calls": count(calls), "share": per_cent(share)},
        threshold=SHORT_S,
        evidence=(f"{calls:g} calls under 10 us hold {100 * share:.0f} % of the step", *name_longest(rows)),
        advice="Fuse neighbours into one kernel, or batch equal calls: the step is a graph already."
        if evidence.trace.graph_replay
        else "Fuse neighbours into one kernel, batch equal calls, or replay the step as a graph.",
    )


def find_fusible_chain(evidence: Evidence) -> Judgement:
    """Kernels that hand each other intermediate results through memory.

    What it sees: elementwise kernels, reductions, scans and copies, at least three a step.
    Why it costs: each writes its result to memory and the next one reads it back; a fused kernel keeps it in registers.
    Threshold and its source: three calls that hold 10 % of the step (TraceLens looks at chains from 2 % of gain on).
    Advice: torch.compile the region, or write one Triton kernel for it; the least that remains is reading inputs and writing outputs.
    """
    if reason := evidence.lacks("breakdown", "kernels"):
        return abstain(reason)
    rows = evidence.rows(lambda kernel: kernel.category in STREAMING)
    share, time = evidence.share(total(rows)), total(rows)
    calls = sum(kernel.calls for _, kernel, _ in rows)
    if calls < CHAIN_CALLS or share < CHAIN_SHARE:
        return absent(CHAIN_SHARE, calls=count(calls), share=per_cent(share))
    # n kernels of two passes over memory become one
    most = 1.0 - 1.0 / calls
    if evidence.floor is not None:
        most = min(most, max(0.0, 1.0 - evidence.floor.bytes_s / FUSED_AT / time))
    if most * share < CHAIN_GAIN:
        return absent(CHAIN_SHARE, calls=count(calls), share=per_cent(share))
    return Judgement(
        outcome="found",
        asks=ask_rows(rows, min(0.25, most), most),
        observed={"calls": count(calls), "share": per_cent(share)},
        threshold=CHAIN_SHARE,
        evidence=(f"{calls:g} streaming kernels hold {100 * share:.0f} % of the step", *name_longest(rows)),
        advice="Compile the region, or write one Triton kernel for it, so that intermediate results stay in registers.",
    )


def find_underfilled_device(evidence: Evidence) -> Judgement:
    """Kernels with fewer blocks than the device has multiprocessors.

    What it sees: the launch grids of the kernels against the number of multiprocessors.
    Why it costs: a multiprocessor without a block idles for as long as the kernel runs.
    Threshold and its source: fewer blocks than multiprocessors (one wave not even begun), for 10 % of the step.
    Advice: give a launch more work (a larger batch, all heads at once), split the reduction, or run independent kernels side by side.
    """
    if reason := evidence.lacks("cuda", "breakdown", "kernels"):
        return abstain(reason)
    multiprocessors = evidence.machine.multiprocessors
    if multiprocessors < 1:
        return abstain("the number of multiprocessors is not known")
    rows = evidence.rows(lambda kernel: bool(kernel.grid) and math.prod(kernel.grid) < multiprocessors)
    if not any(kernel.grid for kernel in evidence.trace.kernels):
        return abstain("the trace holds no launch grids")
    time = total(rows)
    share = evidence.share(time)
    if share < FILL_SHARE:
        return absent(FILL_SHARE, share=per_cent(share))
    fill = sum(seconds * math.prod(kernel.grid) for _, kernel, seconds in rows) / (time * multiprocessors)
    return Judgement(
        outcome="found",
        asks=ask_rows(rows, 0.2 * (1.0 - fill), 1.0 - fill),
        observed={"share": per_cent(share), "fill": per_cent(fill)},
        threshold=float(multiprocessors),
        evidence=(
            f"for {100 * share:.0f} % of the step {100 * fill:.0f} % of the multiprocessors have a block",
            *name_longest(rows),
        ),
        advice="Give a launch more work, split the reduction over more blocks, or run independent kernels side by side.",
    )


def find_low_occupancy(evidence: Evidence) -> Judgement:
    """Kernels with too few threads to hide the latency of memory.

    What it sees: occupancy by Nsight Compute's counters, else estimated from registers, shared memory and block size.
    Why it costs: a multiprocessor that has no other warp to run waits out each read.
    Threshold and its source: 25 % of the possible warps, for 10 % of the step, products left out: their tiles want few threads
    (Nsight Compute's occupancy section warns in the same range).
    Advice: fewer registers (smaller tiles, launch bounds), less shared memory, or larger blocks.
    """
    if reason := evidence.lacks("cuda", "breakdown", "kernels"):
        return abstain(reason)
    counted = {c.kernel: c.occupancy_percent / 100 for c in evidence.trace.counters if c.occupancy_percent is not None}
    if not counted and all(kernel.occupancy is None for kernel in evidence.trace.kernels):
        return abstain("neither counters nor launch geometry tell the occupancy")
    multiprocessors = evidence.machine.multiprocessors

    def is_low(kernel: Kernel) -> bool:
        occupancy = counted.get(kernel.name, kernel.occupancy)
        # an empty device is another finding
        is_filled = not kernel.grid or math.prod(kernel.grid) >= multiprocessors
        return occupancy is not None and occupancy < OCCUPANCY and is_filled and kernel.category not in BY_DESIGN

    rows = evidence.rows(is_low)
    share = evidence.share(total(rows))
    if share < OCCUPANCY_SHARE:
        return absent(OCCUPANCY, share=per_cent(share))
    return Judgement(
        outcome="found",
        asks=ask_rows(rows, 0.05, 0.5),
        observed={"share": per_cent(share)},
        threshold=OCCUPANCY,
        evidence=(
            f"kernels below {100 * OCCUPANCY:.0f} % occupancy hold {100 * share:.0f} % of the step",
            *name_longest(rows),
        ),
        advice="Use fewer registers (smaller tiles, launch bounds), less shared memory, or larger blocks.",
    )
