"""What the study is judged by. Imports no torch."""

from phasewise import Risk, Target, Tolerance

TARGETS = (
    Target("speedup", case="train", against="baseline", minimum=3, target=6),
    Target("floor_fraction", case="train", minimum=0.5, target=0.8),
)
ROUNDING = "float32 rounds a mean near 100 by up to 4e-6, and every normalised number of the row is off by so much"
TIERS = {
    "strict": Tolerance(1e-5, 4e-5, times_baseline=8, why=ROUNDING),
    "moderate": Tolerance(1e-4, 1e-4, times_baseline=64, why=ROUNDING),
    "relaxed": Tolerance(2e-2, 2e-3, times_baseline=1e6),
}
SUMS = Risk(
    "dw and db differ between repeats", "low", "medium", symptom="their last bits change",
    mitigation="partial sums in a fixed order, no atomics", contingency="sum in PyTorch", check="bitwise-repeatable",
)  # fmt: skip
