"""Rounds with known truth, and the records that hold them."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from synthetic_plan import BASELINE, Peer, Phase

from phasewise.records.machine import Machine
from phasewise.records.measure import Arm, CaseMeasurement, Measurement, Round, Sample, ScalePoint
from phasewise.records.validate import CaseValidation, Outcome, TensorError, Validation


class Shelves(Protocol):
    """What records are put into."""

    machine: Machine
    measurements: dict[str, Measurement]
    validations: dict[str, Validation]


def rounds_of(
    rng: np.random.Generator, times: dict[str, float], phase: Phase, *, rounds: int = 12, block: float = 0.02
) -> tuple[Round, ...]:
    """Interleaved rounds of arms with these true seconds a step."""
    taken = []
    for process_set in range(phase.sets):
        effect = {arm: rng.normal(0.0, phase.process) for arm in times}
        for number in range(rounds):
            samples = []
            for arm in rng.permutation(list(times)):
                slow = phase.bimodal if arm == "variant" and number % 2 else 0.0
                step = times[arm] * np.exp(rng.normal(0.0, phase.noise) + effect[arm] + slow)
                steps = max(5, round(block / times[arm]))
                clock = 1500.0 * (phase.clock_gain if arm == "variant" else 1.0) if phase.has_clocks else None
                samples.append(Sample(arm=str(arm), steps=steps, wall_s=float(step * steps), sm_clock_mhz=clock))
            is_dropped = number < phase.dropped * rounds
            taken.append(
                Round(
                    process_set=process_set,
                    samples=tuple(samples),
                    dropped="clock fell" if is_dropped else "",
                    neighbours=phase.neighbours,
                )
            )
    return tuple(taken)


def record_phase(
    run: Shelves,
    rng: np.random.Generator,
    name: str,
    phase: Phase,
    truth: dict[str, float],
    chain: tuple[str, ...],
    *,
    with_baseline: bool,
) -> None:
    parent = chain[0]
    times = {"variant": truth[name], "parent": truth[parent]}
    arms = [
        Arm(
            arm="variant",
            variant=name,
            items=phase.items,
            ranks=phase.ranks,
            failure=phase.failure,
            outputs_held=phase.outputs_held,
            peak_memory_bytes=phase.peak_memory_bytes,
            energy=phase.energy,
            fresh_caches=True,
            build_s=(1.0, 0.1),
            first_step_s=(2.0, 0.1),
            step_s=tuple([truth[name]] * 120),
        )
    ]
    if phase.has_parent_arm:
        arms.append(
            Arm(
                arm="parent",
                variant=parent,
                items=1000.0,
                failure=phase.parent_failure,
                build_s=(0.1,),
                first_step_s=(0.1,),
            )
        )
    if with_baseline and parent != BASELINE:
        arms.append(Arm(arm="baseline", variant=BASELINE, items=1000.0))
        times["baseline"] = truth[BASELINE]
    alive = {arm.arm for arm in arms if arm.failure is None}
    case = CaseMeasurement(
        case="main",
        arms=tuple(arms),
        skipped=phase.skipped,
        rounds=()
        if phase.failure or phase.skipped
        else rounds_of(rng, {arm: t for arm, t in times.items() if arm in alive}, phase),
    )
    is_red = phase.outcome is Outcome.FAIL or phase.gate_failure is not None
    if phase.has_measurement and not phase.skip and not phase.untimed and not is_red:
        run.measurements[name] = _measurement(name, case, phase.machine or run.machine.identity)
    if phase.has_validation and not phase.skip:
        run.validations[name] = _validation(name, phase, run.machine.identity)


def record_baseline(
    run: Shelves,
    rng: np.random.Generator,
    phase: Phase,
    step_s: float,
    *,
    slow: bool,
    scale: tuple[ScalePoint, ...],
    identity: str,
) -> None:
    arm = Arm(
        arm="variant",
        variant=BASELINE,
        items=1000.0,
        failure=phase.failure,
        peak_memory_bytes=4 << 30,
        fresh_caches=True,
        build_s=(0.5,),
        first_step_s=(0.5,),
        energy=phase.energy,
    )
    is_timed = phase.failure is None and not scale
    case = CaseMeasurement(
        case="main",
        arms=(arm,),
        scale=scale,
        rounds=rounds_of(rng, {"variant": step_s}, phase, rounds=3 if slow else 12) if is_timed else (),
    )
    run.measurements[BASELINE] = _measurement(BASELINE, case, identity)
    run.validations[BASELINE] = _validation(BASELINE, phase, identity)


def record_control(
    run: Shelves, rng: np.random.Generator, name: str, of: str, step_s: float, ratio: float, identity: str
) -> None:
    arms = (Arm(arm="parent", variant=of, items=1000.0), Arm(arm="variant", variant=name, items=1000.0))
    rounds = rounds_of(rng, {"variant": step_s / ratio, "parent": step_s}, Phase(name=name))
    run.measurements[name] = _measurement(name, CaseMeasurement(case="main", arms=arms, rounds=rounds), identity)


def record_peer(run: Shelves, rng: np.random.Generator, peer: Peer, top: str, step_s: float, identity: str) -> None:
    name = f"peer-{peer.name}"
    arms = (
        Arm(arm="variant", variant=name, items=1000.0, version="1.2"),
        Arm(arm="parent", variant=top, items=1000.0),
    )
    rounds = rounds_of(rng, {"variant": step_s * peer.slower, "parent": step_s}, Phase(name=name))
    run.measurements[name] = _measurement(name, CaseMeasurement(case="main", arms=arms, rounds=rounds), identity)
    run.validations[name] = _validation(name, Phase(name=peer.name), identity)


def _measurement(name: str, case: CaseMeasurement, machine: str) -> Measurement:
    return Measurement(
        workload="toy", run="full-h200", variant=name, plan="0", machine=machine, commit="abc", cases=(case,)
    )


def _validation(name: str, phase: Phase, machine: str) -> Validation:
    error = TensorError(
        kind="output", name="y", step=0, elements=10, max_abs=1e-6, relative=2e-6, worst=0.25, outcome=phase.outcome
    )
    case = CaseValidation(
        case="main",
        outcome=phase.outcome,
        message=phase.message,
        errors=(error,),
        checks=phase.checks,
        failure=phase.gate_failure,
    )
    return Validation(
        workload="toy",
        run="full-h200",
        variant=name,
        plan="0",
        machine=machine,
        commit="abc",
        tier="moderate",
        cases=(case,),
    )
