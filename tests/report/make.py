"""A whole set of records, as one run on a GPU box leaves them: every kind of outcome, every optional part filled."""

from __future__ import annotations

import math

import msgspec

from phasewise.analyse.ladder import build_ladder
from phasewise.records.analyse import (
    Analysis,
    CaseAnalysis,
    CaseResult,
    Control,
    Finding,
    NextStep,
    PartResult,
    PeerRow,
    PromiseResult,
    RiskResult,
    Row,
    TargetResult,
    VariantAnalysis,
)
from phasewise.records.base import Interval, Quantity, Record
from phasewise.records.ledger import Ledger, RuleScore, Score
from phasewise.records.plan import Kind, PlannedPhase, PlannedRisk, PlannedTarget, PlannedVariant, RunPlan
from phasewise.records.predict import Prediction
from phasewise.records.promise import Kept, Promise
from phasewise.records.validate import Outcome
from phasewise.records.verdict import Level, Reason, Status, Verdict
from phasewise.run import Run
from report.make_stages import make_export, make_machine, make_plan, make_prepared, make_profile, make_validation

WORKLOAD, RUN = "toy_model", "full-h200"
CASES = ("forward", "train-step")
SWITCHES = {"tf32": False, "fused": False, "graph": False, "mode": "eager"}
RISK = PlannedRisk(
    title="Race in the segment sum", probability="medium", impact="high", symptom="results change between repeats",
    mitigation="sort edges, no atomics", contingency="fall back to the reference operator", check="bitwise-repeatable",
)  # fmt: skip
HAND_RISK = PlannedRisk(
    title="Licence of the data",
    probability="12 %",
    impact="low",
    by_hand="a lawyer has to read it",
    mitigation="ask first",
)

# variant, phase, part, kept, parent, what it sets, verdict, speed over the parent, ms a step
STORY = (
    ("00-baseline", None, None, True, None, {}, (Status.BASELINE, Reason.NONE, ""), None, 12.4),
    ("01-tf32", "tf32", "week-1", False, "00-baseline", {"tf32": True},
     (Status.INVALID, Reason.EXPECTED_INVALID, "force error 3.1 times the allowance"), None, None),
    ("02-fused-message", "fused-message", "week-1", True, "00-baseline", {"fused": True},
     (Status.FASTER, Reason.INTERVAL_CLEARS_FLOOR, ""), 2.31, 5.37),
    ("03-channels-last", "channels-last", "week-1", True, "02-fused-message", {"mode": "channels_last"},
     (Status.SLOWER, Reason.INTERVAL_CLEARS_FLOOR, ""), 0.954, 5.63),
    ("04-bigger-block", "bigger-block", "week-2", False, "02-fused-message", {"mode": "block-256"},
     (Status.SAME, Reason.WITHIN_ONE_PERCENT, ""), 1.002, 5.36),
    ("05-cuda-graph", "cuda-graph", "week-2", True, "02-fused-message", {"graph": True},
     (Status.FASTER, Reason.INTERVAL_CLEARS_FLOOR, ""), 4.51, 1.19),
    ("06-offload", "offload", None, True, "05-cuda-graph", {"mode": "offload"},
     (Status.FAILED, Reason.OUT_OF_MEMORY, "CUDA out of memory: tried to allocate 12.0 GiB"), None, None),
    ("07-checkpoint", "checkpoint", None, True, "06-offload", {"mode": "checkpoint"},
     (Status.ENABLED, Reason.PARENT_CANNOT_RUN, ""), None, 1.31),
    ("08-two-gpus", "two-gpus", None, True, "07-checkpoint", {"mode": "ranks"},
     (Status.SKIPPED, Reason.NEEDS, "needs 2 GPUs, this machine has 1"), None, None),
    ("09-noisy", "noisy", None, False, "07-checkpoint", {"mode": "noisy"},
     (Status.INCONCLUSIVE, Reason.NEIGHBOUR, "load 3.1 a core"), 1.03, 1.27),
)  # fmt: skip
STACK = "07-checkpoint"


def around(value: float, half_width: float = 0.018) -> Interval:
    """An interval about `value`."""
    return Interval(estimate=value, low=value * (1 - half_width), high=value * (1 + half_width))


