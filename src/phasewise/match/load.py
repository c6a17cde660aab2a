"""What a side names, loaded in this process: a function, or a module that was built with the weights of the base."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import torch

from phasewise.bench.import_function import import_source
from phasewise.match.side import Side
from phasewise.match.values import PLAIN, Tensors, pack_arguments, unpack_arguments
from phasewise.match.weights import give_weights
from phasewise.model.parse import SHORT, parse
from phasewise.model.workload import Tolerance
from phasewise.records.base import Scalar
from phasewise.records.errors import UserError

# how a module says what its functions are called with; the first that it has
MAKERS = ("make_inputs", "get_inputs", "setup")
# and what its classes are built with
BUILD_MAKER = "get_init_inputs"
# and how far a result may lie from the reference, where the tier is not meant
TOLERANCE_MAKER = "get_tolerance"
# of weights and constants that are drawn
SEED = 0
# that numpy's shared generator takes
NUMPY_SEEDS = 2**32

Overrides = Mapping[str, Scalar]


def load_module(side: Side) -> ModuleType:
    """The module of a side, once a process, with random numbers that are the same in each.

    :raises UserError: there is none
    """
    return _load_module(side.source, side.roots, side.folder)


@functools.cache
def _load_module(source: str, roots: tuple[str, ...], folder: str) -> ModuleType:
    for root in reversed(roots):
        sys.path.insert(0, root)
    # one that is enclosed may not see it
    if folder and Path(folder).is_dir():
        os.chdir(folder)
    with seeded():
        return import_source(source, source)


@contextlib.contextmanager
def seeded() -> Iterator[None]:
    """What is drawn inside is the same in each process. Torch's generator is as it was afterwards: nobody takes it for a program that draws by itself."""
    with torch.random.fork_rng(devices=()):
        seed_all(SEED)
        yield


def seed_all(seed: int) -> None:
    """What torch, numpy and Python draw from next."""
    torch.manual_seed(seed)
    numpy.random.seed(seed % NUMPY_SEEDS)
    random.seed(seed)


def find_name(side: Side, names: Sequence[str]) -> str:
    """The side's name, or the first of `names` that its module has.

    :raises UserError: the module has none of them
    """
    module = load_module(side)
    wanted = (side.name,) if side.name else tuple(names)
    found = next((name for name in wanted if callable(_find(module, name))), "")
    if not found:
        where = Path(side.source).name
        raise UserError(
            f"{side.target}: {where} has no function or class {' or '.join(map(repr, wanted))}; define it at the top level, or name another"
        )
    return found


def find_object(side: Side) -> Any:
    """The function or class of a side whose name was found."""
    return _find(load_module(side), side.name)


def load_callable(side: Side, start: Path | None, *, evaluates: bool = False) -> tuple[Callable[..., Any], str]:
    """The function, or the module with the weights kept in `start`; and a sentence on these where it had to guess.

    `evaluates`: a module is put into evaluation mode.
    """
    found = find_object(side)
    if not is_module(found):
        return found, ""
    kept = None if start is None else torch.load(start, weights_only=True)
    module = build_module(found, None if kept is None else kept["init"])
    doubt = "" if kept is None else give_weights(module, kept["weights"])
    return (module.eval() if evaluates else module), doubt


def is_module(found: Any) -> bool:
    """Whether it is a class of modules, or one of them."""
    return isinstance(found, torch.nn.Module) or (inspect.isclass(found) and issubclass(found, torch.nn.Module))


def build_module(found: Any, init: Tensors | None) -> torch.nn.Module:
    """A module whose random numbers are the same in each process; its weights need no gradients."""
    if isinstance(found, torch.nn.Module):
        module = copy.deepcopy(found)
    else:
        positional, named = unpack_arguments(init, init[PLAIN]) if init else ([], {})
        with seeded():
            module = found(*positional, **named)
    return module.requires_grad_(False)


def make_batch(side: Side, overrides: Overrides, seed: int) -> Tensors:
    """What the side's module has its functions called with.

    :raises UserError: it does not say, or gives something else than tensors and plain values
    """
    maker = next((name for name in MAKERS if callable(_find(load_module(side), name))), "")
    if not maker:
        raise UserError(
            f"{side.source}: it has no inputs; define make_inputs(seed), get_inputs() or setup(), which gives the arguments of a call as a "
            "tuple, a list or a dict of tensors and plain values"
        )
    return pack_arguments(_call_maker(side, maker, overrides, seed))


def make_init(side: Side, overrides: Overrides) -> Tensors:
    """What the side's module has its classes built with; no arguments where it does not say."""
    if not callable(_find(load_module(side), BUILD_MAKER)):
        return pack_arguments([])
    return pack_arguments(_call_maker(side, BUILD_MAKER, overrides, SEED))


def read_tolerance(side: Side) -> Tolerance | None:
    """How far a result may lie from the reference, as the side's module says; None where it does not say.

    :raises UserError: it says so in another form, or allows more than any may
    """
    maker = _find(load_module(side), TOLERANCE_MAKER)
    if not callable(maker):
        return None
    found, place = maker(), f"{Path(side.source).name}: {TOLERANCE_MAKER}()"
    if not isinstance(found, Mapping) or not {"rtol", "atol"} <= set(found) <= {"rtol", "atol", "why"}:
        raise UserError(f'{place} gives {SHORT.repr(found)}; {{"rtol": 1e-3, "atol": 1e-4, "why": "..."}} is its form')
    return parse(Tolerance(**found), Tolerance, place)


def _call_maker(side: Side, name: str, overrides: Overrides, seed: int) -> Any:
    """Overrides go to the parameters of these names, and else to the constants of the module."""
    module = load_module(side)
    maker = _find(module, name)
    parameters = inspect.signature(maker).parameters
    given = {key: value for key, value in overrides.items() if key in parameters}
    for key, value in overrides.items():
        if key not in parameters and hasattr(module, key):
            setattr(module, key, value)
    if "seed" in parameters:
        given["seed"] = seed
    seed_all(seed)
    return maker(**given)


def check_overrides(side: Side, overrides: Overrides) -> None:
    """Raise UserError for a name that is neither a parameter of a function that makes inputs nor a constant of the module."""
    module = load_module(side)
    makers = [found for name in (*MAKERS, BUILD_MAKER) if callable(found := _find(module, name))]
    known = {name for maker in makers for name in inspect.signature(maker).parameters} - {"seed"}
    known |= {
        name
        for name, value in vars(module).items()
        if isinstance(value, int | float | str) and not name.startswith("_")
    }
    for name in overrides:
        if name not in known:
            raise UserError(
                f"--shapes: {name!r} is neither a parameter of the inputs nor a constant of {Path(side.source).name}; "
                f"it has {', '.join(sorted(known)) or 'none'}"
            )


def _find(module: ModuleType, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found
