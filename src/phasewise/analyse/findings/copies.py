"""Bytes that cross the bus within the step."""

from __future__ import annotations

from phasewise.analyse.claims import Ask
from phasewise.analyse.evidence import Evidence, Judgement, absent, abstain, count, per_cent
from phasewise.records.base import Quantity

# TraceLens reports copies from 5 % of the time on
COPY_SHARE = 0.05
# pinned memory moves two to three times as fast as pageable memory, which is copied twice
PINNED_GAIN = (0.3, 0.7)


def find_pageable_copy(evidence: Evidence) -> Judgement:
    """Copies from memory that the system may page out.

    What it sees: copies between host and device whose host side is pageable.
    Why it costs: the driver copies such memory into a pinned buffer first, and the host waits, whatever non_blocking says.
    Threshold and its source: one such copy and 5 % of the step in copies (Nsight Systems has a rule for the same; TraceLens: 5 %).
    Advice: allocate the host side with pin_memory=True once, and copy with non_blocking=True.
    """
    if reason := evidence.lacks("cuda", "breakdown"):
        return abstain(reason)
    tally = evidence.trace.count
    copies = tally.host_to_device + tally.device_to_host
    pageable = min(tally.pageable_copies, copies) if copies else tally.pageable_copies
    part = evidence.time.parts["copy"] * (pageable / copies if copies else 0.0)
    share = evidence.share(part)
    if pageable < 1 or share < COPY_SHARE:
        return absent(COPY_SHARE, pageable=count(pageable), share=per_cent(share))
    return Judgement(
        outcome="found",
        asks=(Ask(pool="copy", seconds=part, least=PINNED_GAIN[0], most=PINNED_GAIN[1]),),
        observed={"pageable": count(pageable), "share": per_cent(share)},
        threshold=COPY_SHARE,
        evidence=(f"{pageable:g} of {copies:g} copies a step use pageable memory and hold {100 * share:.0f} % of it",),
        advice="Allocate the host side with pin_memory=True once, and copy with non_blocking=True.",
    )


def find_copy_in_step(evidence: Evidence) -> Judgement:
    """The step moves data between host and device.

    What it sees: copies between host and device in the step that no kernel hides.
    Why it costs: the bus is some forty times slower than device memory, and kernels wait for what it brings.
    Threshold and its source: 5 % of the step (TraceLens).
    Advice: keep the data on the device between steps; copy on a stream of its own while the step before runs.
    """
    if reason := evidence.lacks("cuda", "breakdown"):
        return abstain(reason)
    tally = evidence.trace.count
    copies = tally.host_to_device + tally.device_to_host
    part = evidence.time.parts["copy"]
    share = evidence.share(part)
    if share < COPY_SHARE or copies < 1:
        return absent(COPY_SHARE, copies=count(copies), share=per_cent(share))
    return Judgement(
        outcome="found",
        asks=(Ask(pool="copy", seconds=part, least=0.3, most=1.0),),
        observed={
            "copies": count(copies),
            "share": per_cent(share),
            "bytes": Quantity(value=tally.copied_bytes, unit="B a step"),
        },
        threshold=COPY_SHARE,
        evidence=(f"{copies:g} copies of {tally.copied_bytes:.3g} B together hold {100 * share:.0f} % of the step",),
        advice="Keep the data on the device between steps, or copy on a stream of its own while the step before runs.",
    )
