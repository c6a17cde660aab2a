"""What the tests of resnet_bk share: text that is quick to make, and programs on it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from phasewise import CheckContext, Program, Shape
from phasewise.model.data import use_data_folder
from phasewise_studies.resnet_bk import data, program
from phasewise_studies.resnet_bk.switches import Switches

CPU = torch.device("cpu")
TINY = Shape(batch=8, length=16, vocabulary=512, width=16, layers=2, causal=False)
CAUSAL = Shape(**{**TINY, "causal": True})
# what runs without a GPU: the last kept phase of the CPU's stack
STACK = {"core": "fused", "experts": "wide"}


def prepare_text(folder: Path) -> None:
    """A hundredth of the text, in the two tiny vocabularies."""
    data.write_tokens(folder, data.read_text(400_000), (509, 512))
    use_data_folder(folder)


def build(shape: Shape = TINY, case: str = "documented", device: torch.device = CPU, **switches) -> Program:
    """A program of these switches."""
    return program.build(Switches(**switches), program.make_inputs(case, shape, 0), case, shape, device)


def run_steps(built: Program, steps: int = 3, shape: Shape = TINY, case: str = "documented") -> list[dict[str, float]]:
    """Outputs of consecutive steps on the batches of seeds 0, 1, ..."""
    found = []
    for seed in range(steps):
        raw = built.step(built.place(program.make_inputs(case, shape, seed)))
        found.append({name: float(value) for name, value in raw.items()})
    return found


def make_context(
    switches: Switches, shape: Shape = TINY, case: str = "documented", device: torch.device = CPU
) -> CheckContext:
    """What a check of this variant is given."""
    return CheckContext(
        build=lambda **changes: build(shape, case, device, **{**asdict(switches), **changes}),
        reference=lambda: None,
        run=lambda built, batch: built.step(built.place(batch)),
        inputs=lambda seed: program.make_inputs(case, shape, seed),
        switches=switches, case=case, shape=shape, device=device, rtol=1e-3, atol=1e-3,
    )  # fmt: skip
