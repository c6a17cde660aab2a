"""From `pkg.module:function` or `file.py:function` to the function."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from phasewise.records.errors import UserError


def import_function(function: str) -> Callable[..., Any]:
    """The function that `function` names.

    Raises:
        UserError: there is no such module, file or function.
    """
    source, _, name = function.rpartition(":")
    found: Any = import_source(source, function)
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        raise UserError(f"{function!r}: {source} has no function {name!r}; define it at the top level of that module")
    return found


def import_source(source: str, function: str) -> ModuleType:
    """The module at `source`, a name or a file, which `function` named; a file is run each time it is asked for.

    Raises:
        UserError: there is no such module or file.
    """
    return _load_file(Path(source), function) if source.endswith(".py") else _load_module(source, function)


def _load_module(source: str, function: str) -> ModuleType:
    try:
        return importlib.import_module(source)
    except ModuleNotFoundError as error:
        raise UserError(f"{function!r}: module {error.name!r} does not exist; correct it or install it") from error


def _load_file(path: Path, function: str) -> ModuleType:
    if not path.is_file():
        raise UserError(f"{function!r}: there is no file {path}; correct the path")
    # siblings of the file import, as they do when it is run
    sys.path.insert(0, str(path.resolve().parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    spec.loader.exec_module(module)
    return module
