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
    name, top = _name_in_package(path.resolve())
    # siblings of the file import, as they do when it is run
    sys.path.insert(0, str(path.resolve().parent))
    # and relative ones, as they do in its package; last, since folders beside a package may be named as what is installed
    sys.path.append(str(top))
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    spec.loader.exec_module(module)
    return module


def _name_in_package(path: Path) -> tuple[str, Path]:
    """The name by which packages import the file, and the folder that the first of them lies in."""
    names, top = [path.stem], path.parent
    while (top / "__init__.py").is_file():
        names, top = [top.name, *names], top.parent
    return ".".join(names), top
