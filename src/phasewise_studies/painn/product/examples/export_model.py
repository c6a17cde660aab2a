"""Write the model as an AOTInductor package that runs without Python source: any number of atoms, edges and systems.

    python -m phasewise_studies.painn.product.examples.export_model out/painn.pt2 [--model my/checkpoint] [--features 128]

The package takes positions (A, 3) float64, numbers, system (A,), i, j (E,) int64, offset (E, 3) float64, and a float32 (B,) whose
length is the number of systems; it gives energies (B,) and forces (A, 3). It is made for the kind of device it is written on.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from phasewise.records.errors import report_errors
from phasewise_studies.painn import reference
from phasewise_studies.painn.data import as_atoms, make_molecules
from phasewise_studies.painn.product.deploy import PotentialOnEdges
from phasewise_studies.painn.product.files import model_path, refuse_existing
from phasewise_studies.painn.weights import choose_weights, load_model


def example(names: tuple[str, ...], cutoff: float, device: torch.device) -> tuple[torch.Tensor, ...]:
    """Arguments for a batch of shipped molecules."""
    batch = make_molecules(names, torch.Generator().manual_seed(0))
    i, j, _ = reference.find_neighbours(as_atoms(batch), cutoff)
    offset = torch.zeros(len(i), 3, dtype=torch.float64)
    arguments = (batch["positions"], batch["numbers"], batch["system"], i, j, offset, torch.zeros(len(names)))
    return tuple(tensor.to(device) for tensor in arguments)


@report_errors
def main() -> None:
    """Export, package, load again, and compare on a batch of another size."""
    parser = argparse.ArgumentParser(description="Export PaiNN with forces through torch.export and AOTInductor")
    parser.add_argument("out", type=Path)
    parser.add_argument("--model", type=model_path, help="a checkpoint, or student")
    parser.add_argument("--features", type=int, default=128)
    given = parser.parse_args()

    refuse_existing(given.out)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    weights, sizes = load_model(given.model) if given.model else choose_weights(given.features)
    module = PotentialOnEdges(weights, sizes).to(device).eval()
    a, e, b = (torch.export.Dim(name, min=2, max=1 << 20) for name in ("atoms", "edges", "systems"))
    shapes = ({0: a}, {0: a}, {0: a}, {0: e}, {0: e}, {0: e}, {0: b})
    exported = torch.export.export(
        module, example(("ethanol", "uracil"), sizes.cutoff, device), dynamic_shapes=shapes, strict=False
    )
    given.out.parent.mkdir(parents=True, exist_ok=True)
    package = torch._inductor.aoti_compile_and_package(exported, package_path=str(given.out))
    loaded = torch._inductor.aoti_load_package(package)
    other = example(("ethanol", "ethanol", "uracil"), sizes.cutoff, device)
    apart = max(float((x - y).abs().max()) for x, y in zip(loaded(*other), module(*other), strict=True))
    print(f"{given.out}: {given.out.stat().st_size / 1e6:.1f} MB; on a batch of another size it differs by {apart:.1e}")


if __name__ == "__main__":
    main()
