"""Models of schnetpack 2.2 and ours: weights there and back, and the sizes and offsets that a state dict tells.

A state does not tell the activation (SiLU here), the epsilon of the norms (1e-8) or whether offsets are for each atom (they are
taken to be): a model built otherwise comes out wrong.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.painn.layout import SPECIES, Sizes, Weights
from phasewise_studies.painn.weights import check_weights

# ours -> schnetpack's, below `representation.` and `output_modules.0.outnet.` (schnetpack 2.2, painn.py and atomwise.py)
_PER_LAYER = {
    "message.{l}.1": "representation.interactions.{l}.interatomic_context_net.0",
    "message.{l}.2": "representation.interactions.{l}.interatomic_context_net.1",
    "update.{l}.1": "representation.mixing.{l}.intraatomic_context_net.0",
    "update.{l}.2": "representation.mixing.{l}.intraatomic_context_net.1",
}
_CUTOFF, _BASIS = "representation.cutoff_fn.", "representation.radial_basis."
_FILTER, _EMBEDDING = "representation.filter_net.weight", "representation.embedding.weight"
# of lengths in Angstrom that went through float32
NEAR = 1e-5


def read_state(path: Path, trust: bool = False) -> dict[str, Tensor]:
    """The state dict in a file: a saved state, a checkpoint of Lightning, or, where `trust` allows code to run, a pickled module.

    Raises:
        UserError: the file is missing, is of another kind, or needs trust.
    """
    if not path.is_file():
        raise UserError(
            f"{path}: there is no such file; name a state dict, a .ckpt of Lightning or a best_model of schnetpack"
        )
    try:
        loaded = torch.load(path, map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        cure = (
            "it is no file of torch.save"
            if trust
            else "if it is a pickled module of your own, give --trust, which runs its code"
        )
        raise UserError(f"{path}: it holds more than tensors, or is damaged; {cure}") from error
    except (RuntimeError, EOFError) as error:
        raise UserError(f"{path}: torch cannot read it; name a file that torch.save wrote") from error
    except (ImportError, AttributeError) as error:
        raise UserError(f"{path}: its code is missing here ({error}); install the schnetpack that wrote it") from error
    return take_state(loaded, str(path))


def take_state(loaded: Any, place: str) -> dict[str, Tensor]:
    """The tensors of what `torch.load` gave, under the names of `NeuralNetworkPotential.state_dict()`.

    Raises:
        UserError: it is neither a state, nor a checkpoint of Lightning, nor a module; or a module's offsets are for whole systems.
    """
    if isinstance(loaded, torch.nn.Module):
        return _state_of_module(loaded, place)
    state = loaded.get("state_dict", loaded) if isinstance(loaded, Mapping) else None
    if not isinstance(state, Mapping):
        raise UserError(
            f"{place}: it holds a {type(loaded).__name__}; a state dict or a module of schnetpack is allowed"
        )
    # Lightning's task keeps the model beside its losses and metrics
    prefix = "model." if any(str(name).startswith("model.representation.") for name in state) else ""
    return {
        name.removeprefix(prefix): tensor
        for name, tensor in state.items()
        if isinstance(tensor, Tensor) and name.startswith(prefix)
    }


def _state_of_module(module: torch.nn.Module, place: str) -> dict[str, Tensor]:
    """The state of a module without the offsets that it does not add."""
    state = module.state_dict()
    for index, step in enumerate(getattr(module, "postprocessors", ())):
        added = {"mean": getattr(step, "add_mean", True), "atomref": getattr(step, "add_atomrefs", True)}
        if any(added.values()) and not getattr(step, "is_extensive", True):
            raise UserError(
                f"{place}: postprocessors.{index} adds its offsets to a mean over atoms; import a model of total energies"
            )
        for name in (name for name, is_added in added.items() if not is_added):
            state.pop(f"postprocessors.{index}.{name}", None)
    return dict(state)


def read_sizes(state: Mapping[str, Tensor], cutoff: float | None = None, basis: str | None = None) -> Sizes:
    """Sizes of the model whose state this is; `cutoff` in Angstrom and `basis` are asked for only where the state lacks them.

    Raises:
        UserError: it is no PaiNN that can be imported, or it differs from `cutoff` or `basis`.
    """
    for needed in (_FILTER, _EMBEDDING):
        if needed not in state:
            raise UserError(
                f"schnetpack state: {needed!r} is missing; give the state of a NeuralNetworkPotential with PaiNN"
            )
    places = [re.match(r"representation\.interactions\.(\d+)\.", name) for name in state]
    layers = 1 + max((int(place[1]) for place in places if place), default=-1)
    features, (rows, radial) = state[_EMBEDDING].shape[1], state[_FILTER].shape
    if layers > 1 and rows == 3 * features:
        raise UserError(
            f"schnetpack state: filter_net has the {rows} rows of one layer, and the model {layers} layers; shared_filters=False is "
            f"what can be imported: repeat the rows of its weight and bias {layers} times, or train with it"
        )
    told = _read_cutoff(state)
    if told is not None and cutoff is not None and abs(told - cutoff) > NEAR:
        raise UserError(f"cutoff: {cutoff:g} A was given and the schnetpack state has {told:g} A; leave the cutoff out")
    known = _read_basis(state)
    if known is not None and basis is not None and known != basis:
        raise UserError(f"basis: {basis!r} was given and the schnetpack state has {known!r}; leave the basis out")
    found, kind = told if told is not None else cutoff, known or basis
    if found is None or kind is None:
        lacking = "cutoff" if found is None else "basis"
        raise UserError(
            f"schnetpack state: it does not tell the {lacking}; give the one that the model was built with, --{lacking}"
        )
    sizes = Sizes(features=features, layers=layers, radial=radial, cutoff=found, basis=kind)  # type: ignore[arg-type]
    _check_basis(state, sizes)
    return sizes


def _read_cutoff(state: Mapping[str, Tensor]) -> float | None:
    buffers = {name.removeprefix(_CUTOFF) for name in state if name.startswith(_CUTOFF)}
    if buffers - {"cutoff"}:
        raise UserError(
            f"schnetpack state: cutoff_fn holds {', '.join(sorted(buffers))}, as no CosineCutoff does; train with CosineCutoff"
        )
    # 5.2 went through float32
    return round(float(state[f"{_CUTOFF}cutoff"]), 5) if buffers else None


def _read_basis(state: Mapping[str, Tensor]) -> str | None:
    buffers = {name.removeprefix(_BASIS) for name in state if name.startswith(_BASIS)}
    known = {frozenset(): None, frozenset({"offsets", "widths"}): "gaussian", frozenset({"freqs"}): "bessel"}
    if frozenset(buffers) not in known:
        raise UserError(
            f"schnetpack state: radial_basis holds {', '.join(sorted(buffers))}; GaussianRBF and BesselRBF can be imported"
        )
    return known[frozenset(buffers)]


def _check_basis(state: Mapping[str, Tensor], sizes: Sizes) -> None:
    """Raise UserError if the radial functions are not those that `sizes` stand for."""
    count, cutoff = sizes.radial, sizes.cutoff
    if sizes.basis == "gaussian":
        centres = torch.linspace(0, cutoff, count, dtype=torch.float64)
        expected = {"offsets": centres, "widths": torch.full_like(centres, cutoff / (count - 1))}
        rule = (
            "Gaussians from 0 to the cutoff, each as wide as their spacing: GaussianRBF(n_rbf, cutoff), not trainable"
        )
    else:
        expected = {"freqs": torch.arange(1, count + 1, dtype=torch.float64) * torch.pi / cutoff}
        rule = "the frequencies n pi / cutoff: BesselRBF(n_rbf, cutoff)"
    for name, values in expected.items():
        found = state.get(_BASIS + name)
        if found is None:
            continue
        found = found.detach().double().cpu()
        if found.shape != values.shape or not torch.allclose(found, values, rtol=NEAR, atol=NEAR):
            ends = "none" if found.numel() == 0 else f"{float(found.flatten()[0]):g} to {float(found.flatten()[-1]):g}"
            raise UserError(
                f"schnetpack state: radial_basis.{name} ({ends}) are not those of {count} functions up to {cutoff:g} A; "
                f"what can be imported are {rule}"
            )


def read_offsets(state: Mapping[str, Tensor]) -> Tensor:
    """Energies that schnetpack's `AddOffsets` adds for each atom, by element: (100,) float64 in eV, 0 without one.

    Raises:
        UserError: a mean is no single number, or energies are scaled afterwards.
    """
    offsets = torch.zeros(SPECIES, dtype=torch.float64)
    for name, tensor in state.items():
        kind = re.fullmatch(r"postprocessors\.\d+\.(mean|atomref|scale)", name)
        if kind is None:
            continue
        values = tensor.detach().double().cpu().flatten()
        if kind[1] == "atomref":
            rows = min(SPECIES, len(values))
            offsets[:rows] += values[:rows]
        elif len(values) != 1 or (kind[1] == "scale" and values[0] != 1):
            raise UserError(
                f"schnetpack state: {name!r} is {values[:3].tolist()}; a mean for each atom and no scale can be imported, so "
                "multiply the last layer of the readout by the scale, or train without it"
            )
        elif kind[1] == "mean":
            offsets += values
    return offsets


def from_schnetpack(state: Mapping[str, Tensor], sizes: Sizes, atomref: Tensor | None = None) -> dict[str, Tensor]:
    """Weights (float64) from `NeuralNetworkPotential.state_dict()` of schnetpack: PaiNN with a two-layer `Atomwise` readout.

    `sizes` are those of `read_sizes`. `atomref` (100,), in eV, stands in for the offsets that the state holds.

    Raises:
        UserError: a tensor is missing or has another shape, or `sizes` have another cutoff or basis than the state.
    """
    read_sizes(state, sizes.cutoff, sizes.basis)
    names = schnetpack_names(sizes)
    missing = [theirs for theirs in names.values() if theirs not in state]
    if missing:
        raise UserError(
            f"schnetpack state: {missing[0]!r} is missing; PaiNN(n_interactions={sizes.layers}, shared_interactions=False, "
            "shared_filters=False) with Atomwise(n_layers=2) is what can be imported"
        )
    weights = {ours: state[theirs].detach().double() for ours, theirs in names.items()}
    # an embedding for another number of elements: `known_elements` are those that may be looked up
    embedding = torch.zeros(SPECIES, weights["embedding"].shape[1], dtype=torch.float64)
    rows = min(len(embedding), len(weights["embedding"]))
    embedding[:rows] = weights["embedding"][:rows]
    weights["embedding"] = embedding
    weights["atomref"] = read_offsets(state) if atomref is None else atomref.double()
    check_weights(weights, sizes, "schnetpack state")
    return weights


def known_elements(state: Mapping[str, Tensor]) -> range:
    """Atomic numbers that the embedding has rows for; which of them were trained on, a state does not tell."""
    return range(1, min(SPECIES, len(state[_EMBEDDING])))


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
