"""Run a script as Python runs it, with calls of one of its functions told."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from phasewise.look.known import Request
from phasewise.records.errors import UserError

# the decorator in the script's namespace
MARK = "__phasewise_step__"
Tell = Callable[[], None]


def run_script(asked: Request, function: str, tell: Tell) -> None:
    """The script as `__main__`, until it ends; `tell` is called before each call of `function`, "" for none.

    Raises:
        UserError: there is no such script, or no such function.
    """
    main = ModuleType("__main__")
    if asked.module:
        spec = _find_module(asked.module)
        path, main.__spec__, main.__package__ = str(spec.origin), spec, spec.parent
        sys.path[0] = str(Path.cwd())
    else:
        path, main.__spec__ = asked.path, None
        sys.path[0] = str(Path(path).resolve().parent)
    main.__file__ = path
    source, _, name = function.rpartition(":")
    if source:
        _wrap(source, name, tell)
    tree = ast.parse(Path(path).read_bytes(), path)
    if function and not source:
        tree = _mark(tree, name, Path(path).name)
        vars(main)[MARK] = functools.partial(_tell_before, tell)
    sys.argv = [path, *asked.arguments]
    sys.modules["__main__"] = main
    exec(compile(tree, path, "exec", dont_inherit=True), vars(main))


def _find_module(name: str) -> Any:
    sys.path[0] = str(Path.cwd())
    for found in (name, f"{name}.__main__"):
        try:
            spec = importlib.util.find_spec(found)
        except ModuleNotFoundError:
            spec = None
        if spec is not None and spec.origin and spec.submodule_search_locations is None:
            return spec
    raise UserError(f"look: module {name!r} can't be run; name a module that is there, or a package with a __main__")


def _mark(tree: ast.Module, name: str, file: str) -> ast.Module:
    """The tree with the function of that name decorated; places in it stay as they are."""
    body: Sequence[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for part in name.split("."):
        found = next((one for one in body if isinstance(one, DEFINITIONS) and one.name == part), None)
        body = found.body if isinstance(found, DEFINITIONS) else ()
    if not isinstance(found, ast.FunctionDef):
        known = ", ".join(_list_functions(tree.body)) or "none"
        raise UserError(f"look: --step {name!r} is no function of {file}; it has {known}")
    found.decorator_list.insert(0, ast.copy_location(ast.Name(MARK, ast.Load()), found))
    return tree


DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def _list_functions(body: Sequence[ast.stmt], prefix: str = "") -> list[str]:
    names = []
    for one in body:
        if isinstance(one, ast.FunctionDef):
            names.append(prefix + one.name)
        elif isinstance(one, ast.ClassDef):
            names += _list_functions(one.body, f"{prefix}{one.name}.")
    return names


def _wrap(source: str, name: str, tell: Tell) -> None:
    """Have a function or method of a module tell its calls."""
    try:
        owner: Any = importlib.import_module(source)
    except ModuleNotFoundError as error:
        raise UserError(f"look: --step {source}:{name}: {error}; correct the module") from error
    *outer, last = name.split(".")
    for part in outer:
        owner = getattr(owner, part, None)
    function = getattr(owner, last, None)
    if not callable(function):
        raise UserError(f"look: --step {source}:{name}: there is no such function; correct the name")
    setattr(owner, last, _tell_before(tell, function))


def _tell_before(tell: Tell, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def told(*args: Any, **kwargs: Any) -> Any:
        tell()
        return function(*args, **kwargs)

    return told
