"""Triton's kernels without a GPU: a module run where Triton interprets, in a process of its own.

TRITON_INTERPRET has to stand before triton is imported, so a process that has imported it can't ask for it any more.
`python -m phasewise.kit.interpreter MODULE [ARGUMENT ...]` is that process: it takes a half to two thirds of the interpreter's own time.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

LIMIT_S = 500


def interpret(module: str, *arguments: str, limit_s: float = LIMIT_S) -> Any:
    """What `python -m module arguments` prints as its last line, as JSON.

    :raises RuntimeError: the module fails, with what it wrote to its standard error
    """
    environment = os.environ | {
        "TRITON_INTERPRET": "1",
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    command = [sys.executable, "-m", "phasewise.kit.interpreter", module, *arguments]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=limit_s)
    if ran.returncode != 0:
        raise RuntimeError(f"{module} ended with {ran.returncode} in Triton's interpreter:\n{ran.stderr}")
    return json.loads(ran.stdout.splitlines()[-1])


def replace_once() -> None:
    """Replace the language of a module once in each launch.

    The interpreter puts functions of its own in the place of its language's for each launch, and again for each call of a device
    function, where it finds them replaced already: looking through the language for what is left takes most of such a call.
    The end of a launch puts everything back, as ever.
    """
    from triton.runtime import interpreter

    replace, launch = interpreter._patch_lang, interpreter.GridExecutor.__call__
    seen: set[int] = set()

    def replace_unseen(function: Callable[..., Any]) -> Any:
        module = id(function.__globals__)
        if module in seen:
            return interpreter._LangPatchScope()
        seen.add(module)
        return replace(function)

    def launch_afresh(executor: Any, *args: Any, **kwargs: Any) -> None:
        seen.clear()
        launch(executor, *args, **kwargs)

    interpreter._patch_lang = replace_unseen
    interpreter.GridExecutor.__call__ = launch_afresh


def remember_types() -> None:
    """Look up the type of numpy for one of Triton's once: the interpreter makes the whole table for each value that it wraps."""
    from triton.runtime import interpreter

    find, known = interpreter._get_np_dtype, {}

    def find_once(kind: Any) -> Any:
        if kind.name not in known:
            known[kind.name] = find(kind)
        return known[kind.name]

    interpreter._get_np_dtype = find_once


def reduce_in_pairs() -> None:
    """Reduce by a function of the kernel's own with all pairs of neighbours at once, as a GPU does.

    The interpreter goes from element to element, and calls the function for each.
    """
    from triton.runtime import interpreter

    interpreter.ReduceOps.generic_reduce = combine_neighbours


def combine_neighbours(reduction: Any, given: Sequence[Any]) -> list[Any]:
    """What `reduction` makes of these tensors, in the order of their elements."""
    axis, kinds = reduction.axis or 0, [part.dtype for part in given]
    parts = [part.handle.data if reduction.axis is not None else part.handle.data.reshape(-1) for part in given]
    # a block is a power of two long
    while parts[0].shape[axis] > 1:
        left, right = (
            [
                reduction.to_tensor(part.take(range(first, part.shape[axis], 2), axis), kind)
                for part, kind in zip(parts, kinds, strict=True)
            ]
            for first in (0, 1)
        )
        combined = reduction.combine_fn.fn(*left, *right)
        combined = combined if isinstance(combined, tuple) else (combined,)
        parts = [one.handle.data.astype(part.dtype, copy=False) for one, part in zip(combined, parts, strict=True)]
    if not reduction.keep_dims:
        parts = [part.squeeze(axis) for part in parts]
    elif reduction.axis is None:
        parts = [part.reshape([1] * given[0].handle.data.ndim) for part in parts]
    # what has no dimension is no array
    return [
        reduction.to_tensor(part if part.ndim else part.item(), kind) for part, kind in zip(parts, kinds, strict=True)
    ]


if __name__ == "__main__":
    replace_once()
    remember_types()
    reduce_in_pairs()
    # the module finds its own arguments
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
