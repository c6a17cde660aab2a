"""What the trainer is held to: targets, parts of the plan, tolerances, checks, and the risks of its phases."""

from __future__ import annotations

from phasewise import Check, Risk, Target, Tolerance

PARTS = {
    "phase-1": (),
    "phase-2": (),
    "phase-3": (
        Target(
            "speedup",
            case="feedback-32",
            against="baseline",
            minimum=1.10,
            target=1.15,
            name="implemented gains of the document: 10-15 %",
        ),
    ),
    "phase-4": (
        Target(
            "speedup",
            case="feedback-32",
            against="baseline",
            minimum=1.25,
            target=1.35,
            name="potential of the document: 25-35 %",
        ),
    ),
    "deferred": (),
    "beyond": (),
}
TARGETS = (
    Target("time_s", case="feedback-32", minimum=1.2e-3, target=0.7e-3, name="feedback window pair"),
    Target("time_s", case="open-32", minimum=0.5e-3, target=0.3e-3, name="open window pair"),
    Target("speedup", case="feedback-32", against="baseline", minimum=10, target=30, name="over the user's trainer"),
    Target(
        "speedup",
        case="feedback-32",
        against="torch-compile-reduce-overhead",
        minimum=2,
        target=5,
        name="over torch.compile reduce-overhead",
    ),
    Target(
        "memory growth",
        case="feedback-32",
        minimum=1 << 20,
        target=0,
        unit="B",
        better="lower",
        name="memory growth over 1000 windows",
    ),
    Target("synchronisations", case="feedback-32", minimum=0, name="waits for the device, a window pair"),
    Target("device_to_host", case="feedback-32", minimum=1, name="copies to the host, a window pair"),
)
DOCUMENTED = "LIoR, R and spd within 1e-5 a window, y within 1e-4, as the document asks"
TIERS = {
    "strict": Tolerance(1e-5, 1e-5, times_baseline=64, why=DOCUMENTED),
    "moderate": Tolerance(1e-4, 2e-5, times_baseline=256, why=DOCUMENTED),
    "relaxed": Tolerance(2e-3, 1e-3, times_baseline=1e6),
}
CHECKS = (
    Check("field-closed-form", when="kept", cases=("open-32", "open-8")),
    Check("rotors-orthogonal", when="kept"),
    Check("attention", when="kept", cases=("feedback-32", "open-32")),
    Check("nudge-is-linear", when="final"),
    Check("loss-curves", when="final", cases=("feedback-32", "open-32")),
    Check("batch-sizes", when="final", cases=("feedback-32",)),
    Check("resume", when="kept"),
    Check("resume-is-identical", when="final", cases=("feedback-32", "open-32")),
    Check("memory-stays-flat", when="final", cases=("feedback-32", "open-32")),
    Check("hundred-epochs", when="final", cases=("feedback-32",)),
    Check("graph-equals-eager", when="final"),
)

STALE = Risk(
    "Replays read stale inputs",
    probability="medium",
    impact="high",
    symptom="the first batch's numbers for every batch",
    mitigation="batches are copied into the graph's own tensors",
    contingency="run eagerly",
    check="second-call",
)
CAPTURE_FAILS = Risk(
    "The capture fails",
    probability="medium",
    impact="medium",
    symptom="[CUDAGRAPH] Capture failed, then the eager window",
    mitigation="static shapes, no .item(), a warm-up before the capture",
    contingency="the eager window, with the reason on record",
    check="graph-equals-eager",
)
DRIFT = Risk(
    "Loss curves drift apart over windows",
    probability="low",
    impact="high",
    symptom="loss, angles or metric off by more than 1e-4 after 100 windows",
    mitigation="float32 everywhere but in the mix, direct differences",
    contingency="drop the phase",
    check="loss-curves",
)
MEMORY_GROWS = Risk(
    "Memory grows",
    probability="low",
    impact="medium",
    symptom="out of memory after many windows",
    mitigation="the allocator reuses freed blocks",
    contingency="empty the cache every ten windows",
    check="memory-stays-flat",
)
CANCELLATION = Risk(
    "The expansion |C|^2 - 2 C q + |q|^2 loses digits near a match",
    probability="high",
    impact="high",
    symptom="costs off by 2e-3",
    mitigation="direct differences in float32",
    contingency="stay with the matrix product",
    check="attention",
)
HALF_GEOMETRY = Risk(
    "Half precision reaches the geometry",
    probability="medium",
    impact="high",
    symptom="metric and angles drift",
    mitigation="costs, curvature and updates stay float32",
    contingency="split float16",
    check="geometry-follows",
)
EARLY_READ = Risk(
    "A kernel reads before its predecessor has written",
    probability="medium",
    impact="high",
    symptom="bits differ between runs",
    mitigation="every kernel waits before it reads what the step made",
    contingency="launch one after the other",
    check="bitwise-repeatable",
)
BARRIER_HANGS = Risk(
    "Programs wait for one that never started",
    probability="low",
    impact="high",
    symptom="a hang",
    mitigation="no more programs than multiprocessors, and every wait is bounded",
    contingency="three kernels a step",
    check="no-barrier-gave-up",
)
