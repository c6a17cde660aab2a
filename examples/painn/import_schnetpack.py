"""Turn a schnetpack model into a checkpoint of ours: `<out>.safetensors` and `<out>.json`.

    python examples/painn/import_schnetpack.py best_model out/my-painn --cutoff 5.0 --basis gaussian

`best_model` is a pickled module: loading it runs code of whoever wrote it, so load only files of your own. A state dict saved by
`torch.save(model.state_dict(), ...)` needs no trust; both are taken. Units have to be eV and Angstrom.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from phasewise.workloads.painn.layout import SPECIES, Sizes
from phasewise.workloads.painn.weights import from_schnetpack, save_model


def main() -> None:
    """Read, map, check shapes, write."""
    parser = argparse.ArgumentParser(description="Import PaiNN weights from schnetpack")
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--cutoff", type=float, default=5.0)
    parser.add_argument("--basis", choices=("gaussian", "bessel"), default="gaussian")
    parser.add_argument("--trust", action="store_true", help="the file is a pickled module of your own: load it")
    given = parser.parse_args()

    loaded = torch.load(given.model, map_location="cpu", weights_only=not given.trust)
    state = loaded if isinstance(loaded, dict) else loaded.state_dict()
    layers = 1 + max(int(name.split(".")[2]) for name in state if name.startswith("representation.interactions."))
    filters = state["representation.filter_net.weight"]
    features = state["representation.embedding.weight"].shape[1]
    sizes = Sizes(features=features, layers=layers, radial=filters.shape[1], cutoff=given.cutoff, basis=given.basis)
    atomref = torch.zeros(SPECIES, dtype=torch.float64)
    save_model(given.out, from_schnetpack(state, sizes, atomref), sizes, {"source": given.model.name})
    print(f"{given.out}.safetensors and .json: {features} features, {layers} layers, {sizes.radial} radial functions")


if __name__ == "__main__":
    main()
