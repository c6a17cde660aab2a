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
from collections.abc import Callable
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


if __name__ == "__main__":
    replace_once()
    # the module finds its own arguments
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
