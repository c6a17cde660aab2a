"""What is asked of the study: times on an H200, how exact a result has to be, and what may go wrong."""

from __future__ import annotations

from phasewise import Risk, Target, Tolerance


def _time(name: str, case: str, minimum: float, target: float) -> Target:
    """A time in microseconds, of the specification's table for the H200."""
    return Target("time_s", case=case, minimum=minimum * 1e-6, target=target * 1e-6, name=name)


TARGETS = (
    _time("forward 4096 x 2048, shared b and c", "forward", 29, 26),
    _time("forward, batched b and c", "forward-batched", 49, 43),
    _time("backward, dL/da", "backward-a", 40, 35),
    _time("backward, dL/da, dL/db, dL/dc", "backward-abc", 80, 70),
    _time("forward 8 x 1024, in a graph", "documented", 6, 4),
    _time("forward 16 x 4096, in a graph", "documented-long", 6, 4),
    Target(
        "speedup",
        case="forward",
        against="cusparse-strided",
        minimum=25,
        target=50,
        name="over one cuSPARSE complex solve",
    ),
    Target(
        "floor_fraction",
        case="forward",
        minimum=0.8,
        target=0.9,
        name="forward, fraction of the byte floor",
    ),
    Target("speedup", case="forward", against="baseline", minimum=5, target=100, stretch=1000, name="over the loop"),
)

TIERS = {
    # float32 rounding through a contracting recursion, resnet_bk specification section 1.A
    "strict": Tolerance(2e-6, 2e-7, times_baseline=8),
    "moderate": Tolerance(1e-5, 1e-6, times_baseline=32),
    # the document's own criterion
    "relaxed": Tolerance(1e-4, 1e-4),
}

# by phase
RISKS = {
    "mixed-precision": (
        Risk(
            "Rounding errors of complex64 survive where little is forgotten",
            probability="medium",
            impact="medium",
            symptom="errors over 1e-4 at small eta",
            mitigation="below eta = 0.1 the recursion is made in complex128",
            contingency="complex128 throughout",
            check="hundred-inputs",
        ),
    ),
    "compile": (
        Risk(
            "The compiler reorders the recursion",
            probability="low",
            impact="high",
            symptom="errors grow with the length",
            mitigation="each step depends on the one before",
            contingency="stay with the eager loop",
            check="bounded",
        ),
    ),
    "scan": (
        Risk(
            "Products of matrices overflow",
            probability="medium",
            impact="high",
            symptom="NaN from some length on",
            mitigation="rescale by powers of two at every level",
            contingency="stay with the loop",
            check="finite-when-long",
        ),
    ),
    "triton-fused": (
        Risk(
            "A tail is left unwritten",
            probability="medium",
            impact="high",
            symptom="wrong only at odd lengths",
            mitigation="masks on every load and store",
            contingency="fall back to the scan",
            check="odd-lengths",
        ),
        Risk(
            "Results change between repeats",
            probability="low",
            impact="medium",
            symptom="bits differ",
            mitigation="no atomics",
            contingency="fall back to the scan",
            check="bitwise-repeatable",
        ),
    ),
    "analytic-backward": (
        Risk(
            "The formula is not the gradient",
            probability="low",
            impact="high",
            symptom="training goes uphill, as the document's hybrid gradient did",
            mitigation="derived as the reverse of the forward recursion, held against the dense inverse",
            contingency="autograd through the loop",
            check="true-gradient",
        ),
    ),
    "autotune": (
        Risk(
            "A launch of another GPU is used",
            probability="low",
            impact="low",
            symptom="slower than the usual choice",
            mitigation="the file names the GPU and the kernels' hash",
            contingency="delete the file",
            by_hand="the records hold the time of both",
        ),
    ),
    "cuda-extension": (
        Risk(
            "A tail is left unwritten by the extension",
            probability="medium",
            impact="high",
            symptom="wrong only at odd lengths",
            mitigation="two forms of loads and stores, by alignment",
            contingency="the Triton kernel",
            check="odd-lengths",
        ),
        Risk(
            "There is no compiler",
            probability="high",
            impact="low",
            symptom="a warning that says why",
            mitigation="the Triton kernel answers",
            contingency="none needed",
            by_hand="validation reads `fallback` and the record holds the reason",
        ),
    ),
    "cuda-graph": (
        Risk(
            "Replays read stale inputs",
            probability="medium",
            impact="high",
            symptom="the first batch's result for every batch",
            mitigation="a graph for each set of addresses; others launch eagerly",
            contingency="launch eagerly",
            check="second-call",
        ),
    ),
}
