from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from phasewise.export.call import describe, flatten, name_inputs, named_leaves, to_arrays, write_arrays
from phasewise.export.capture import capture, complex_values, varying_sizes
from phasewise.model.workload import Unsupported


class Sum(torch.nn.Module):
    """Adds a weighted pair, whichever way it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.tensor(2.0))
        self.dropout = torch.nn.Dropout(0.9)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return self.dropout(a + self.weight * b)


A, B = torch.ones(3), torch.full((3,), 5.0)


@pytest.mark.parametrize("placed", [{"b": B, "a": A}, (A, B), [A, B]])
def test_a_module_is_called_with_the_placed_batch_by_name_or_by_position(placed: object) -> None:
    flat = flatten(Sum(), placed)
    (result,) = flat(*name_inputs(placed).values())
    assert result.tolist() == [11.0] * 3
    assert not result.requires_grad


def test_inputs_are_named_in_the_order_of_the_batch() -> None:
    assert list(name_inputs({"b": B, "a": A})) == ["b", "a"]
    assert list(name_inputs((A, B))) == ["input_0", "input_1"]
    assert list(name_inputs(A)) == ["input"]


def test_a_compiled_module_is_exported_as_what_it_was_compiled_from() -> None:
    module = Sum()
    assert flatten(torch.compile(module), (A, B)).module is module


@pytest.mark.parametrize(
    ("placed", "message"),
    [
        ({"a": A, "n": 3}, "holds a int at 'n'"),
        ((A, None), "holds a NoneType at 'input_1'"),
        (3, "the placed batch is a int"),
    ],
)
def test_batches_of_other_things_than_tensors_are_unsupported(placed: object, message: str) -> None:
    with pytest.raises(Unsupported, match=message):
        name_inputs(placed)


def test_nested_results_have_flat_names_and_only_tensors() -> None:
    result = {"energy": A, "layers": [B, {"last": A}], "nothing": None}
    assert [name for name, _ in named_leaves(result)] == ["energy", "layers_0", "layers_1_last"]
    assert [name for name, _ in named_leaves((A, B))] == ["output_0", "output_1"]
    with pytest.raises(Unsupported, match="returns a float at 'loss'"):
        list(named_leaves({"loss": 0.5}))


def test_signatures_mark_sizes_that_vary() -> None:
    first, second = torch.rand(4, 3), torch.rand(5, 3)
    assert describe({"x": first, "n": torch.tensor(1)}) == {"x": "float32[4, 3]", "n": "int64[]"}
    assert describe({"x": first}, [{"x": second}]) == {"x": "float32[*, 3]"}
    assert [list(axes) for axes in varying_sizes([(first, first), (second, first)])] == [[0], []]


def test_arrays_of_any_name_come_back_without_pickle(tmp_path: Path) -> None:
    tensors = {"file": torch.rand(2).bfloat16(), "allow_pickle": torch.tensor(3), "grad/weight": torch.zeros(0, 2)}
    write_arrays(tmp_path / "a.npz", to_arrays(tensors))
    with np.load(tmp_path / "a.npz", allow_pickle=False) as found:
        assert set(found) == set(tensors)
        assert found["file"].dtype == np.float32 and found["grad/weight"].shape == (0, 2)
        assert np.array_equal(found["file"], tensors["file"].float().numpy())
    with pytest.raises(ValueError, match="Object arrays cannot be saved"):
        write_arrays(tmp_path / "b.npz", {"x": np.array([object()])})


def test_complex_values_of_a_graph_are_named() -> None:
    class Spectrum(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.fft.rfft(x).abs()

    exported = capture(flatten(Spectrum(), A), [(A,)])
    assert len(complex_values(exported)) == 1
    assert complex_values(capture(flatten(Sum(), (A, B)), [(A, B)])) == ()
