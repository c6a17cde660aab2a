"""Weights of a model: drawn from a seed, or saved as safetensors with a JSON of the sizes beside them.

A checkpoint is two files, `<name>.safetensors` and `<name>.json`; neither can run code when it is read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.painn.layout import SPECIES, Sizes, Weights, weight_shapes

# the student that product.distil.train wrote; a retrained one gets another number, so that what was measured with the old one is measured again
STUDENT = Path(__file__).parent / "product" / "student" / "painn-gfn2-1"
# features of the student; models of other widths are for trying things out, with seeded weights
STUDENT_FEATURES = 128


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


def save_model(
    path: Path,
    weights: Weights,
    sizes: Sizes,
    about: Mapping[str, Any] | None = None,
    elements: Iterable[int] | None = None,
) -> None:
    """Write `<path>.safetensors` and `<path>.json`; `path` may have either ending.

    `about` is kept with the sizes: teacher, data, errors. `elements` are the atomic numbers that the model was trained on; systems
    with others are refused then.
    """
    from safetensors.torch import save_file

    path.parent.mkdir(parents=True, exist_ok=True)
    # reference energies stay in float64: an atom of oxygen alone is worth hundreds of eV
    stored = {
        name: tensor.detach().cpu().contiguous().to(torch.float64 if name == "atomref" else torch.float32)
        for name, tensor in weights.items()
        if name in weight_shapes(sizes)
    }
    save_file(stored, checkpoint_file(path, ".safetensors"))
    known = {} if elements is None else {"elements": sorted(elements)}
    text = json.dumps({"sizes": asdict(sizes), **known, **(about or {})}, indent=2) + "\n"
    checkpoint_file(path, ".json").write_text(text)


def checkpoint_file(path: Path, ending: Literal[".json", ".safetensors"]) -> Path:
    """One of the two files of a checkpoint that is named with or without an ending; other dots are part of the name."""
    return path.with_name(path.name.removesuffix(".json").removesuffix(".safetensors") + ending)


def load_model(path: Path) -> tuple[dict[str, Tensor], Sizes]:
    """Weights in float64 and sizes of a checkpoint.

    Raises:
        UserError: a file is missing or cannot be read, or the tensors are not those that the sizes ask for.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    description, tensors = checkpoint_file(path, ".json"), checkpoint_file(path, ".safetensors")
    if not description.exists() or not tensors.exists():
        raise UserError(
            f"{path}: a checkpoint is {description.name} and {tensors.name}, and one of them is missing; name one that "
            f"save_model wrote, or take the student, {STUDENT}"
        )
    sizes = read_sizes(read_description(path), str(description))
    try:
        weights = {name: tensor.double() for name, tensor in load_file(tensors).items()}
    except SafetensorError as error:
        raise UserError(f"{tensors}: no safetensors ({error}); copy it again, or write it with save_model") from error
    check_weights(weights, sizes, str(path))
    return weights, sizes


def load_elements(path: Path) -> tuple[int, ...]:
    """Atomic numbers that a checkpoint was trained on, ascending; all that the embedding has where it does not tell.

    Raises:
        UserError: the JSON is missing or cannot be read, or lists something else.
    """
    found = read_description(path).get("elements", list(range(1, SPECIES)))
    if not isinstance(found, list) or not found or any(type(z) is not int or not 1 <= z < SPECIES for z in found):
        raise UserError(
            f"{checkpoint_file(path, '.json')}: elements is {found!r}; atomic numbers from 1 to {SPECIES - 1} are allowed, "
            "or leave the key out"
        )
    return tuple(sorted(found))


def read_description(path: Path) -> dict[str, Any]:
    """What a checkpoint's JSON holds; raises UserError for one that is missing or no JSON object."""
    file = checkpoint_file(path, ".json")
    try:
        found = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise UserError(f"{file}: there is no such file; name a checkpoint that save_model wrote") from error
    except ValueError as error:
        raise UserError(f"{file}: no JSON ({error}); mend it, or write it with save_model") from error
    if not isinstance(found, dict):
        raise UserError(f"{file}: it holds {found!r}; an object with sizes is needed, as save_model writes it")
    return found


def read_sizes(description: Mapping[str, Any], place: str) -> Sizes:
    """The sizes in a checkpoint's description; raises UserError for a key or a value that no model has."""
    given = description.get("sizes")
    if not isinstance(given, dict) or given.keys() != _ALLOWED.keys():
        held = ", ".join(sorted(given)) if isinstance(given, dict) else "missing"
        raise UserError(
            f"{place}: sizes: {held}; exactly {', '.join(_ALLOWED)} are allowed, mend it or write it with save_model"
        )
    for name, value in given.items():
        is_allowed, words = _ALLOWED[name]
        if not is_allowed(value):
            raise UserError(f"{place}: sizes.{name} is {value!r}; {words} is allowed, give that of the training")
    return Sizes(**given)


def _is_above_zero(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


# JSON's true is an int to `isinstance`
_ALLOWED: dict[str, tuple[Callable[[Any], bool], str]] = {
    "features": (lambda n: type(n) is int and n >= 2 and n % 2 == 0, "an even integer from 2 on"),
    "layers": (lambda n: type(n) is int and n >= 1, "an integer from 1 on"),
    "radial": (lambda n: type(n) is int and n >= 2, "an integer from 2 on"),
    "cutoff": (_is_above_zero, "a number of Angstrom above 0"),
    "basis": (lambda name: name in ("gaussian", "bessel"), '"gaussian" or "bessel"'),
    "epsilon": (_is_above_zero, "a number above 0"),
}


def check_weights(weights: Weights, sizes: Sizes, place: str) -> None:
    """Raise UserError for the first weight that is missing or has another shape than `sizes` ask for."""
    for name, shape in weight_shapes(sizes).items():
        if name not in weights:
            raise UserError(f"{place}: weight {name!r} is missing; a model of these sizes needs it")
        if tuple(weights[name].shape) != shape:
            raise UserError(
                f"{place}: weight {name!r} has shape {tuple(weights[name].shape)}; these sizes ask for {shape}"
            )