def make_row(case: str, entry: tuple) -> Row:
    variant, phase, part, kept, parent, sets, (status, reason, detail), gain, ms = entry
    scale = 1.0 if case == CASES[0] else 3.2
    time_s = around(ms * scale * 1e-3, 0.01) if ms is not None else None
    timed = status in (Status.FASTER, Status.SLOWER, Status.SAME, Status.ENABLED, Status.INCONCLUSIVE)
    over_baseline = around(12.4 / ms) if timed and ms is not None else None
    invalid = status == Status.INVALID
    return Row(
        variant=variant, kind=Kind.BASELINE if phase is None else Kind.PHASE, phase=phase, part=part, parent=parent, kept=kept,
        switches=SWITCHES | sets, sets=sets,
        verdict=Verdict(
            status=status, reason=reason, detail=detail, over_parent=around(gain, 0.004 if status == Status.SAME else 0.018) if gain else None,
            over_baseline=over_baseline, chained=variant == STACK, numbers={"floor": 0.006},
        ),
        time_s=time_s, p50_s=ms and ms * 1e-3, p99_s=ms and ms * 1.2e-3, busy_s=ms and ms * 0.4e-3, host_bound=bool(ms), range_s=(ms * 0.9e-3, ms * 1.1e-3) if ms else None,
        items_per_s=ms and 4096 / (ms * scale * 1e-3), level=Level.TARGET if variant == STACK else Level.NONE,
        documented=(1.5, 2.0) if phase else None, expected=(1.2, 2.2) if phase else None,
        predicted=make_prediction(case, variant, parent) if timed and phase else None,
        validation=Outcome.FAIL if invalid else Outcome.PASS if ms else Outcome.SKIPPED,
        validation_message="output energy, step 1: 3.1 times the allowance at [4, 2]" if invalid else "",
        worst=3.1 if invalid else 0.21, max_error=3.2e-3 if invalid else 4.1e-7,
        peak_memory_bytes=int(1.7e9) if ms else None, energy_j_per_item=ms and ms * 4.1e-5, first_step_s=ms and 14.2,
        pays_after_steps=3100.0 if phase == "cuda-graph" else None, floor_fraction=ms and 0.6 / ms,
        risks=(RiskResult(title=RISK.title, outcome="did not come true", evidence="100 repeats, same bits"),) if ms else (),
        rounds=36 if ms else 0, sets_of_processes=3 if ms else 0, dropped_rounds=1 if phase == "noisy" else 0,
    )  # fmt: skip


def make_ablation(variant: str, kind: Kind, parent: str, gain: float, ms: float) -> Row:
    over = around(gain)
    return Row(
        variant=variant, kind=kind, phase=None, part=None, parent=parent, kept=False, switches=SWITCHES, sets={"fused": False},
        verdict=Verdict(status=Status.SLOWER if gain < 1 else Status.FASTER, reason=Reason.INTERVAL_CLEARS_FLOOR, over_parent=over),
        time_s=around(ms * 1e-3),
    )  # fmt: skip


def make_prediction(case: str, variant: str, parent: str) -> Prediction:
    low, high = {"05-cuda-graph": (3.1, 5.0), "02-fused-message": (1.3, 1.9)}.get(variant, (1.0, 1.2))
    return Prediction(
        phase=variant[3:], case=case, variant=variant, parent=parent, low=low, high=high, basis="critical-path",
        finding="launch-gaps", claim=around(2.0), made_from=("0123456789abcdef",),
    )  # fmt: skip


def make_case(case: str) -> CaseResult:
    rows = tuple(make_row(case, entry) for entry in STORY)
    rows += (
        make_ablation("without-fused-message", Kind.WITHOUT, STACK, 0.41, 3.1),
        make_ablation("only-cuda-graph", Kind.ONLY, "00-baseline", 3.9, 3.2),
    )
    peers = (
        PeerRow(
            name="other-package", version="2.4.1", variant=STACK, verdict=Verdict(status=Status.SLOWER),
            validation=Outcome.PASS, time_s=around(8.8e-3), ratio=around(6.72),
        ),
        PeerRow(
            name="one-solve", version="13.1", variant=STACK, validation=Outcome.SKIPPED,
            verdict=Verdict(status=Status.SKIPPED, reason=Reason.UNSUPPORTED, detail="complex input is not supported"),
            validation_message="one solve of the same size, not the same problem",
        ),
    )  # fmt: skip
    beside = tuple(msgspec.structs.replace(peer, variant="05-cuda-graph") for peer in peers)
    return CaseResult(
        ladder=build_ladder(rows, beside, "05-cuda-graph", 0.6e-3), case=case, items=4096.0, item="molecules", floor_s=0.6e-3, floor_kind="memory", rows=rows, stack=STACK,
        stack_speedup=around(9.47), stack_chained=True, stack_level=Level.TARGET, stack_status=Status.FASTER, stack_reason=Reason.INTERVAL_CLEARS_FLOOR,
        control=Control(variant=STACK, ratio=around(1.0004, 0.002), floor=0.006, covers_zero=True, status="SAME"),
        baseline_control=Control(variant="00-baseline", ratio=around(1.011, 0.004), floor=0.015, covers_zero=False, status="FASTER"),
        peers=peers,
        parts=(
            PartResult(part="week-1", variant="03-channels-last", speedup=around(2.2), level=Level.MISSED, status=Status.FASTER),
            PartResult(part="week-2", variant="05-cuda-graph", speedup=around(10.4), level=Level.MINIMUM, status=Status.FASTER),
        ),
    )  # fmt: skip


