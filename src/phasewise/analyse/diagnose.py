"""Run the catalogue on one variant in one case, and deal out the seconds of its step."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from phasewise.analyse.claims import Pools, allocate, estimate_gain, gain_from_removed, make_pools, sum_asked
from phasewise.analyse.evidence import Evidence, Judgement
from phasewise.analyse.findings import CATALOGUE
from phasewise.analyse.floor import step_floor
from phasewise.analyse.open_phases import open_phases
from phasewise.records.analyse import Finding
from phasewise.records.base import Interval, Seconds
from phasewise.records.finding import FindingId
from phasewise.records.profile import Breakdown, CaseProfile, Probe
from phasewise.run import Run

# a probe runs alone, with warm caches and nothing beside it: in the step it gains from four fifths to a tenth more
PROBE_SPREAD = (0.8, 1.1)
# fact of a profile that was not taken at the shape of its case
PROFILED_AT = "profiled_at"


def find_findings(run: Run, variant: str, case: str, step_s: Seconds | None) -> tuple[Finding, ...]:
    """What the records of `variant` show in `case`, with the phase of the plan that answers it; `step_s` is of an untraced step."""
    held = run[variant]
    profile, planned, arm = held.profiled(case), held.planned(case), held.arm(case)
    # a slow baseline is profiled at a smaller shape, of which the declared work is not known
    is_smaller = profile is not None and PROFILED_AT in profile.facts
    step = None if is_smaller else step_s
    evidence = Evidence(
        profile=profile,
        machine=run.machine,
        work=None if is_smaller else run.work(case),
        floor=None if is_smaller else step_floor(run, variant, case),
        step_s=step,
        pools=split_step(profile, step, cuda=run.machine.kind == "cuda"),
        failure=arm.failure if arm is not None else None,
        memory_limit_bytes=planned.memory_limit_bytes if planned is not None else None,
        peak_memory_bytes=arm.peak_memory_bytes if arm is not None else None,
    )
    return suggest(diagnose(evidence), open_phases(run.plan, variant, case))


def split_step(profile: CaseProfile | None, step_s: Seconds | None, *, cuda: bool) -> Pools | None:
    """The untraced parts of a step; None without a breakdown, or where a replay hides all kernels."""
    if profile is None or profile.breakdown is None or profile.attributed_by == "none":
        return None
    breakdown = profile.breakdown
    if profile.attributed_by != "trace":
        # the trace of a replay takes hidden kernels for idleness; those of the step without its graphs say what runs
        busy = min(step_s or breakdown.wall_s, sum(kernel.seconds for kernel in profile.kernels))
        breakdown = Breakdown(wall_s=breakdown.wall_s, kernel_s=busy, host_s=max(0.0, breakdown.wall_s - busy))
    return make_pools(breakdown, profile.kernels, step_s, cuda=cuda)


def diagnose(evidence: Evidence) -> tuple[Finding, ...]:
    """One finding for each id of the catalogue, in its order; those that are found claim disjoint seconds."""
    judged = [(name, find(evidence)) for name, find in CATALOGUE]
    if evidence.pools is None:
        return tuple(_tell(name, judgement, 0.0, evidence) for name, judgement in judged)
    granted = allocate(evidence.pools, [judgement.asks for _, judgement in judged])
    return tuple(
        _tell(name, judgement, seconds, evidence) for (name, judgement), seconds in zip(judged, granted, strict=True)
    )


def _tell(name: FindingId, judgement: Judgement, seconds: Seconds, evidence: Evidence) -> Finding:
    gain, basis = _gain(name, judgement, evidence)
    return Finding(
        finding=name,
        outcome=judgement.outcome,
        reason=judgement.reason,
        seconds=seconds,
        share=seconds / evidence.pools.step_s if evidence.pools is not None and evidence.pools.step_s > 0.0 else 0.0,
        observed=judgement.observed,
        threshold=judgement.threshold,
        evidence=judgement.evidence,
        advice=judgement.advice,
        gain=gain,
        basis=basis,
    )


def _gain(name: FindingId, judgement: Judgement, evidence: Evidence) -> tuple[Interval | None, str]:
    """By experiment where there was one, else by what is asked for; it is the gain of this cure alone."""
    if judgement.outcome != "found" or evidence.pools is None:
        return None, "critical-path"
    bottom = evidence.floor.least_s if evidence.floor is not None else 0.0
    probes = [probe for probe in evidence.trace.probes if probe.finding == name]
    removed = _remove(probes, sum_asked(evidence.pools, judgement.asks))
    if removed is not None:
        return gain_from_removed(evidence.pools.step_s, *removed, least_left_s=bottom), "probe"
    return estimate_gain(evidence.pools, judgement.asks, least_left_s=bottom), "critical-path"


def _remove(probes: Sequence[Probe], asked: Seconds) -> tuple[Seconds, Seconds] | None:
    """Seconds that the probed alternative removes of those asked for; None without a probe that is faster.

    Probes that end in another `in <kind>` are other alternatives: the slowest gives the low end, the fastest the high one. The
    low end counts only the calls that were probed, the high end takes them for all.
    """
    kinds: dict[str, list[Probe]] = {}
    for probe in probes:
        kinds.setdefault(probe.what.rpartition(" in ")[2] if " in " in probe.what else "", []).append(probe)
    shares, covered = [], []
    for tried in kinds.values():
        now = sum(probe.now_s * probe.calls for probe in tried)
        then = sum(probe.then_s * probe.calls for probe in tried)
        shares.append(max(0.0, 1.0 - then / now) if now > 0.0 else 0.0)
        covered.append(min(asked, now))
    if not shares or max(shares) <= 0.0:
        return None
    least = min(share * seconds for share, seconds in zip(shares, covered, strict=True))
    return PROBE_SPREAD[0] * least, min(1.0, PROBE_SPREAD[1] * max(shares)) * asked


def suggest(findings: tuple[Finding, ...], phases: dict[str, str]) -> tuple[Finding, ...]:
    """The findings with the phase of the plan that answers each; `phases` maps finding ids to phases not yet built on."""
    return tuple(
        msgspec.structs.replace(finding, suggests=phases.get(finding.finding))
        if finding.outcome == "found"
        else finding
        for finding in findings
    )
