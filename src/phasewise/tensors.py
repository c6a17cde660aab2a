"""Named tensors and structures of tensors: walk, clone, overwrite and compare them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch

# leaves that carry their whole value in the structure itself
PLAIN = (type(None), bool, int, float, str, torch.dtype, torch.device)
# elements that are compared at a time: they stay in the cache, and PyTorch works on fewer than 32,768 with one thread. Several would wait for
# each other for longer than they work, and on a busy machine for as long as others take their turns
CHUNK = 32_000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How a tensor differs from its reference; `problem` is a sentence where numbers can't say it."""

    elements: int
    max_abs: float | None = None
    # ||x - ref|| / ||ref||, over elements that are finite in both; None where ||ref|| is 0 and x is not
    relative: float | None = None
    # root of the mean of |x - ref|^2
    rms: float = 0.0
    # largest |x - ref| / (atol + rtol |ref|); None where it is not a finite number
    worst: float | None = None
    where: tuple[int, ...] = ()
    problem: str = ""

    @property
    def within(self) -> bool:
        return not self.problem and self.worst is not None and self.worst <= 1


def walk(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf below `value` with its path, through mappings, sequences and dataclasses; other objects are leaves."""
    if isinstance(value, Mapping):
        for key in value:
            yield from walk(value[key], f"{path}/{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from walk(item, f"{path}/{index}")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield from walk(getattr(value, field.name), f"{path}/{field.name}")
    else:
        yield path, value


def read_plainly(value: dict[Any, Any] | list[Any] | tuple[Any, ...]) -> list[tuple[Any, Any]]:
    """What a container holds, by key or index, past the methods of a subclass, which may compute when it is read."""
    if isinstance(value, dict):
        return list(dict.items(value))
    return list(enumerate(list.__iter__(value) if isinstance(value, list) else tuple.__iter__(value)))


def tensors_in(value: Any) -> dict[str, torch.Tensor]:
    """The tensors below `value`, by path."""
    return {path: leaf for path, leaf in walk(value) if isinstance(leaf, torch.Tensor)}


def opaque_in(value: Any) -> list[str]:
    """Paths of leaves that are neither tensors nor plain values."""
    return [path for path, leaf in walk(value) if not isinstance(leaf, (torch.Tensor, *PLAIN))]


def find_problem(value: Any) -> str:
    """Why `value` is no plain dense tensor, as "is ..."; "" if it is one. A subclass may compute when it is read."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter):
        return f"is a {type(value).__name__}, no plain tensor"
    if replaced := sorted(name for name in vars(value) if hasattr(torch.Tensor, name)):
        return f"has {', '.join(replaced)} replaced"
    if value.layout != torch.strided or value.is_quantized or value.is_meta:
        return "is on no device" if value.is_meta else f"is {value.layout}, not dense"
    return ""


def clone(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Detached copies on the same device."""
    return {name: tensor.detach().clone() for name, tensor in tensors.items()}


def overwrite(destination: Any, source: Any) -> str:
    """Copy the tensors of `source` into the memory of those of `destination`; "" or the reason why that can't be done."""
    opaque = opaque_in(destination)
    if opaque:
        return f"the batch holds an object at {opaque[0] or 'its top'} that can't be copied into"
    into, out_of = dict(walk(destination)), dict(walk(source))
    if into.keys() != out_of.keys():
        return "two batches have different structures"
    if not any(isinstance(leaf, torch.Tensor) for leaf in into.values()):
        return "the batch holds no tensors"
    for path, leaf in into.items():
        other = out_of[path]
        if not isinstance(leaf, torch.Tensor):
            if leaf != other:
                return f"two batches differ in the plain value at {path}"
        elif leaf.shape != other.shape or leaf.dtype != other.dtype:
            return f"two batches differ in shape or dtype at {path}"
    # inference mode may write to inference tensors and to leaves that require gradients
    with torch.inference_mode():
        for path, leaf in into.items():
            if isinstance(leaf, torch.Tensor) and not overlaps(leaf, out_of[path]):
                leaf.copy_(out_of[path])
    return ""


def poison(tensor: torch.Tensor) -> None:
    """Overwrite a floating or complex tensor with NaN, in place."""
    # an expanded dimension is one element in memory, and in-place writes to it are refused
    sizes = [1 if stride == 0 else size for size, stride in zip(tensor.shape, tensor.stride(), strict=True)]
    with torch.inference_mode():
        tensor.detach().as_strided(sizes, tensor.stride()).fill_(float("nan"))


def same_bits(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Equal in shape, dtype and every bit, NaN payloads included."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    mine, theirs = _bytes(left), _bytes(right)
    if all(flat.numel() % 8 == 0 and flat.storage_offset() % 8 == 0 for flat in (mine, theirs)):
        # eight bytes at a time take a sixth of it
        mine, theirs = mine.view(torch.int64), theirs.view(torch.int64)
    return torch.equal(mine, theirs)


def all_same_bits(left: Mapping[str, torch.Tensor], right: Mapping[str, torch.Tensor]) -> bool:
    """The same names, and the same bits under each."""
    return left.keys() == right.keys() and all(same_bits(left[name], right[name]) for name in left)


def overlaps(left: torch.Tensor, right: torch.Tensor) -> bool:
    """True if writing one may change the other: the spans of bytes they cover meet."""
    if left.device != right.device or left.layout != torch.strided or right.layout != torch.strided:
        return False
    low, high = _span(left)
    other_low, other_high = _span(right)
    return low < other_high and other_low < high


def category(tensor: torch.Tensor) -> str:
    """bool, integer, float or complex."""
    if tensor.dtype == torch.bool:
        return "bool"
    if tensor.dtype.is_complex:
        return "complex"
    return "float" if tensor.dtype.is_floating_point else "integer"


def difference(value: torch.Tensor, reference: torch.Tensor, *, rtol: float, atol: float) -> Difference:
    """Compare `value` with `reference` in float64 (complex128).

    Integers and booleans must be equal; NaN must stand in the same places, infinities must be equal.
    """
    value, reference = _plain(value), _plain(reference)
    elements = reference.numel()
    if value.shape != reference.shape:
        return Difference(
            elements=elements, problem=f"shape is {tuple(value.shape)}, the reference has {tuple(reference.shape)}"
        )
    if category(value) != category(reference):
        return Difference(
            elements=elements,
            problem=f"dtype is {_name(value)}, the reference has {_name(reference)}: another kind of number",
        )
    if elements == 0:
        return Difference(elements=0, max_abs=0.0, relative=0.0, worst=0.0)
    if category(reference) in ("bool", "integer"):
        return _exact(value, reference)
    wide = torch.complex128 if reference.is_complex() else torch.float64
    index, worst, largest, norm, error_norm = 0, 0.0, 0.0, 0.0, 0.0
    is_finite = True
    for start, mine, theirs in _chunks(value, reference, wide):
        error, size = (mine - theirs).abs(), theirs.abs()
        if not _is_finite(mine) or not _is_finite(theirs):
            if is_finite and (problem := _non_finite(value, reference, wide)):
                # no number says how far a nan is off
                return Difference(elements=elements, problem=problem)
            is_finite = False
            finite = torch.isfinite(mine) & torch.isfinite(theirs)
            error, size = torch.where(finite, error, 0.0), torch.where(finite, size, 0.0)
        # 0 / 0 is no error; x / 0 is infinitely many allowances
        ratio = torch.where(error == 0, 0.0, error / (atol + rtol * size))
        if (highest := float(ratio.max())) > worst:
            worst, index = highest, start + int(ratio.argmax())
        largest = max(largest, float(error.max()))
        norm = math.hypot(norm, float(torch.linalg.vector_norm(size)))
        error_norm = math.hypot(error_norm, float(torch.linalg.vector_norm(error)))
    return Difference(
        elements=elements,
        max_abs=_number(largest),
        relative=0.0 if error_norm == 0 else (error_norm / norm if norm > 0 else None),
        rms=error_norm / elements**0.5,
        worst=_number(worst),
        where=place(index, tuple(reference.shape)),
    )


def place(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Coordinates of a flat index, in row-major order."""
    coordinates = []
    for size in reversed(shape):
        coordinates.append(index % size)
        index //= size
    return tuple(reversed(coordinates))


def _exact(value: torch.Tensor, reference: torch.Tensor) -> Difference:
    unequal = value != reference
    count = int(unequal.sum())
    if count == 0:
        return Difference(elements=reference.numel(), max_abs=0.0, relative=0.0, worst=0.0)
    where = place(int(unequal.flatten().to(torch.int8).argmax()), tuple(reference.shape))
    return Difference(
        elements=reference.numel(),
        max_abs=float((value.to(torch.float64) - reference.to(torch.float64)).abs().max()),
        where=where,
        problem=f"{count} of {reference.numel()} values are unequal, first at {list(where)}: "
        f"{value[where].item()} for {reference[where].item()}; {category(reference)} values must be equal",
    )


def _chunks(
    value: torch.Tensor, reference: torch.Tensor, dtype: torch.dtype
) -> Iterator[tuple[int, torch.Tensor, torch.Tensor]]:
    """Parts of two tensors of one shape, with the flat index that each begins at: what is computed of it stays in the cache."""
    mine, theirs = value.reshape(-1), reference.reshape(-1)
    for start in range(0, mine.numel(), CHUNK):
        part = slice(start, start + CHUNK)
        yield start, mine[part].to(dtype), theirs[part].to(dtype)


def _is_finite(tensor: torch.Tensor) -> bool:
    """False if one of its values is not, perhaps also if their sum is not: far quicker than to ask each."""
    return math.isfinite(abs(tensor.sum().item()))


def _non_finite(value: torch.Tensor, reference: torch.Tensor, wide: torch.dtype) -> str:
    count, first = 0, 0
    for start, mine, theirs in _chunks(value, reference, wide):
        if _is_finite(mine) and _is_finite(theirs):
            continue
        wrong = torch.isnan(mine) != torch.isnan(theirs)
        infinite = (torch.isinf(mine) | torch.isinf(theirs)) & ~torch.isnan(mine) & ~torch.isnan(theirs)
        wrong |= infinite & (mine != theirs)
        if count == 0:
            first = start + int(wrong.to(torch.int8).argmax())
        count += int(wrong.sum())
    if count == 0:
        return ""
    where = place(first, tuple(reference.shape))
    return (
        f"{count} of {reference.numel()} values are not finite where the reference is, or the reverse, "
        f"first at {list(where)}: {value[where].item()} for {reference[where].item()}"
    )


def count_bytes(values: Iterable[Any]) -> int:
    """Of the elements of the tensors among them."""
    return sum(each.numel() * each.element_size() for each in values if isinstance(each, torch.Tensor))


def _number(value: float) -> float | None:
    return value if abs(value) < float("inf") else None


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().cpu()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    if tensor.layout != torch.strided:
        tensor = tensor.to_dense()
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.numel() == 0:
        return 0, 0
    last = sum((size - 1) * abs(stride) for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    start = tensor.data_ptr()
    return start, start + (last + 1) * tensor.element_size()


def _name(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")
