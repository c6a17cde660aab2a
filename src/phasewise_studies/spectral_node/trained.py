"""Networks trained on the synthetic table: what the export stage writes of `couple`. Made by this file's command, shipped beside it.

python -m phasewise_studies.spectral_node.trained
"""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from phasewise import Shape
from phasewise_studies.spectral_node import data

FOLDER = Path(__file__).parent / "weights"
# the document's
EPOCHS = 500


def place_of(wavelengths: int, first: int, second: int) -> Path:
    """The file of networks of these sizes."""
    return FOLDER / f"{wavelengths}-{first}-{second}.safetensors"


def load_trained(shape: Shape) -> dict[str, Tensor] | None:
    """Both networks of the shape's sizes in float64; None where none of that size are shipped."""
    path = place_of(shape.wavelengths, shape.first, shape.second)
    if not path.exists():
        return None
    return {name: tensor.double() for name, tensor in load_file(path).items()}


def train_all() -> None:
    """Train networks of the sizes of `couple`, 500 epochs of all 30 transitions each, on the CPU; overwrites the shipped ones."""
    # here, since training is nothing that a measured program loads
    from phasewise_studies.spectral_node.phases import workload
    from phasewise_studies.spectral_node.product.fit import Settings, fit

    case = workload.cases["couple"]
    for waves, first, second in sorted({(one.wavelengths, one.first, one.second) for one in (case.tiny, case.full)}):
        table = data.synthetic_table(len(data.LEVELS_PPB), waves, torch.Generator().manual_seed(0))
        found, losses = fit(
            data.levels(), data.wavelengths(waves), table, Settings(widths=(first, second)), epochs=EPOCHS,
            device=torch.device("cpu"),
        )  # fmt: skip
        path = place_of(waves, first, second)
        path.parent.mkdir(exist_ok=True)
        save_file({name: tensor.float().contiguous() for name, tensor in found.items()}, path)
        print(f"{path.name}: loss {losses[0]:.4g}, after {EPOCHS} epochs {losses[-1]:.4g}")


if __name__ == "__main__":
    train_all()
