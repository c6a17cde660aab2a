"""Tensors in memory files: written by one process, read by others, into new memory or into what is there."""

import pytest
import torch

from phasewise.tensor_files import make_file, read_tensors, reopen_to_read, write_tensors

TENSORS = {
    "weights": torch.arange(6.0).reshape(2, 3),
    "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "mask": torch.tensor([True, False]),
    "phase": torch.tensor([1 + 2j]),
    "count": torch.tensor(7),
    "none": torch.empty(0, 4),
    "turned": torch.arange(6.0).reshape(2, 3).t(),
}


def are_same(found: dict[str, torch.Tensor]) -> bool:
    return found.keys() == TENSORS.keys() and all(
        found[name].dtype == tensor.dtype and torch.equal(found[name], tensor) for name, tensor in TENSORS.items()
    )


def test_what_is_written_is_read_as_it_was():
    file = make_file("some")
    slots = write_tensors(file, TENSORS, entry=3)
    assert are_same(read_tensors(reopen_to_read(file), slots))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_contents_are_read_into_memory_that_is_there(mode):
    file = make_file("some")
    slots = write_tensors(file, TENSORS)
    with mode():
        before = {name: torch.zeros_like(tensor).contiguous() for name, tensor in TENSORS.items()}
    versions = {name: 0 if tensor.is_inference() else tensor._version for name, tensor in before.items()}
    found = read_tensors(file, slots, into=before)
    assert are_same(found) and all(found[name] is before[name] for name in TENSORS)
    moved = {name for name, tensor in before.items() if not tensor.is_inference() and tensor._version > versions[name]}
    assert moved == (set() if mode is torch.inference_mode else TENSORS.keys() - {"none"})


@pytest.mark.parametrize(
    "other",
    [
        torch.zeros(3, 2),
        torch.zeros(2, 3, dtype=torch.float64),
        torch.zeros(3, 2).t(),
        torch.zeros(2, 6)[:, ::2],
        torch.zeros(1, 3).expand(2, 3),
        torch.nn.Parameter(torch.zeros(2, 3)),
        torch.zeros(2, 3).to_sparse(),
        torch.zeros(2, 3, device="meta"),
    ],
)
def test_memory_that_does_not_fit_is_left_alone(other):
    file = make_file("some")
    slots = write_tensors(file, {"weights": TENSORS["weights"]})
    found = read_tensors(file, slots, into={"weights": other})["weights"]
    assert torch.equal(found, TENSORS["weights"]) and found is not other
    if not other.is_meta:
        assert other.to_dense().count_nonzero() == 0


def test_a_file_that_ends_too_early_is_refused():
    file = make_file("some")
    slots = write_tensors(file, TENSORS)
    with pytest.raises(ValueError, match="the file ends before the tensor does"):
        read_tensors(make_file("empty"), slots)
    with pytest.raises(ValueError, match=r"weights: 20 bytes are no torch.float32 \[2, 3\]"):
        read_tensors(file, [{**slots[0], "bytes": 20}])
