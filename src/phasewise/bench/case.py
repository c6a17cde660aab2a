"""One case of one variant, built on its device and ready to step."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from phasewise.bench.functions import Batch, Functions, load_functions, load_peer, make_switches
from phasewise.bench.same_weights import build_alike
from phasewise.model.data import use_data_folder
from phasewise.model.layout import Layout
from phasewise.model.parse import parse
from phasewise.model.program import Program
from phasewise.model.workload import Shape, Unsupported, Work
from phasewise.records.plan import PlannedCase, VariantPlan
from phasewise.tensors import count_bytes, read_plainly

# a ring longer than this many bytes is cut to two batches
RING_BYTES = 1 << 30

# the batch that a program is built from, and its ring
Given = tuple[Batch, Sequence[Batch]]


@dataclass(frozen=True, kw_only=True)
class BuiltCase:
    """A built program with its ring of canonical batches; every callable of `Program` has its default filled in."""

    plan: VariantPlan
    planned: PlannedCase
    functions: Functions
    program: Program
    device: torch.device
    # canonical batches; the program was built from `inputs`, by default the first of them
    batches: tuple[Batch, ...]
    shape: Shape
    work: Work
    # named tensors right after the build, copied; empty where the program has no state
    initial: Mapping[str, torch.Tensor]

    def place(self, index: int) -> Any:
        """Batch `index` of the ring in the variant's layout."""
        return _required(self.program.place)(self.batches[index % len(self.batches)])

    def step(self, placed: Any) -> Any:
        return self.program.step(placed)

    def outputs(self, raw: Any) -> dict[str, torch.Tensor]:
        """Canonical outputs of a raw result, detached copies on the CPU."""
        return copy_to_cpu(_required(self.program.outputs)(raw))

    def state(self) -> dict[str, torch.Tensor]:
        """Canonical state, copied to the CPU."""
        return {} if self.program.state is None else copy_to_cpu(self.program.state())

    def restore(self) -> None:
        """Load the state that the program was built with."""
        if self.program.load is not None:
            self.program.load(self.initial)

    def synchronize(self) -> None:
        synchronize(self.program, self.device)


def build_case(
    plan: VariantPlan,
    case: str,
    root: Path,
    *,
    ring: int = 4,
    shape: Shape | None = None,
    given: Given | None = None,
) -> BuiltCase:
    """Build variant `plan` for `case` on the plan's device. `shape` replaces the planned one; `given`, what it is built from and its
    ring of batches, replaces those of consecutive seeds.

    Raises:
        Unsupported: `build` says that this variant cannot be built here.
    """
    use_data_folder(Layout(root).data(plan.workload))
    functions = load_functions(plan.source, root)
    planned = plan.case(case)
    shape = Shape(**planned.shape) if shape is None else shape
    inputs, batches = given or make_ring(functions, case, shape, plan.seed, ring)
    device = torch_device(plan.device)
    if plan.peer is not None:
        program = load_peer(functions, plan.peer)(inputs, case, shape, device)
    else:
        program = functions.build(make_switches(functions.workload, planned.switches), inputs, case, shape, device)
    return wrap_program(plan, planned, functions, fill_defaults(program, device), device, batches, shape)


def build_reference(
    plan: VariantPlan,
    case: str,
    root: Path,
    *,
    items: torch.Tensor | None = None,
    ring: int = 4,
    given: Given | None = None,
) -> BuiltCase:
    """The float64 reference of `case` on the CPU; by default the baseline built from float64 inputs.

    `items` (indices, 1-D int64) asks for a sample where computing all is too much; `given` is as for `build_case`.
    """
    use_data_folder(Layout(root).data(plan.workload))
    functions = load_functions(plan.source, root)
    planned = plan.case(case)
    shape = Shape(**planned.shape)
    inputs, batches = given or make_ring(functions, case, shape, plan.seed, ring)
    device = torch.device("cpu")
    if functions.reference is not None:
        program = functions.reference(inputs, case, shape, items=items)
    else:
        program = build_in_float64(functions, inputs, case, shape)
    program = fill_defaults(program, device, torch.float64)
    return wrap_program(plan, planned, functions, program, device, batches, shape)


