"""Everything that a phase of the trainer may change, and what phases need of a machine."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise import Needs


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change; the defaults are the trainer as the user had it."""

    # item: three waits a progress line; window: one copy a window
    metrics: str = "item"
    # steps between progress lines; 0 = none
    progress_every: int = 1
    # loops or vectorised
    rotor_update: str = "loops"
    # evaluate the quadratic form once, not twice
    fused_lior: bool = False
    # candidates, compiled, product or triton: how weights are formed and states are mixed
    retrieval: str = "candidates"
    # add to the velocity in place
    in_place: bool = False
    # every-10 or adaptive: when the allocator's cache is emptied
    cleanup: str = "every-10"
    # rotate the bank once a window, not once a step
    cached_rotation: bool = False
    # all, filled (only valid rows, of any number) or bounded (blocks behind the last valid row are left out)
    bank: str = "all"
    # float32, float16, bfloat16 or split: the format in which weights and states are multiplied
    mix: str = "float32"
    # eager, lockstep or persistent (feedback), time-parallel (open)
    engine: str = "eager"
    # compile what a fused window does before and after its steps
    compiled_ends: bool = False
    # let a kernel begin while the one before it ends
    overlap: bool = False
    # record the window once, then replay it
    graph: bool = False


CUDA = Needs(cuda=True)
KERNELS = Needs(cuda=True, modules=("triton",), capability=(8, 0))
HOPPER = Needs(cuda=True, modules=("triton",), capability=(9, 0))
# what a captured window can't do without: no waits for the device in it
CAPTURED = {"graph": True, "metrics": "window", "progress_every": 0, "rotor_update": "vectorised"}
