"""Weights that travel to schnetpack and back, and peers that give what the reference gives."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
import torch

from phasewise import Shape
from phasewise.records.errors import UserError
from phasewise_studies.painn import peers, program, reference
from phasewise_studies.painn.data import as_atoms
from phasewise_studies.painn.product.schnetpack_state import from_schnetpack, schnetpack_names, to_schnetpack
from phasewise_studies.painn.tests.painn_molecules import SMALL, draw_molecule, join, small_weights
from phasewise_studies.painn.weights import check_weights, load_model, save_model

SHAPE = Shape(system="ethanol", count=2, features=64, task="forces")
LIST = Shape(system="clusters", count=2, features=64, task="list")
# thinner than two cutoffs: neighbours in images of the box
BOX = Shape(system="water", repeat="3x3x3", features=64, task="list")


def test_every_weight_goes_to_a_name_of_its_own_and_comes_back() -> None:
    weights = small_weights()
    state = to_schnetpack(weights, SMALL)
    assert len(state) == len(weights) - 1
    assert state["representation.interactions.2.interatomic_context_net.1.weight"].shape == (48, 16)
    back = from_schnetpack(state, SMALL, atomref=weights["atomref"])
    assert all(torch.equal(back[name], weights[name]) for name in weights)


def test_what_schnetpack_shares_is_refused_with_the_name_that_is_missing() -> None:
    state = to_schnetpack(small_weights(), SMALL)
    del state["representation.mixing.1.mu_channel_mix.weight"]
    with pytest.raises(UserError, match="mu_channel_mix"):
        from_schnetpack(state, SMALL)
    wrong = {**small_weights(), "embedding": torch.zeros(3, 3)}
    with pytest.raises(UserError, match="embedding"):
        check_weights(wrong, SMALL, "here")


def test_a_checkpoint_comes_back_with_its_sizes_and_reference_energies(tmp_path) -> None:
    weights, sizes = small_weights(), replace(SMALL, basis="bessel")
    save_model(tmp_path / "model", weights, sizes, {"teacher": "none"})
    found, again = load_model(tmp_path / "model")
    assert again == sizes
    assert torch.equal(found["atomref"], weights["atomref"])
    assert torch.allclose(found["filter.weight"], weights["filter.weight"], rtol=1e-6)


def test_systems_are_centred_each_for_itself_and_the_batch_is_left_alone() -> None:
    batch = program.make_inputs("batch-1024", Shape(system="drugs", count=3, features=64, task="forces"), 0)
    far = {**batch, "positions": batch["positions"] + 100.0 + batch["system"][:, None]}
    found = peers.centre_systems(far)
    means = [part.mean(0) for part in found["positions"].split(batch["start"].diff().tolist())]
    assert torch.stack(means).abs().max() < 1e-12
    # nothing but a shift, and the same one for all atoms of a system
    for first, last in itertools.pairwise(batch["start"].tolist()):
        shift = found["positions"][first:last] - batch["positions"][first:last]
        assert (shift - shift[0]).abs().max() < 1e-12
    assert torch.equal(far["positions"], batch["positions"] + 100.0 + batch["system"][:, None])


def test_schnetpack_gives_the_same_forces_to_systems_far_from_the_origin() -> None:
    pytest.importorskip("schnetpack", reason="needs the package schnetpack")
    batch = program.make_inputs("batch-4", SHAPE, 0)
    far = {**batch, "positions": batch["positions"] + 1000.0}
    built = peers.schnetpack(far, "batch-4", SHAPE, torch.device("cpu"))
    found = built.step(built.place(far))["forces"].double()
    expected = program.reference(batch, "batch-4", SHAPE).step(batch)["forces"]
    assert (found - expected).abs().max() < 2e-5


@pytest.mark.parametrize("basis", ["gaussian", "bessel"])
def test_schnetpack_gives_the_same_energy_and_forces_with_the_same_weights(basis: str) -> None:
    pytest.importorskip("schnetpack", reason="needs the package schnetpack")
    from schnetpack import properties as keys

    sizes, weights = replace(SMALL, basis=basis), small_weights()
    atoms = join([draw_molecule(9, 1), draw_molecule(5, 2)])
    i, j, _ = reference.find_neighbours(atoms, 5.0)
    model = peers.make_schnetpack(weights, sizes, torch.device("cpu"))
    found = model(
        {
            keys.Z: atoms.numbers.long(), keys.R: atoms.positions.float(), keys.idx_i: i, keys.idx_j: j,
            keys.offsets: torch.zeros(len(i), 3), keys.idx_m: atoms.system.long(), keys.n_atoms: torch.tensor([9, 5]),
        }
    )  # fmt: skip
    weights["atomref"] = torch.zeros(100, dtype=torch.float64)
    energy, forces = reference.energy_and_forces(atoms, i, j, None, weights, sizes)
    assert torch.allclose(found[keys.energy].double(), energy, atol=1e-5)
    assert torch.allclose(found[keys.forces].double(), forces, atol=1e-5)
    # and its state comes back as ours
    back = from_schnetpack(model.state_dict(), sizes)
    assert torch.allclose(back["filter.weight"], weights["filter.weight"], atol=1e-7)


@pytest.mark.parametrize(
    ("name", "package", "shape"),
    [
        ("schnetpack", "schnetpack", SHAPE), ("schnetpack_select", "schnetpack", SHAPE), ("jax_jit", "jax", SHAPE),
        ("vesin_list", "vesin", LIST), ("torch_nl_list", "torch_nl", LIST),
        ("vesin_list", "vesin", BOX), ("torch_nl_list", "torch_nl", BOX),
        ("nvalchemi_list", "nvalchemiops", LIST), ("nvalchemi_list", "nvalchemiops", BOX),
    ],
)  # fmt: skip
def test_a_peer_gives_what_the_reference_gives(name: str, package: str, shape: Shape) -> None:
    pytest.importorskip(package, reason=f"needs the package {package}")
    inputs = program.make_inputs("x", shape, 3)
    expected = program.reference(inputs, "x", shape).step(inputs)
    peer = getattr(peers, name)(inputs, "x", shape, torch.device("cpu"))
    raw = peer.step(peer.place(inputs))
    if peer.sync:
        peer.sync()
    found = program.audit(inputs, peer.outputs(raw) if peer.outputs else raw, "x", shape)
    peer.close()
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        assert torch.allclose(found[key].double(), value.double(), atol=2e-4, rtol=1e-5), key


def test_a_periodic_system_reaches_schnetpack_with_its_images() -> None:
    pytest.importorskip("schnetpack", reason="needs the package schnetpack")
    shape = Shape(system="water", repeat="2x2x2", features=64, task="forces")
    inputs = program.make_inputs("x", shape, 3)
    expected = program.reference(inputs, "x", shape).step(inputs)
    peer = peers.schnetpack(inputs, "x", shape, torch.device("cpu"))
    found = peer.step(peer.place(inputs))
    assert torch.allclose(found["forces"].double(), expected["forces"], atol=2e-5)
    assert as_atoms(inputs).cell is not None
    assert len(schnetpack_names(SMALL)) == len(small_weights()) - 1