def wrap_program(
    plan: VariantPlan,
    planned: PlannedCase,
    functions: Functions,
    program: Program,
    device: torch.device,
    batches: Sequence[Batch],
    shape: Shape,
) -> BuiltCase:
    """A built program, its defaults filled in, beside what it was built from."""
    initial = {} if program.state is None else copy_to_cpu(program.state())
    return BuiltCase(
        plan=plan,
        planned=planned,
        functions=functions,
        program=program,
        device=device,
        batches=tuple(batches),
        shape=shape,
        work=functions.work(planned.case, shape),
        initial=initial,
    )


def build_in_float64(functions: Functions, inputs: Batch, case: str, shape: Shape) -> Program:
    """The baseline on the CPU, with float64 as the default dtype in all its functions; its modules have the baseline's weights."""

    def build() -> Program:
        return functions.build(functions.workload.switches(), inputs, case, shape, torch.device("cpu"))

    def build_wide() -> Program:
        with _float64():
            return build()

    program = build_alike(build, build_wide, lambda narrow: narrow.close())

    def widen(function: Callable[..., Any] | None) -> Callable[..., Any] | None:
        if function is None:
            return None

        def run(*arguments: Any) -> Any:
            with _float64():
                return function(*arguments)

        return run

    step = widen(program.step)
    assert step is not None, "a program has a step"
    return replace(
        program, step=step, place=widen(program.place), outputs=widen(program.outputs), load=widen(program.load),
        state=widen(program.state),
    )  # fmt: skip


@contextmanager
def _float64() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def torch_device(device: str) -> torch.device:
    """The CPU for "cpu"; for "cuda" the process group's own GPU (LOCAL_RANK), by default the first; for "auto" that where there is one.

    Raises:
        Unsupported: torch can use no GPU.
    """
    if device == "cpu" or (device == "auto" and not torch.cuda.is_available()):
        return torch.device("cpu")
    if not torch.cuda.is_available():
        raise Unsupported("needs an NVIDIA GPU that torch can use")
    return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))


def make_ring(functions: Functions, case: str, shape: Shape, seed: int, ring: int) -> Given:
    """Canonical batches of seeds `seed`, `seed + 1`, ...: `ring` of them, or two where they are large; built from the first."""
    first = functions.make_inputs(case, shape, seed)
    size = count_bytes(first.values())
    count = ring if size * ring <= RING_BYTES else min(ring, 2)
    return first, [first, *(functions.make_inputs(case, shape, seed + offset) for offset in range(1, count))]


def copy_to_cpu(tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Detached copies on the CPU, in the dtype they have; raises PlanError where these are no named tensors."""
    named = parse(tensors, Batch, "outputs or state")
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in named.items()}


def synchronize(program: Program, device: torch.device) -> None:
    """Wait for the program's own work, then for the device."""
    if program.sync is not None:
        program.sync()
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def fill_defaults(program: Program, device: torch.device, dtype: torch.dtype = torch.float32) -> Program:
    """The program with `place` and `outputs` never None."""

    def place(batch: Batch) -> dict[str, torch.Tensor]:
        return {
            name: tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else tensor.dtype)
            for name, tensor in batch.items()
        }

    return replace(program, place=program.place or place, outputs=program.outputs or _as_named)


def _as_named(raw: Any) -> Mapping[str, torch.Tensor]:
    if isinstance(raw, torch.Tensor):
        return {"output": raw}
    if isinstance(raw, dict):
        return dict(read_plainly(raw))
    raise TypeError(f"step returned {type(raw).__name__}; return a tensor or a dict of tensors, or give `outputs`")


def _required(function: Callable[..., Any] | None) -> Callable[..., Any]:
    assert function is not None, "fill_defaults has run"
    return function
