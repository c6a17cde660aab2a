"""Other ways to the same energies and forces, with the same weights; and other packages' neighbour lists.

- schnetpack's PaiNN (as it comes, with index_select, compiled), all systems in one batch, forces by its own `Forces` module; its list is given (made outside the step, as by
  its data loader), which is in its favour.
- the analytic module under torch.compile, list included: what the compiler makes of the same algorithm.
- the same model in JAX under jit, forces by jax.grad; its list is given too.
- the lists of vesin, torch-nl and nvalchemi-toolkit-ops, alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from phasewise import Program, Shape
from phasewise_studies.painn import reference
from phasewise_studies.painn.data import as_atoms
from phasewise_studies.painn.layout import Sizes, Weights
from phasewise_studies.painn.neighbours import exact, in_places, plan_list
from phasewise_studies.painn.peers.jax_energy import make_jax_energy
from phasewise_studies.painn.peers.neighbour_lists import nvalchemi_list, torch_nl_list, vesin_list
from phasewise_studies.painn.product.schnetpack_state import to_schnetpack
from phasewise_studies.painn.program import build, to_device
from phasewise_studies.painn.switches import Switches
from phasewise_studies.painn.weights import choose_weights

Batch = Mapping[str, Tensor]
__all__ = [
    "compiled_analytic", "jax_jit", "nvalchemi_list", "schnetpack", "schnetpack_compiled", "schnetpack_select", "torch_nl_list", "vesin_list",
]  # fmt: skip


def schnetpack(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """schnetpack as it comes, in float32."""
    return _run_schnetpack(shape, device)


def schnetpack_select(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """schnetpack with its one slow line mended: rows of neighbours by index_select."""
    from schnetpack.representation import painn

    # `x[idx_j]` of a subclass goes through index_select; the package's source stays as it is
    original = painn.PaiNNInteraction.forward

    def forward(
        self: Any, q: Tensor, mu: Tensor, w: Tensor, direction: Tensor, i: Tensor, j: Tensor, atoms: int
    ) -> Any:
        x = self.interatomic_context_net(q)
        x = w * x.index_select(0, j)
        dq, dmu_r, dmu_mu = x.split(self.n_atom_basis, dim=-1)
        dmu = dmu_r * direction[..., None] + dmu_mu * mu.index_select(0, j)
        return q.index_add(0, i, dq), mu.index_add(0, i, dmu)

    painn.PaiNNInteraction.forward = forward
    program = _run_schnetpack(shape, device)

    def close() -> None:
        painn.PaiNNInteraction.forward = original

    return Program(step=program.step, place=program.place, close=close)


def schnetpack_compiled(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """schnetpack with its representation under torch.compile, sizes dynamic: the number of edges differs between frames."""
    return _run_schnetpack(shape, device, compiled=True)


def compiled_analytic(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """Our analytic model without kernels of ours: compiled, with a list in plain PyTorch, all in one CUDA graph."""
    switches = Switches(
        batched=True, gather="select", places=True, forces="analytic", pruned=True, compiled=True, graph=True
    )
    return build(switches, dict(inputs), case, shape, device)


def jax_jit(inputs: Batch, case: str, shape: Shape, device: torch.device) -> Program:
    """The plain model in JAX, compiled; places for edges as many as our lists have."""
    import jax

    weights, sizes = choose_weights(shape.features)
    pull_of = jax.value_and_grad(make_jax_energy(weights, sizes), has_aux=True)

    @partial(jax.jit, static_argnames="systems")
    def call(r: Any, i: Any, j: Any, numbers: Any, system: Any, systems: int) -> tuple[Any, Any]:
        (_, per_atom), pull = pull_of(r, i, j, numbers)
        forces = jax.ops.segment_sum(pull, i, len(numbers)) - jax.ops.segment_sum(pull, j, len(numbers))
        return jax.ops.segment_sum(per_atom, system, systems), forces

    atomref = weights["atomref"]
    pending: list[Any] = []
    target = jax.devices("gpu" if device.type == "cuda" else "cpu")[0]

    def place(batch: Batch) -> tuple[Any, ...]:
        atoms = as_atoms(to_device(dict(batch), torch.device("cpu")))
        edges = _padded_list(atoms, sizes)
        reference_energy = atomref[batch["numbers"]]
        arrays = (edges.r, edges.i, edges.j, atoms.numbers, atoms.system)
        placed = tuple(jax.device_put(tensor.numpy(), target) for tensor in arrays)
        systems = len(batch["start"]) - 1
        offset = reference.sum_systems(reference_energy, atoms.system, systems)
        return (*placed, systems, offset)

    def step(placed: tuple[Any, ...]) -> Any:
        *arrays, systems, offset = placed
        energy, forces = call(*arrays, systems=systems)
        pending[:] = [energy, forces]
        return energy, forces, offset

    def sync() -> None:
        for array in pending:
            array.block_until_ready()

    def outputs(raw: Any) -> dict[str, Tensor]:
        import numpy

        energy, forces, offset = raw
        return {
            "energy": torch.from_numpy(numpy.array(energy)).double() + offset,
            "forces": torch.from_numpy(numpy.array(forces)).double(),
        }

    return Program(step=step, place=place, outputs=outputs, sync=sync)


def make_schnetpack(weights: Weights, sizes: Sizes, device: torch.device) -> Any:
    """schnetpack's NeuralNetworkPotential with our weights, float32."""
    from schnetpack import properties
    from schnetpack.atomistic import Atomwise, Forces, PairwiseDistances
    from schnetpack.model import NeuralNetworkPotential
    from schnetpack.nn import BesselRBF, CosineCutoff, GaussianRBF
    from schnetpack.representation import PaiNN

    radial = (GaussianRBF if sizes.basis == "gaussian" else BesselRBF)(n_rbf=sizes.radial, cutoff=sizes.cutoff)
    representation = PaiNN(
        n_atom_basis=sizes.features, n_interactions=sizes.layers, radial_basis=radial, cutoff_fn=CosineCutoff(sizes.cutoff),
        epsilon=sizes.epsilon,
    )  # fmt: skip
    model = NeuralNetworkPotential(
        representation, input_modules=[PairwiseDistances()],
        output_modules=[Atomwise(n_in=sizes.features, output_key=properties.energy), Forces()],
    )  # fmt: skip
    state = model.state_dict()
    state |= {name: tensor.float() for name, tensor in to_schnetpack(weights, sizes).items()}
    # an embedding for another number of elements keeps its own rows beyond ours
    rows = len(model.state_dict()["representation.embedding.weight"])
    state["representation.embedding.weight"] = _fit_rows(weights["embedding"].float(), rows)
    model.load_state_dict(state)
    return model.to(device).eval()


