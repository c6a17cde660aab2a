"""What a phase may change."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change."""

    # all systems at once, or one after the other
    batched: bool = False
    # how rows of neighbours are read: "index" (x[j]) or "select" (index_select)
    gather: str = "index"
    # a list in a fixed number of places, or as long as it is
    places: bool = False
    # "autograd" or "analytic"
    forces: str = "autograd"
    compiled: bool = False
    # "torch" or "triton": the list, the messages, the sums into forces, the dense parts
    neighbours: str = "torch"
    message: str = "torch"
    assembly: str = "torch"
    atoms: str = "torch"
    # leave out what is 0 or never read
    pruned: bool = False
    # of matrix products: "float32", "tf32", "tf32x3", "bfloat16"
    precision: str = "float32"
    # filters from a table over the distance
    table: bool = False
    # record the step once, then replay it
    graph: bool = False
    # parts of the batch on streams of their own
    streams: int = 1
    # launches chosen by timing
    tuned: bool = False


# all that the kept phases switch on, but for the graph and tuning
EVERYTHING = {
    "batched": True, "gather": "select", "places": True, "forces": "analytic", "compiled": True, "neighbours": "triton",
    "message": "triton", "assembly": "triton", "pruned": True, "atoms": "triton", "precision": "tf32x3",
}  # fmt: skip