def limit_end(case: CaseResult, limit: float) -> tuple[Row, ...]:
    """The rows of a case whose stack has this noise limit over the baseline."""

    def limited(row: Row) -> Row:
        verdict = msgspec.structs.replace(row.verdict, numbers={"baseline_floor": limit})
        return msgspec.structs.replace(row, verdict=verdict) if row.variant == case.stack else row

    return tuple(limited(row) for row in case.rows)


def make_targets() -> tuple[TargetResult, ...]:
    common = {"case": CASES[0], "part": None, "phase": None}
    return (
        TargetResult(
            name="step of forward", metric="time_s", unit="s", against="absolute", value=1.31e-3, low=1.30e-3, high=1.32e-3,
            minimum=3e-3, target=1.4e-3, stretch=1e-3, level=Level.TARGET, **common,
        ),
        TargetResult(
            name="speedup of week-2", metric="speedup", unit="x", against="baseline", value=10.4, low=10.2, high=10.6,
            minimum=10.0, target=15.0, stretch=25.0, level=Level.MINIMUM, **(common | {"part": "week-2"}),
        ),
        TargetResult(
            name="floor", metric="floor_fraction", unit="", against="absolute", value=0.46, low=None, high=None, minimum=0.5,
            target=0.7, stretch=None, level=Level.MISSED, **(common | {"phase": "cuda-graph"}),
        ),
        TargetResult(
            name="drift", metric="drift", unit="meV/ns", against="absolute", value=None, low=None, high=None, minimum=1.0,
            target=None, stretch=None, level=Level.NONE, reason="the check did not run at this size", **common,
        ),
    )  # fmt: skip


def make_promises() -> tuple[PromiseResult, ...]:
    step = make_targets()[0]
    fused = msgspec.structs.replace(step, name="faster", metric="speedup", unit="x", value=2.31, low=2.3, high=2.32)
    quote = Promise(quote="Fuse messages: 1.5-2x", lines=(12, 40), promised=(1.5, 2.0), phase="fused-message")
    return (
        PromiseResult(promise=quote, outcome=Kept.BEATEN, case=CASES[0], variant="02-fused-message", measured=fused),
        PromiseResult(promise=Promise(quote="under 3 ms", lines=(50,), target=step.name), outcome=Kept.KEPT, case=CASES[0], measured=step),
        PromiseResult(
            promise=Promise(quote="No NaN", lines=(61,), check="finite"), outcome=Kept.BROKEN, case=CASES[0], evidence="3 NaN",
        ),
        PromiseResult(promise=Promise(quote="Week 2", lines=(70,), why="a plan of work"), outcome=Kept.NO_PROMISE, evidence="a plan of work"),
    )  # fmt: skip


def make_variant_analysis(variant: str) -> VariantAnalysis:
    findings = (
        Finding(
            finding="launch-gaps", outcome="found", seconds=3.1e-3, share=0.58, threshold=0.1, gain=Interval(estimate=2.3, low=2.0, high=2.6),
            observed={"idle_share": Quantity(value=0.58, unit="share"), "launches": Quantity(value=412)},
            evidence=("412 launches in 5.37 ms", "longest gap 21 µs before segment_reduce"), advice="Capture the step in a CUDA graph.",
            suggests="cuda-graph",
        ),
        Finding(finding="memory-bound", outcome="abstained", reason="no Nsight Compute counters: ncu needs permission"),
        Finding(finding="host-sync", outcome="absent"),
    )  # fmt: skip
    cases = tuple(
        CaseAnalysis(case=case, findings=findings, floor_s=0.6e-3, floor_fraction=0.46, floor_kind="memory traffic")
        for case in CASES
    )
    return VariantAnalysis(workload=WORKLOAD, run=RUN, variant=variant, cases=cases)


