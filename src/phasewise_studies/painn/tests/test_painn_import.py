"""States of schnetpack: what they tell is read, what differs is refused, and files of every ordinary kind are taken."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from phasewise.records.errors import UserError
from phasewise_studies.painn.layout import Sizes
from phasewise_studies.painn.product.schnetpack_state import (
    from_schnetpack,
    known_elements,
    read_offsets,
    read_sizes,
    read_state,
    to_schnetpack,
)
from phasewise_studies.painn.tests.painn_molecules import SMALL, small_weights
from phasewise_studies.painn.tests.painn_states import write_state

SIX = replace(SMALL, cutoff=6.0)


class Offsets(torch.nn.Module):
    """As schnetpack's AddOffsets: both buffers are there, whichever is added."""

    def __init__(self, add_mean: bool = True, is_extensive: bool = True) -> None:
        super().__init__()
        self.add_mean, self.add_atomrefs, self.is_extensive = add_mean, True, is_extensive
        self.register_buffer("mean", torch.tensor([-2.5]))
        self.register_buffer("atomref", torch.ones(100))


class Model(torch.nn.Module):
    """A module of classes that torch.load does not know."""

    def __init__(self, offsets: Offsets) -> None:
        super().__init__()
        self.postprocessors = torch.nn.ModuleList([offsets])


@pytest.mark.parametrize("sizes", [SIX, replace(SIX, basis="bessel", cutoff=5.2), replace(SMALL, layers=2, radial=12)])
def test_the_state_tells_cutoff_and_basis(sizes: Sizes) -> None:
    state = write_state(sizes)
    assert read_sizes(state) == sizes
    assert read_sizes(state, sizes.cutoff, sizes.basis) == sizes


def test_a_flag_that_differs_from_the_state_is_refused() -> None:
    state = write_state(SIX)
    with pytest.raises(UserError, match=r"5 A was given .* has 6 A"):
        read_sizes(state, cutoff=5.0)
    with pytest.raises(UserError, match=r"'bessel' was given .* has 'gaussian'"):
        read_sizes(state, basis="bessel")
    with pytest.raises(UserError, match="5 A was given"):
        from_schnetpack(state, SMALL)


def test_a_state_without_buffers_needs_the_flags() -> None:
    state = to_schnetpack(small_weights(), SMALL)
    assert read_sizes(state, 5.0, "gaussian") == SMALL
    with pytest.raises(UserError, match="--cutoff"):
        read_sizes(state)
    with pytest.raises(UserError, match="--basis"):
        read_sizes(state, 5.0)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("representation.radial_basis.offsets", torch.linspace(0.8, 6.0, 20), "offsets .0.8 to 6. are not"),
        ("representation.radial_basis.widths", torch.full((20,), 0.5), "widths"),
        ("representation.radial_basis.freqs", torch.ones(20), "freqs, offsets, widths"),
        ("representation.cutoff_fn.eps", torch.tensor([1e-7]), "CosineCutoff"),
        ("representation.filter_net.weight", torch.zeros(48, 20), "shared_filters=False"),
    ],
)
def test_what_our_model_lacks_is_refused(name: str, value: Tensor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_sizes({**write_state(SIX), name: value})


def test_something_else_than_painn_is_refused() -> None:
    with pytest.raises(UserError, match="filter_net"):
        read_sizes({"layer.weight": torch.zeros(3, 3)})


def test_the_offsets_of_the_state_are_the_reference_energies() -> None:
    expected = torch.linspace(-1000, 0, 100, dtype=torch.float64) - 2.5
    assert torch.equal(from_schnetpack(write_state(SIX), SIX)["atomref"], expected)
    given = torch.ones(100)
    assert torch.equal(from_schnetpack(write_state(SIX), SIX, given)["atomref"], given.double())


@pytest.mark.parametrize(
    ("name", "value"), [("postprocessors.1.mean", torch.ones(2)), ("postprocessors.2.scale", torch.tensor([0.04]))]
)
def test_offsets_that_cannot_be_kept_are_refused(name: str, value: Tensor) -> None:
    with pytest.raises(UserError, match=name):
        read_offsets({name: value})


def test_elements_are_those_of_the_embedding() -> None:
    assert known_elements(write_state(SIX)) == range(1, 100)
    assert known_elements({"representation.embedding.weight": torch.zeros(10, 4)}) == range(1, 10)


def test_a_checkpoint_of_lightning_is_a_state_with_a_prefix(tmp_path: Path) -> None:
    state = write_state(SIX)
    task = {f"model.{name}": tensor for name, tensor in state.items()} | {"outputs.0.metrics.mae": torch.ones(1)}
    torch.save({"state_dict": task, "epoch": 3, "hyper_parameters": {}}, tmp_path / "last.ckpt")
    found = read_state(tmp_path / "last.ckpt")
    assert found.keys() == state.keys()
    assert read_sizes(found) == SIX


def test_a_pickled_module_needs_trust_and_keeps_only_the_offsets_that_it_adds(tmp_path: Path) -> None:
    torch.save(Model(Offsets(add_mean=False)), tmp_path / "best_model")
    with pytest.raises(UserError, match="--trust"):
        read_state(tmp_path / "best_model")
    found = read_state(tmp_path / "best_model", trust=True)
    assert torch.equal(read_offsets(found), torch.ones(100, dtype=torch.float64))


def test_a_module_with_offsets_of_a_mean_over_atoms_is_refused(tmp_path: Path) -> None:
    torch.save(Model(Offsets(is_extensive=False)), tmp_path / "best_model")
    with pytest.raises(UserError, match="mean over atoms"):
        read_state(tmp_path / "best_model", trust=True)


def test_files_of_another_kind_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file"):
        read_state(tmp_path / "nowhere")
    (tmp_path / "text").write_text("not a model")
    for trust in (False, True):
        with pytest.raises(UserError, match="text: "):
            read_state(tmp_path / "text", trust)
    torch.save([1, 2], tmp_path / "list")
    with pytest.raises(UserError, match="holds a list"):
        read_state(tmp_path / "list")
