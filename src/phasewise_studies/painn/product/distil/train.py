"""Train the student on the teacher's frames: one model for all shipped molecules, from drawn weights.

    python -m phasewise_studies.painn.product.distil.train --steps 20000 --out out/mine

The last tenth of each trajectory is held out. The same command goes on where a stopped one last saved. What a step is: `product/trainer.py`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

from phasewise.kit.devices import choose_device
from phasewise.records.errors import report_errors
from phasewise_studies.painn.data import FRAMES, load_frames
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.product.distil.teacher import ACCURACY, MOLECULES, TEMPERATURE_K
from phasewise_studies.painn.product.files import digest_files, whole
from phasewise_studies.painn.product.trainer import fit_atomref
from phasewise_studies.painn.product.training_run import Settings, train
from phasewise_studies.painn.weights import draw_weights

HELD_OUT = 0.1
RATE = 3e-3


def split_frames(name: str) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Frames to train on, and held out: the last part of each chain, since neighbouring frames are alike."""
    frames = {key: torch.from_numpy(value) for key, value in load_frames(name).items()}
    held = torch.zeros(len(frames["chain"]), dtype=torch.bool)
    for chain in frames["chain"].unique():
        places = torch.nonzero(frames["chain"] == chain)[:, 0]
        held[places[-max(1, round(HELD_OUT * len(places))) :]] = True
    return tuple(  # type: ignore[return-value]
        {key: value if key == "numbers" else value[which] for key, value in frames.items()} for which in (~held, held)
    )


@report_errors
def main() -> None:
    """Train on all shipped molecules, or on some."""
    parser = argparse.ArgumentParser(description="Train the PaiNN student on the shipped frames")
    parser.add_argument("--steps", type=whole, default=20_000)
    parser.add_argument("--each", type=whole, default=4, help="frames of each molecule in a step")
    parser.add_argument("--features", type=int, default=Sizes().features)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--molecules", nargs="+", default=list(MOLECULES))
    parser.add_argument("--save-every", type=whole, default=1000, help="steps between saves")
    parser.add_argument("--device", default="", help="by default the GPU where there is one")
    parser.add_argument("--out", type=Path, required=True, help="the checkpoint to write")
    given = parser.parse_args()

    molecules = {name: split_frames(name) for name in given.molecules}
    sizes = Sizes(features=given.features)
    start = {
        **draw_weights(sizes, given.seed),
        "atomref": fit_atomref({name: part for name, (part, _) in molecules.items()}),
    }
    settings = Settings(
        frames=digest_files(FRAMES / f"{name}.npz" for name in molecules), base=f"drawn, {sizes.features} features",
        steps=given.steps, each=given.each, rate=RATE, seed=given.seed,
    )  # fmt: skip
    teacher = {"method": "GFN2-xTB", "package": "tblite 0.8.0", "accuracy": ACCURACY, "temperature_K": TEMPERATURE_K}
    train(
        molecules, start, sizes, settings, out=given.out, device=choose_device(given.device), about={"teacher": teacher},
        elements={int(z) for part, _ in molecules.values() for z in part["numbers"]}, save_every=given.save_every,
    )  # fmt: skip


if __name__ == "__main__":
    main()
