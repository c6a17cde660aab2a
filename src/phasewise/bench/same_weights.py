"""Give the float64 reference the weights of the baseline: the same seed draws other numbers in float64, so what modules hold is copied."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)

T = TypeVar("T")


def build_alike(build: Callable[[], T], wide: Callable[[], T], close: Callable[[T], None]) -> T:
    """What `wide` builds, with the weights that `build` draws from the same state of torch's generator.

    Both are to build the same modules in the same order; where they don't, nothing is copied. Weights that differ only by rounding are left
    as they are.
    """
    before = torch.get_rng_state()
    with note_modules() as into:
        program = wide()
    if not into:
        return program
    after = torch.get_rng_state()
    torch.set_rng_state(before)
    with note_modules() as out_of:
        close(build())
    torch.set_rng_state(after)
    copy_weights(into, out_of)
    return program


@contextmanager
def note_modules() -> Iterator[list[torch.nn.Module]]:
    """The modules that get a parameter, a buffer or a part meanwhile, in that order, then their parts, each once."""
    found: dict[int, torch.nn.Module] = {}
    listed: list[torch.nn.Module] = []

    def note(module: torch.nn.Module, name: str, value: Any) -> None:
        found.setdefault(id(module), module)

    register = (
        register_module_parameter_registration_hook, register_module_buffer_registration_hook,
        register_module_module_registration_hook,
    )  # fmt: skip
    handles = [each(note) for each in register]
    try:
        yield listed
    finally:
        for handle in handles:
            handle.remove()
        # a part that was copied, such as a layer of an encoder, was given nothing by name
        parts = {id(part): part for module in found.values() for part in module.modules()}
        listed += {**found, **parts}.values()


def copy_weights(into: Sequence[torch.nn.Module], out_of: Sequence[torch.nn.Module]) -> None:
    """Parameters and buffers of each module from its counterpart, in the dtype that they have."""
    pairs = [(_held(one), _held(other)) for one, other in zip(into, out_of, strict=False)]
    if len(into) != len(out_of) or not all(map(_is_alike, *zip(*pairs, strict=True))):
        return
    with torch.no_grad():
        for targets, sources in pairs:
            for name, target in targets.items():
                # a weight that was given, not drawn, keeps the digits that float32 has no room for
                if not torch.equal(target.to(sources[name].dtype), sources[name]):
                    target.copy_(sources[name])


def _held(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Its own, not those of the modules in it."""
    found = {**module._parameters, **module._buffers}
    return {name: tensor for name, tensor in found.items() if tensor is not None}


def _is_alike(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return {name: tensor.shape for name, tensor in one.items()} == {
        name: tensor.shape for name, tensor in other.items()
    }
