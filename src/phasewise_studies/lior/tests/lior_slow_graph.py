"""Two steps for a comparison: a window, and a window whose warm-up and capture are repeated each time, as if its shape changed."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.lior import program
from phasewise_studies.lior.data import BATCH
from phasewise_studies.lior.product.trainer import Trainer, capture_window, open_trainer
from phasewise_studies.lior.switches import CAPTURED, Switches
from phasewise_studies.lior.tests.lior_runs import make_shape
from phasewise_studies.lior.window import read_sizes

WARMUP = 3


def prepare() -> tuple[Trainer, dict[str, Tensor]]:
    """An eager trainer and a placed batch."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    shape = make_shape(feedback=True)
    inputs = program.make_inputs("any", shape, 0)
    switches = Switches(**{**CAPTURED, "graph": False})
    trainer = open_trainer(switches, inputs, read_sizes(shape), device)
    return trainer, {name: inputs[name].to(device, torch.float32) for name in BATCH}


def run_eagerly(trainer: Trainer, batch: dict[str, Tensor]) -> torch.Size:
    """The shape of a window's result, whose values depend on the windows before it."""
    return trainer.run(batch)["lior"].shape


def capture_again(trainer: Trainer, batch: dict[str, Tensor]) -> torch.Size:
    """The same, from a step that is captured for this one window."""
    if not torch.cuda.is_available():
        # without a GPU nothing is captured, and the warm-up is all there is to repeat
        for _ in range(WARMUP):
            trainer.run(batch)
    step, _ = capture_window(trainer.run, trainer.window, batch, WARMUP)
    return step(batch)["lior"].shape
