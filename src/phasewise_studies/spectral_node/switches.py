"""What a phase may change. Imports no torch."""

from __future__ import annotations

from dataclasses import dataclass

from phasewise.records.errors import UserError

ALLOWED = {
    "form": ("sequential", "batched", "fused", "closed"),
    "gamma": ("difference", "tangent", "grid", "kernel", "nodes"),
    "difference": ("float64", "float32", "bfloat16", "tf32"),
    "newton": ("difference", "exact", "damped"),
    "gradient": ("unrolled", "adjoint", "closed", "fused"),
    "autocast": ("", "float16", "bfloat16"),
}


@dataclass(frozen=True)
class Switches:
    """Everything that a phase may change; the defaults are the user's document, one problem at a time.

    Raises:
        UserError: a value that no program stands for.
    """

    # the form of the solver
    form: str = "sequential"
    # where Gamma comes from
    gamma: str = "difference"
    # what the finite difference is evaluated in; bfloat16 is autocast
    difference: str = "float64"
    # the slope of Newton's method
    newton: str = "difference"
    # torch.compile of one integration; training: of what the metric network adds to the fused loss
    compiled: bool = False
    # record the step once, then replay it
    graph: bool = False
    # training: how gradients reach the parameters
    gradient: str = "unrolled"
    # training: autocast of the network; "" for none
    autocast: str = ""
    # training: transitions a micro-batch; 0 is all at once
    micro: int = 0
    # training: keep states at step ends only
    recompute: bool = False
    # training: forward, backward and update on a stream each
    streams: bool = False
    # training: one kernel for the whole optimizer
    fused_adam: bool = False
    # PYTORCH_CUDA_ALLOC_CONF
    allocator: str = ""
    ranks: int = 1

    def __post_init__(self) -> None:
        for switch, allowed in ALLOWED.items():
            value = getattr(self, switch)
            if value not in allowed:
                words = ", ".join(word or "''" for word in allowed)
                raise UserError(f"spectral_node: switch {switch}={value!r} is unknown; choose among {words}")
        for switch, least in (("micro", 0), ("ranks", 1)):
            if getattr(self, switch) < least:
                raise UserError(
                    f"spectral_node: switch {switch}={getattr(self, switch)} is too small; give {least} or more"
                )
