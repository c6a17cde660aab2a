"""States of schnetpack's models without schnetpack."""

from __future__ import annotations

import torch
from torch import Tensor

from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.product.schnetpack_state import to_schnetpack
from phasewise_studies.painn.tests.painn_molecules import small_weights


def write_state(sizes: Sizes) -> dict[str, Tensor]:
    """The state that schnetpack 2.2 has of a model of these sizes with `AddOffsets`."""
    state = to_schnetpack(small_weights(sizes), sizes)
    state["representation.cutoff_fn.cutoff"] = torch.tensor([sizes.cutoff])
    if sizes.basis == "gaussian":
        offsets = torch.linspace(0, sizes.cutoff, sizes.radial)
        state["representation.radial_basis.offsets"] = offsets
        state["representation.radial_basis.widths"] = (offsets[1] - offsets[0]) * torch.ones_like(offsets)
    else:
        state["representation.radial_basis.freqs"] = torch.arange(1, sizes.radial + 1) * torch.pi / sizes.cutoff
    state["postprocessors.1.mean"] = torch.tensor([-2.5], dtype=torch.float64)
    state["postprocessors.1.atomref"] = torch.linspace(-1000, 0, 100, dtype=torch.float64)
    return state
