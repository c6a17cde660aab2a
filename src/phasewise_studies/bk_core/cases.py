"""What is timed: the cases of the BK core at three sizes, and the goals on an H200."""

from __future__ import annotations

from phasewise import Case, Shape, Target

FORWARD = ("forward", "forward-batched", "causal", "documented", "documented-long")
BACKWARD = ("backward-a", "backward-abc")


def _bandwidth(tiny: tuple[int, int] | None, *, batched: bool, export: bool = False) -> Case:
    """A size at which bytes bound the time: 8.4 million positions; batch and length at `tiny`."""
    return Case(
        tiny=Shape(batch=tiny[0], length=tiny[1], batched=batched) if tiny else None,
        small=Shape(batch=1024, length=2048, batched=batched),
        full=Shape(batch=4096, length=2048, batched=batched),
        inputs="resident",
        sample_items=256,
        export=export,
    )


def _latency(batch: int, length: int, tiny: Shape | None) -> Case:
    """A size of the user's document: latency, not traffic."""
    shape = Shape(batch=batch, length=length, batched=False)
    return Case(tiny=tiny, small=shape, full=shape, inputs="resident", export=False)


def _time(name: str, case: str, minimum: float, target: float) -> Target:
    """A time in microseconds, of the specification's table for the H200."""
    return Target("time_s", case=case, minimum=minimum * 1e-6, target=target * 1e-6, name=name)


# on a CPU none of them is bound by bytes: `tiny` has one case forward and one backward
CASES = {
    # b and c shared by the batch: 12 bytes an element
    "forward": _bandwidth((32, 127), batched=False, export=True),
    # 20 bytes an element
    "forward-batched": _bandwidth(None, batched=True),
    # 1/d_i, which no later position can change: for language models
    "causal": _bandwidth((8, 127), batched=False, export=True),
    # dL/da from a and dL/dG: 16 bytes an element
    "backward-a": _bandwidth(None, batched=False),
    # dL/da, dL/db, dL/dc of batched couplings: 32 bytes an element
    "backward-abc": _bandwidth((4, 63), batched=True),
    "documented": _latency(8, 1024, Shape(batch=2, length=128, batched=False)),
    "documented-long": _latency(16, 4096, None),
}

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