def make_run_plan() -> RunPlan:
    phases = tuple(
        PlannedPhase(
            phase=phase, variant=variant, part=part, because="launch-gaps" if "graph" in phase else "metrics are flat in one dimension",
            because_is_idea="graph" not in phase, expect=(1.2, 2.2), documented=(1.5, 2.0), method=f"{phase} by hand", kept=kept,
            must="INVALID" if phase == "tf32" else None, cases=CASES, risks=(RISK,) if "fused" in phase else (),
        )
        for variant, phase, part, kept, *_ in STORY
        if phase
    )  # fmt: skip
    variants = tuple(
        PlannedVariant(
            variant=variant, kind=Kind.PHASE if phase else Kind.BASELINE, phase=phase, parent=parent,
            ancestors=(parent,) if parent else (), kept=kept, switches=SWITCHES | sets, sets=sets, cases=CASES,
            skip="needs 2 GPUs, this machine has 1" if phase == "two-gpus" else None,
        )
        for variant, phase, part, kept, parent, sets, *_ in STORY
    )  # fmt: skip
    targets = tuple(
        PlannedTarget(
            name=one.name, metric=one.metric, case=one.case, against=one.against, minimum=one.minimum, unit=one.unit
        )
        for one in make_targets()
    )
    return RunPlan(
        workload=WORKLOAD, source="toy/phases.py", run=RUN, size="full", device="h200", summary="Energy and forces of toy molecules",
        tier="moderate", cases=CASES, parts=("week-1", "week-2"), phases=phases, variants=variants, stack=dict.fromkeys(CASES, STACK),
        targets=targets, risks=(HAND_RISK,), considered=(("Half precision throughout", "forces lose three digits"),),
        unmeasured=(("a server of models", "does not fit beside this torch"),),
        document="Toy plan", promises=tuple(one.promise for one in make_promises()),
    )  # fmt: skip


def make_analysis() -> Analysis:
    return Analysis(
        workload=WORKLOAD, run=RUN, commits=("4f2a9c1",), machines=("NVIDIA H200; 1; 580.65; 700 W; 16",),
        cases=tuple(make_case(case) for case in CASES), targets=make_targets(),
        risks=(RiskResult(title=HAND_RISK.title, outcome="by hand", evidence="asked, no answer yet"),),
        promises=make_promises(),
        next_steps=(
            NextStep(cases=(CASES[0],), finding="memory-bound", advice="Fuse the gather into the product.", phase=None, seconds=4e-4, gain=around(1.4, 0.2)),
        ),
        alarms=("forward: the kept phase channels-last is SLOWER than its parent; set keep=False.",),
    )  # fmt: skip


def make_ledger() -> Ledger:
    scores = []
    for variant, measured, inside in (("02-fused-message", 2.31, False), ("05-cuda-graph", 4.51, True)):
        told = make_prediction(CASES[0], variant, "00-baseline")
        bias = math.log(measured / math.sqrt(told.low * told.high))
        scores.append(Score(prediction=told, measured=around(measured), inside=inside, bias=bias))
    scores.append(
        Score(
            prediction=make_prediction(CASES[0], "06-offload", "05-cuda-graph"), measured=None, inside=None, bias=None
        )
    )
    silent = Prediction(
        phase="channels-last", case=CASES[0], variant="03-channels-last", parent="02-fused-message", low=None, high=None,
        basis="critical-path", finding="excess-traffic", reason="3 outcomes are on record, 10 are needed",
    )  # fmt: skip
    scores.append(Score(prediction=silent, measured=around(1.02), inside=None, bias=None))
    late = make_prediction(CASES[0], "02-fused-message", "00-baseline")
    scores.append(Score(prediction=late, measured=around(2.0), inside=None, bias=None, void="written afterwards"))
    rules = (
        RuleScore(
            finding="launch-gaps", outcomes=12, predictions=11, inside=6, median_bias=0.22, score=2.9, guess_score=3.4
        ),
    )
    return Ledger(workload=WORKLOAD, run=RUN, scores=tuple(scores), rules=rules)


def make_records() -> Run:
    """The run in memory."""
    records: list[Record] = [make_run_plan(), make_analysis(), make_ledger(), make_prepared(CASES), make_machine()]
    for variant, *_, (status, _, _), _, ms in STORY:
        records += [make_plan(variant), make_validation(variant, status, CASES)]
        if ms is not None:
            records += [make_profile(variant, ms * 1e-3, CASES), make_variant_analysis(variant)]
    return Run(WORKLOAD, RUN, [*records, make_export(STACK, CASES[0])])


def change(run: Run, *records: Record, without: tuple[type[Record], ...] = ()) -> Run:
    """The same run with these records in place of its own, and without all of some kinds."""
    return Run(run.workload, run.name, [*(one for one in run.known if not isinstance(one, without)), *records])
