"""A match in ten lines of text."""

from __future__ import annotations

from phasewise.model.seconds import format_seconds
from phasewise.records.judgement import Judgement, Match
from phasewise.records.verdict import Status

SENTENCES = {
    Status.FASTER: "the candidate is right and faster",
    Status.SAME: "the candidate is right and as fast as the base, within 1 %",
    Status.SLOWER: "the candidate is right and slower",
    Status.INCONCLUSIVE: "the candidate is right; whether it is faster can't be told",
    Status.INVALID: "the candidate is refused",
    Status.FAILED: "the candidate could not be run",
}
# what bounds the best possible time
BOUNDS = {"memory": "memory traffic", "cache": "traffic in the cache", "compute": "products", "launch": "one launch"}


def describe_match(found: Match) -> str:
    """The verdict at the module's own shape, and a line for each other."""
    first, *others = found.judgements
    lines = [*describe_judgement(first), *(_describe_other(one) for one in others)]
    lines.append(f"  where   {describe_place(found)}")
    lines.append(f"  next    {found.next_step}")
    return "\n".join(lines)


def describe_place(found: Match) -> str:
    """Where it was judged, at what cost."""
    gate = found.judgements[0].gate
    peak = None if gate is None else gate.peak_memory_bytes
    parts = [
        found.device,
        f"isolated by {found.isolated}" if found.isolated else "",
        "" if peak is None else f"peak memory {peak / 2**30:.3g} GiB in its gate",
        f"{found.seconds:.0f} s",
    ]
    return ", ".join(part for part in parts if part)


def describe_judgement(found: Judgement) -> list[str]:
    """Speed and result of one shape."""
    lines = [f"{found.status}: {name_outcome(found)}"]
    lines += [f"  speed   {speed}"] if (speed := describe_speed(found)) else []
    if found.ratio is not None:
        times = f"{format_seconds(found.base_s or 0)} -> {format_seconds(found.candidate_s or 0)} a call"
        lines.append(f"  times   {times}, medians")
    lines += [f"  why     {found.detail}"] if found.detail else []
    lines += [f"  result  {result}"] if (result := describe_result(found)) else []
    lines += [f"  doubt   {doubt}" for doubt in found.doubts]
    lines += [f"  best    {best}"] if (best := describe_best(found)) else []
    return lines


def name_outcome(found: Judgement) -> str:
    """What the status means here."""
    if found.status is Status.INCONCLUSIVE and found.gate is None:
        return "it can't be told"
    return SENTENCES.get(found.status, found.reason)


def describe_speed(found: Judgement) -> str:
    """The ratio with its interval and the noise limit; "" where there is none."""
    if found.ratio is None:
        return ""
    ratio = found.ratio
    limit = "no noise limit is known" if found.noise_limit is None else f"noise limit {found.noise_limit:.2%}"
    reason = f" ({found.reason})" if found.status is Status.INCONCLUSIVE else ""
    return f"{ratio.estimate:.3g}x [{ratio.low:.3g}, {ratio.high:.3g}], {limit}{reason}"


def describe_result(found: Judgement) -> str:
    """The largest error beside what is allowed, and what it was compared with; "" where nothing was compared."""
    if found.worst is None or found.allowance is None:
        return ""
    allowed = found.allowance
    judged = 0
    if found.measurement is not None:
        judged = sum(one.arm == "variant" for one in found.measurement.inspections)
    own = f", as the base has it: {allowed.why}" if allowed.why else ""
    off = (
        f"off by at most {found.worst:.2g} of what is allowed (rtol {allowed.rtol:.3g}, atol {allowed.atol:.3g}{own}), reference in "
        f"{found.reference}{'' if found.reference == 'float64' else ', so twice the tier'}, {judged} timed blocks judged"
    )
    return (
        off
        if found.widened == 1
        else f"{off}; that is {found.widened:.3g} times the tier, since the base itself is off"
    )


def describe_best(found: Judgement) -> str:
    """The share of the best possible time; "" where it is not known."""
    if found.share is None or found.best is None:
        return ""
    best = found.best
    return (
        f"{found.share:.2g} of the best possible time, {format_seconds(best.seconds)} of {BOUNDS[best.bound]} at this machine's measured rates "
        f"({best.flops:.3g} operations, {best.bytes:.3g} bytes)"
    )


def name_shape(found: Judgement) -> str:
    """Its sizes, as they were asked for."""
    return ", ".join(f"{name}={value}" for name, value in found.shape.items()) or "the module's own shape"


def _describe_other(found: Judgement) -> str:
    why = describe_speed(found) or found.detail
    return f"  {name_shape(found)}: {found.status}{', ' + why if why else ''}"
