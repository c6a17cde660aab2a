"""Row sums in four forms: two phases on one another, and one beside them. The tests copy this folder and edit the copy."""

from phasewise import Case, Idea, Phase, Risk, Shape, Target, Workload

from .switches import Switches

workload = Workload(
    summary="Row sums",
    switches=Switches,
    program=f"{__package__}.program",
    cases={"rows": Case(tiny=Shape(n=128))},
    phases=(
        Phase("vectorised", {"vectorised": True}, because="serial-loop", expect=(2, 50)),
        Phase(
            "blocked",
            {"block": 64},
            because=Idea("smaller pieces"),
            risks=(Risk("Results change between repeats", "low", "high", check="bitwise-repeatable"),),
        ),
        Phase("doubled", {"doubled": True}, because=Idea("to be beside the stack"), keep=False),
    ),
    targets=(Target("speedup", against="baseline", minimum=1.0),),
)
