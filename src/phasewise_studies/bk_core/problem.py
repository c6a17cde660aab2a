"""What the cases ask for: the shift z, the ranges of the operands, and which results a case has."""

from __future__ import annotations

from typing import Any

from phasewise import Shape

# the shift z = E + i eta of the user's document
Z = 1j
# diagonal of the document's H0, and the bound of what a layer adds to it
H0_DIAGONAL, V_MAX = -2.0, 3.0


def is_causal(case: str) -> bool:
    """Whether the case asks for 1/d_i."""
    return case.startswith("causal")


def is_backward(case: str) -> bool:
    """Whether the case asks for gradients."""
    return case.startswith("backward")


def differentiated(shape: Shape) -> tuple[str, ...]:
    """The operands that a backward case wants gradients of: couplings only where they are batched."""
    return ("a", "b", "c") if shape.batched else ("a",)


def name_outputs(raw: Any) -> dict[str, Any]:
    """A step's result by name: the diagonal, complex (batch, length), or gradients that have their names already."""
    return raw if isinstance(raw, dict) else {"diagonal": raw}
