"""Other packages' way to do the same work, each with its solver as its own documentation recommends for a GPU."""

from phasewise_studies.spectral_node.peers.ensemble import cubie
from phasewise_studies.spectral_node.peers.geodesics import diffrax, torch_compile, torchdiffeq_rk4, torchode
from phasewise_studies.spectral_node.peers.training import torchdiffeq_adjoint, torchdiffeq_loss

__all__ = [
    "cubie",
    "diffrax",
    "torch_compile",
    "torchdiffeq_adjoint",
    "torchdiffeq_loss",
    "torchdiffeq_rk4",
    "torchode",
]