def centre_systems(batch: Batch) -> dict[str, Tensor]:
    """The batch with every system moved so that the mean of its positions, float64 in A, is the origin."""
    sizes = batch["start"].diff()
    centres = torch.zeros(len(sizes), 3, dtype=torch.float64).index_add(0, batch["system"], batch["positions"])
    return {**batch, "positions": batch["positions"] - (centres / sizes[:, None])[batch["system"]]}


def _run_schnetpack(shape: Shape, device: torch.device, *, compiled: bool = False) -> Program:
    from schnetpack import properties

    weights, sizes = choose_weights(shape.features)
    model = make_schnetpack(weights, sizes, device)
    if compiled:
        model.representation = torch.compile(model.representation, dynamic=True)
    atomref = weights["atomref"].to(device)

    def place(batch: Batch) -> dict[str, Tensor]:
        # as in its own data pipelines: it casts positions to float32, which is finest about the origin
        atoms = as_atoms(to_device(centre_systems(batch), device))
        edges = exact(atoms, plan_list(atoms, sizes.cutoff))
        i, j = edges.i.long(), edges.j.long()
        r = atoms.positions[j] - atoms.positions[i]
        return {
            properties.Z: atoms.numbers.long(), properties.R: atoms.positions.float(), properties.idx_i: i,
            properties.idx_j: j, properties.offsets: (edges.r.double() - r).float(), properties.idx_m: atoms.system.long(),
            properties.n_atoms: (atoms.start[1:] - atoms.start[:-1]).long(),
        }  # fmt: skip

    def step(placed: dict[str, Tensor]) -> dict[str, Tensor]:
        # it writes its results into the dict that it is given
        found = model({name: tensor.detach() for name, tensor in placed.items()})
        z, m = placed[properties.Z], placed[properties.idx_m]
        offset = reference.sum_systems(atomref[z], m, len(placed[properties.n_atoms]))
        return {
            "energy": found[properties.energy].detach().double() + offset,
            "forces": found[properties.forces].detach(),
        }

    return Program(step=step, place=place)


def _padded_list(atoms: Any, sizes: Sizes) -> Any:
    return in_places(atoms, plan_list(atoms, sizes.cutoff))


def _fit_rows(embedding: Tensor, rows: int) -> Tensor:
    return torch.nn.functional.pad(embedding[:rows], (0, 0, 0, max(0, rows - len(embedding))))
