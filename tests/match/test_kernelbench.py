"""Twenty pairs of KernelBench's form, judged without glue: ten right, five wrong, five that cheat. And ten for a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from phasewise.match.play import judge
from phasewise.records.exit_code import ExitCode

PAIRS = Path(__file__).with_name("kernelbench")
RIGHT = (ExitCode.FASTER, ExitCode.SAME, ExitCode.SLOWER, ExitCode.UNDECIDED)
# (base, candidate, at least so many times as fast): on a busy machine it may be left open whether, never which
RIGHT_ONES = (
    ("level1/relu", "clamp", 0.2),
    ("level1/matmul", "transposed", 0.2),
    ("level1/matmul", "twice", 0.1),
    ("level1/softmax", "library", 2.0),
    ("level1/layernorm", "library", 2.0),
    ("level2/conv_bias_relu", "in_place", 0.2),
    ("level3/mlp", "batched", 2.0),
    ("level3/attention", "fused", 1.0),
    ("level3/resnet_block", "by_hand", 0.1),
    ("level3/lstm", "library", 1.0),
)
WRONG_ONES = (
    ("level1/softmax", "of_columns"),
    ("level1/layernorm", "unbiased"),
    ("level2/conv_bias_relu", "border"),
    ("level3/attention", "unmasked"),
    ("level3/resnet_block", "folded"),
)
CHEATS = (
    ("level1/relu", "remembered"),
    ("level1/matmul", "by_pointer"),
    ("level1/softmax", "slow_clock"),
    ("level3/mlp", "right_at_first"),
    ("level3/attention", "lazy"),
)
QUICK = ("unbiased", "folded")
# (base, candidate, what its verdict must be among): kernels in Triton and CUDA
ON_GPU = (
    ("relu", "triton", RIGHT),
    ("relu", "whole_blocks", (ExitCode.WRONG,)),
    ("softmax", "triton", (ExitCode.FASTER,)),
    ("softmax", "zeros_counted", (ExitCode.WRONG,)),
    ("softmax", "side_stream", (ExitCode.FASTER,)),
    ("rmsnorm", "cuda", (ExitCode.FASTER,)),
    ("rmsnorm", "inline", (ExitCode.FASTER,)),
    ("mlp", "triton", RIGHT),
    ("mlp", "stale_graph", (ExitCode.WRONG, ExitCode.CHEAT)),
    ("cumsum", "triton", (ExitCode.FASTER,)),
)


def play(base: str, candidate: str):
    return judge(f"{PAIRS}/{base}.py", f"{PAIRS}/{base}_{candidate}.py", device="cpu")


@pytest.mark.parametrize(
    ("base", "candidate"),
    [pair if pair[1] in QUICK else pytest.param(*pair, marks=pytest.mark.slow) for pair in WRONG_ONES],
)
def test_a_wrong_one_is_told_to_be_wrong(base: str, candidate: str) -> None:
    found = play(base, candidate)
    assert found.exit_code is ExitCode.WRONG, found.judgements[0].detail
    assert found.judgements[0].ratio is None and found.judgements[0].measurement is None


@pytest.mark.slow
@pytest.mark.parametrize(("base", "candidate", "times"), RIGHT_ONES)
def test_a_right_one_is_timed(base: str, candidate: str, times: float) -> None:
    found = play(base, candidate)
    one = found.judgements[0]
    assert found.exit_code in RIGHT, one.detail
    assert one.ratio is not None and one.ratio.estimate > times
    assert one.worst is not None and one.worst <= 1 and one.reference == "float64" and one.widened == 1
    assert one.best is not None and one.share is not None and found.next_step


@pytest.mark.slow
@pytest.mark.parametrize(("base", "candidate"), CHEATS)
def test_a_cheat_gains_nothing(base: str, candidate: str) -> None:
    found = play(base, candidate)
    # a promise in place of a tensor is no result at all
    expected = ExitCode.WRONG if candidate == "lazy" else ExitCode.CHEAT
    assert found.exit_code is expected, found.judgements[0]
    assert found.judgements[0].ratio is None


@pytest.mark.gpu
@pytest.mark.parametrize(("base", "candidate", "expected"), ON_GPU)
def test_a_kernel_is_judged_on_a_gpu(base: str, candidate: str, expected: tuple[ExitCode, ...]) -> None:
    found = judge(f"{PAIRS}/gpu/{base}.py", f"{PAIRS}/gpu/{base}_{candidate}.py", device="cuda")
    one = found.judgements[0]
    assert found.exit_code in expected, one.detail
    assert (one.ratio is None) == (ExitCode.FASTER not in expected), one
