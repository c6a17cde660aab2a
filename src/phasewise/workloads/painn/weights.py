"""Weights of a model: drawn from a seed, saved as safetensors with a JSON of the sizes beside them, taken from schnetpack.

A checkpoint is two files, `<name>.safetensors` and `<name>.json`; neither can run code when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise.workloads.painn.layout import Sizes, Weights, weight_shapes

# the student that distil.train wrote; a retrained one gets another number, so that what was measured with the old one is measured again
STUDENT = Path(__file__).parent / "student" / "painn-gfn2-1"
# features of the student; models of other widths are for trying things out, with seeded weights
STUDENT_FEATURES = 128

# ours -> schnetpack's, below `representation.` and `output_modules.0.outnet.` (schnetpack 2.2, painn.py and atomwise.py)
_PER_LAYER = {
    "message.{l}.1": "representation.interactions.{l}.interatomic_context_net.0",
    "message.{l}.2": "representation.interactions.{l}.interatomic_context_net.1",
    "update.{l}.1": "representation.mixing.{l}.intraatomic_context_net.0",
    "update.{l}.2": "representation.mixing.{l}.intraatomic_context_net.1",
}


def draw_weights(sizes: Sizes, seed: int) -> dict[str, Tensor]:
    """Random float64 weights: uniform by Glorot's rule, as schnetpack draws them, with biases that are not 0.

    A bias of 0 would hide a cutoff at the wrong place. Forces come out near 0.3 eV/A.
    """
    generator = torch.Generator().manual_seed(seed)
    weights = {}
    for name, shape in weight_shapes(sizes).items():
        noise = 2 * torch.rand(shape, dtype=torch.float64, generator=generator) - 1
        bound = 0.1 if len(shape) == 1 else math.sqrt(6 / sum(shape))
        weights[name] = noise * (math.sqrt(3.0) if name == "embedding" else bound)
    weights["atomref"] = torch.zeros_like(weights["atomref"])
    return weights


def choose_weights(features: int) -> tuple[dict[str, Tensor], Sizes]:
    """The student where it has this width, else seeded weights; float64."""
    if features == STUDENT_FEATURES:
        return load_model(STUDENT)
    sizes = Sizes(features=features)
    return draw_weights(sizes, seed=0), sizes


def save_model(path: Path, weights: Weights, sizes: Sizes, about: Mapping[str, Any] | None = None) -> None:
    """Write `<path>.safetensors` and `<path>.json`. `about` is kept with the sizes: teacher, data, errors."""
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    # reference energies stay in float64: an atom of oxygen alone is worth hundreds of eV
    stored = {
        name: tensor.detach().cpu().contiguous().to(torch.float64 if name == "atomref" else torch.float32)
        for name, tensor in weights.items()
        if name in weight_shapes(sizes)
    }
    save_file(stored, path.with_suffix(".safetensors"))
    text = json.dumps({"sizes": asdict(sizes), **(about or {})}, indent=2) + "\n"
    path.with_suffix(".json").write_text(text)


def load_model(path: Path) -> tuple[dict[str, Tensor], Sizes]:
    """Weights in float64 and sizes of a checkpoint.

    Raises:
        UserError: a file is missing, or the tensors are not those that the sizes ask for.
    """
    from safetensors.torch import load_file

    description = path.with_suffix(".json")
    if not description.exists() or not path.with_suffix(".safetensors").exists():
        raise UserError(
            f"{path}: a checkpoint is {path.name}.json and {path.name}.safetensors, and one of them is missing; name it "
            f"without its ending, or take the student, {STUDENT}"
        )
    sizes = Sizes(**json.loads(description.read_text())["sizes"])
    weights = {name: tensor.double() for name, tensor in load_file(path.with_suffix(".safetensors")).items()}
    check_weights(weights, sizes, str(path))
    return weights, sizes


def check_weights(weights: Weights, sizes: Sizes, place: str) -> None:
    """Raise UserError for the first weight that is missing or has another shape than `sizes` ask for."""
    for name, shape in weight_shapes(sizes).items():
        if name not in weights:
            raise UserError(f"{place}: weight {name!r} is missing; a model of these sizes needs it")
        if tuple(weights[name].shape) != shape:
            raise UserError(
                f"{place}: weight {name!r} has shape {tuple(weights[name].shape)}; these sizes ask for {shape}"
            )


def from_schnetpack(state: Mapping[str, Tensor], sizes: Sizes, atomref: Tensor | None = None) -> dict[str, Tensor]:
    """Weights from `NeuralNetworkPotential.state_dict()` of schnetpack: PaiNN with a two-layer `Atomwise` readout.

    `atomref` (100,) are energies that schnetpack adds after the model (`AddOffsets`), in eV; 0 by default. Give `sizes` the
    cutoff and basis that the model was built with: the state does not tell them.

    Raises:
        UserError: a tensor is missing or has another shape, for instance because filters or interactions are shared.
    """
    names = schnetpack_names(sizes)
    missing = [theirs for theirs in names.values() if theirs not in state]
    if missing:
        raise UserError(
            f"schnetpack state: {missing[0]!r} is missing; PaiNN(n_interactions={sizes.layers}, shared_interactions=False, "
            "shared_filters=False) with Atomwise(n_layers=2) is what can be imported"
        )
    weights = {ours: state[theirs].detach().double() for ours, theirs in names.items()}
    # an embedding for another number of elements: rows for the others are never looked up
    embedding = torch.zeros(weight_shapes(sizes)["embedding"], dtype=torch.float64)
    rows = min(len(embedding), len(weights["embedding"]))
    embedding[:rows] = weights["embedding"][:rows]
    weights["embedding"] = embedding
    weights["atomref"] = torch.zeros(len(embedding), dtype=torch.float64) if atomref is None else atomref.double()
    check_weights(weights, sizes, "schnetpack state")
    return weights


def to_schnetpack(weights: Weights, sizes: Sizes) -> dict[str, Tensor]:
    """The tensors of `weights` under schnetpack's names; load them with `strict=False`, buffers are not among them."""
    return {theirs: weights[ours] for ours, theirs in schnetpack_names(sizes).items()}


def schnetpack_names(sizes: Sizes) -> dict[str, str]:
    """Our name -> schnetpack's, for every weight but the reference energies."""
    names = {"embedding": "representation.embedding.weight"}
    pairs = {"filter": "representation.filter_net"}
    for layer in range(sizes.layers):
        pairs |= {ours.format(l=layer): theirs.format(l=layer) for ours, theirs in _PER_LAYER.items()}
        names[f"update.{layer}.mix.weight"] = f"representation.mixing.{layer}.mu_channel_mix.weight"
    pairs |= {"readout.1": "output_modules.0.outnet.0", "readout.2": "output_modules.0.outnet.1"}
    for ours, theirs in pairs.items():
        names |= {f"{ours}.weight": f"{theirs}.weight", f"{ours}.bias": f"{theirs}.bias"}
    return names
