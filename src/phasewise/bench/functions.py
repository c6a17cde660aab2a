"""The functions of a program module, with the defaults of those that a user may leave out."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from phasewise.model.discover import load_peers, load_sibling, load_workload, program_name
from phasewise.model.fields import Items
from phasewise.model.parse import parse
from phasewise.model.program import Program
from phasewise.model.workload import Shape, Work, Workload
from phasewise.records.errors import PlanError

Batch = Mapping[str, torch.Tensor]


@dataclass(frozen=True, kw_only=True)
class Functions:
    """A workload with the functions of its program module."""

    workload: Workload
    module: ModuleType
    # (case, shape, seed) -> canonical batch
    make_inputs: Callable[[str, Shape, int], Batch]
    # (switches, inputs, case, shape, device) -> Program
    build: Callable[..., Program]
    # (inputs, case, shape, items=None) -> Program in float64 on the CPU
    reference: Callable[..., Program] | None
    # (case, shape) -> Work
    work: Callable[[str, Shape], Work]
    # (folder) -> None
    prepare: Callable[[Path], None] | None
    # (case, shape) -> number of items, where a reference covers a sample of them
    rows: Callable[[str, Shape], int] | None
    # (inputs, outputs, case, shape) -> what is compared with the reference's outputs, if not the program's outputs themselves; run in the judge
    audit: Callable[[Batch, Batch, str, Shape], Batch] | None


def load_functions(source: str, root: Path) -> Functions:
    """Import the workload at `source` and the module that holds its `build`.

    Raises:
        PlanError: `make_inputs` or `build` is missing.
    """
    workload = load_workload(source, root)
    module = importlib.import_module(program_name(workload, source, root))
    for name in ("make_inputs", "build"):
        if not callable(getattr(module, name, None)):
            raise PlanError(f"{module.__name__}: function `{name}` is missing; a program needs make_inputs and build")
    return Functions(
        workload=workload,
        module=module,
        make_inputs=partial(_call, module.make_inputs, Batch),
        build=partial(_call, module.build, Program),
        reference=_find(module, "reference", Program),
        work=_find(module, "work", Work) or _unknown_work,
        prepare=getattr(module, "prepare", None),
        rows=_find(module, "rows", Items),
        audit=_find(module, "audit", Batch),
    )


def _find(module: ModuleType, name: str, kind: Any) -> Callable[..., Any] | None:
    """The function of that name, its results checked to be of `kind`; None where there is none."""
    function = getattr(module, name, None)
    return None if function is None else partial(_call, function, kind)


def _call(function: Callable[..., Any], kind: Any, *arguments: Any, **options: Any) -> Any:
    """What a function of the user gives; raises PlanError where that is not of `kind`."""
    return parse(function(*arguments, **options), kind, f"{getattr(function, '__name__', 'function')}(...)")


def make_switches(workload: Workload, values: Mapping[str, Any]) -> Any:
    """The user's frozen dataclass with `values` over its defaults."""
    return workload.switches(**values)


def load_peer(functions: Functions, name: str) -> Callable[..., Program]:
    """The function `name` (dashes as underscores) of `peers.py` or `peer_<name>.py`: (inputs, case, shape, device) -> Program."""
    module = load_peers(functions.module.__name__, name)
    peer = getattr(module, name.replace("-", "_"), None)
    if not callable(peer):
        raise PlanError(
            f"{module.__name__}: peer {name!r} has no function {name.replace('-', '_')}; write it or drop the peer"
        )
    return partial(_call, peer, Program)


def load_check(functions: Functions, name: str) -> Callable[..., Any] | None:
    """The function `name` (dashes as underscores) of `checks.py`; None where the workload has none of that name."""
    module = load_sibling(functions.module.__name__, "checks")
    found = getattr(module, name.replace("-", "_"), None)
    return found if inspect.isfunction(found) else None


def _unknown_work(case: str, shape: Shape) -> Work:
    return Work(items=1.0)
