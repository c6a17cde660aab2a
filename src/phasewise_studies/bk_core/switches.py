"""What a phase may change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change."""

    # loop, compiled-loop, textbook, mixed, scan, fused or extension: the form of the recursion
    core: str = "loop"
    # gradients by the adjoint recursions and not by autograd
    analytic: bool = False
    # launches found by trying
    tuned: bool = False
    # record the step once, then replay it
    graph: bool = False
