"""Times the head's kernels over candidate tiles on this GPU: `python -m phasewise_studies.resnet_bk.kernels.tuning`.

One line a candidate, the fastest last. The choice goes into `linear_cross_entropy.FORWARD` and `BACKWARD` by hand, so that a
checkout has the same kernels on every run.
"""

from __future__ import annotations

import argparse
import itertools

import torch
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources
from triton.testing import do_bench

from phasewise.records.errors import UserError, report_errors
from phasewise_studies.resnet_bk.kernels.linear_cross_entropy import Tiles, head_backward, head_forward

TOKENS, CLASSES, WARPS, STAGES = (64, 128), (64, 128), (4, 8), (2, 3, 4)


def draw(tokens: int, classes: int, width: int) -> list[torch.Tensor]:
    """x, weight, bias and targets as in training, bfloat16 products."""
    generator = torch.Generator().manual_seed(0)
    x, weight = (torch.randn(n, width, generator=generator).cuda().bfloat16() for n in (tokens, classes))
    bias = torch.randn(classes, generator=generator).cuda()
    return [x, weight, bias, torch.randint(0, classes, (tokens,), generator=generator).cuda()]


def time_candidates(tokens: int, classes: int, width: int) -> dict[str, list[tuple[float, str]]]:
    """Milliseconds of every candidate that fits, slowest first, of the forward and of the backward kernel."""
    operands = draw(tokens, classes, width)
    _, _, lse = head_forward(*operands)
    share = torch.tensor(1 / tokens, device="cuda")
    found: dict[str, list[tuple[float, str]]] = {"forward": [], "backward": []}
    for tiles in itertools.starmap(Tiles, itertools.product(TOKENS, CLASSES, WARPS, STAGES)):
        runs = {
            f"forward {splits}": lambda tiles=tiles, splits=splits: head_forward(*operands, tiles=tiles, splits=splits)
            for splits in (0, 1, 2, 4)
        }
        runs["backward"] = lambda tiles=tiles: head_backward(*operands, lse, share, tiles=tiles)
        for name, run in runs.items():
            try:
                taken = do_bench(run, warmup=5, rep=20, return_mode="median")
            except (OutOfResources, CompilationError):
                continue
            found[name.split()[0]].append((taken, f"{name} {tiles}"))
    return {name: sorted(times, reverse=True) for name, times in found.items()}


@report_errors
def main() -> None:
    """Print the eight fastest of each."""
    parser = argparse.ArgumentParser(description="Time the head's kernels over candidate tiles")
    for name, default in (("tokens", 16_384), ("classes", 30_000), ("width", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    sizes = parser.parse_args()
    if not torch.cuda.is_available():
        raise UserError(
            "the head's kernels are timed on an NVIDIA GPU, and torch finds none; call this where there is one"
        )
    for times in time_candidates(sizes.tokens, sizes.classes, sizes.width).values():
        for taken, name in times[-8:]:
            # 2 products forward, 2 backward, of 2 tokens classes width operations each
            rate = 4 * sizes.tokens * sizes.classes * sizes.width / taken / 1e9
            print(f"{taken:8.3f} ms  {rate:6.0f} TFLOP/s  {name}")


if __name__ == "__main__":
    main()
