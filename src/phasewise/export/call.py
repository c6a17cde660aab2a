"""How an exported module is called: the tensors of the placed batch in order, a flat tuple of tensors back.

The program's own module is called with the placed batch: `module(**placed)` where it is a dict of tensors,
`module(*placed)` where it is a tuple or list, `module(placed)` where it is one tensor. Its result may nest tensors in
dicts, tuples and lists. `Flat` turns both into plain sequences, so that every export has the same signature: positional
tensors named in `manifest.json`, in that order, and a tuple of named tensors.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from phasewise.model.workload import Unsupported


class Flat(torch.nn.Module):
    """`module` with positional tensors in and a tuple of tensors out; `names` is None if it takes positions itself."""

    def __init__(self, module: torch.nn.Module, names: Sequence[str] | None) -> None:
        super().__init__()
        self.module = module
        self.names = names

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Call the module; raises Unsupported if its result holds anything but tensors."""
        result = self.call_named(*tensors)
        return tuple(tensor for _, tensor in named_leaves(result))

    def call_named(self, *tensors: torch.Tensor) -> Any:
        """The module's own result."""
        if self.names is None:
            return self.module(*tensors)
        return self.module(**dict(zip(self.names, tensors, strict=True)))


def name_inputs(placed: Any) -> dict[str, torch.Tensor]:
    """The tensors of a placed batch by name, in the order in which an export takes them.

    Raises:
        Unsupported: the batch holds something that is not a tensor.
    """
    if isinstance(placed, torch.Tensor):
        return {"input": placed}
    if isinstance(placed, Mapping):
        named = {str(name): value for name, value in placed.items()}
    elif isinstance(placed, tuple | list):
        named = {f"input_{index}": value for index, value in enumerate(placed)}
    else:
        raise Unsupported(
            f"the placed batch is a {type(placed).__name__}; exports take a tensor, or a dict or tuple of tensors"
        )
    for name, value in named.items():
        if not isinstance(value, torch.Tensor):
            raise Unsupported(f"the placed batch holds a {type(value).__name__} at {name!r}; exports take tensors only")
    return named


def flatten(module: torch.nn.Module, placed: Any) -> Flat:
    """`module` for calls with the values of `name_inputs(placed)`.

    A compiled module is exported as what it was compiled from. It is put into eval mode with frozen parameters: exports
    are for inference, and a module that differentiates its inputs still can.
    """
    plain = getattr(module, "_orig_mod", module)
    names = tuple(str(name) for name in placed) if isinstance(placed, Mapping) else None
    return Flat(plain.eval().requires_grad_(False), names)


def named_leaves(result: Any, name: str = "") -> Iterator[tuple[str, torch.Tensor]]:
    """Tensors of a nested result with names such as `output`, `energy`, `output_0`, `layers_1_weight`."""
    if isinstance(result, torch.Tensor):
        yield name or "output", result
    elif isinstance(result, Mapping):
        for key, value in result.items():
            yield from named_leaves(value, f"{name}_{key}" if name else str(key))
    elif isinstance(result, tuple | list):
        for index, value in enumerate(result):
            yield from named_leaves(value, f"{name or 'output'}_{index}")
    elif result is not None:
        raise Unsupported(
            f"the module returns a {type(result).__name__} at {name or 'output'!r}; exports return tensors only"
        )


def describe(tensors: Mapping[str, torch.Tensor], others: Sequence[Mapping[str, torch.Tensor]] = ()) -> dict[str, str]:
    """Name -> "float32[4, 8]"; a dimension that differs in one of `others` is written `*`."""
    found = {}
    for name, tensor in tensors.items():
        sizes = ["*" if any(other[name].shape[axis] != size for other in others) else str(size)
                 for axis, size in enumerate(tensor.shape)]  # fmt: skip
        found[name] = f"{dtype_name(tensor.dtype)}[{', '.join(sizes)}]"
    return found


def dtype_name(dtype: torch.dtype) -> str:
    """`torch.float32` -> "float32"."""
    return str(dtype).removeprefix("torch.")


def write_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """An .npz file without pickles. numpy.savez takes names as keywords, and some (`file`) for its own."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.asarray(array), allow_pickle=False)


def to_arrays(tensors: Mapping[str, torch.Tensor]) -> dict[str, np.ndarray]:
    """Copies for an .npz file; bfloat16, which NumPy lacks, widens to float32 without loss."""
    cpu = {name: tensor.detach().cpu() for name, tensor in tensors.items()}
    return {
        name: (tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy() for name, tensor in cpu.items()
    }
