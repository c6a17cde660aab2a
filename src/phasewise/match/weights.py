"""The same weights on both sides of a match."""

from __future__ import annotations

from collections.abc import Mapping

import torch

# names in a sentence
SHOWN = 3


def give_weights(module: torch.nn.Module, weights: Mapping[str, torch.Tensor]) -> str:
    """Load the base's state into the candidate's module; a sentence where names had to be guessed, or nothing would fit.

    A class that keeps them otherwise may override `load_state_dict`. What does not fit keeps what it was drawn with, from the same seed.
    """
    own = module.state_dict()
    if not weights and not own:
        return ""
    try:
        module.load_state_dict(weights)
    except (RuntimeError, KeyError):
        return _give_by_order(own, weights)
    return ""


def _give_by_order(own: Mapping[str, torch.Tensor], weights: Mapping[str, torch.Tensor]) -> str:
    if [tensor.shape for tensor in own.values()] != [tensor.shape for tensor in weights.values()]:
        return (
            f"the weights differ: the base has {_name(weights)}, the candidate has {_name(own)}; "
            "give these the same names, or override load_state_dict(weights)"
        )
    with torch.no_grad():
        # the entries of a state_dict share the memory of the module's own
        for target, source in zip(own.values(), weights.values(), strict=True):
            target.copy_(source)
    pairs = [f"{mine} is {theirs}" for mine, theirs in zip(own, weights, strict=True) if mine != theirs]
    more = f" and {len(pairs) - SHOWN} more" if len(pairs) > SHOWN else ""
    return f"the weights differ in name and were matched by order and shape: {', '.join(pairs[:SHOWN])}{more}"


def _name(tensors: Mapping[str, torch.Tensor]) -> str:
    found = [f"{name} {tuple(tensor.shape)}" for name, tensor in tensors.items()]
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more if found else "none"
