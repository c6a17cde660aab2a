"""The files that a result depends on, by content: hashes that comments, docstrings and layout leave alone.

A file is named as Python would import it ("phasewise_studies/painn/program.py") and looked for along `sys.path`, so a name means
the same file on every machine. Files of data and native sources are those that a module names in a string ("rows.cu", "*.npz"),
in its own folder or below; with a native source count all native sources of its folder, which may include each other.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import ModuleType

NATIVE = (".cu", ".cuh", ".cpp", ".h", ".hpp")
DATA = (".npz", ".npy", ".safetensors", ".pt", ".json", ".jsonl", ".csv", ".txt", ".xyz", ".bin")
# the core counts by the plan's protocol number
CORE, KIT = "phasewise", "phasewise/kit/"
# of the statement that holds the plan, all that matters stands in the plan's own record
PLANNED = "workload"
# what a machine has its interpreters start with is no source of a workload
STARTUP = ("sitecustomize.py", "usercustomize.py")
# folders of outputs, of tests and of installed packages
NO_SOURCES = ("profiles", "reports", "exports", "data", "logs", "tests", "__pycache__", "site-packages", "node_modules")


def hash_file(path: Path) -> str:
    """SHA-256, 16 digits: of a Python file's syntax tree, of another file's bytes."""
    about = path.stat()
    return _hash(path, about.st_mtime_ns, about.st_size)


@functools.lru_cache(maxsize=4096)
def _hash(path: Path, age: int, size: int) -> str:
    content = path.read_bytes()
    if path.suffix == ".py":
        content = "".join(_tell(_parse(path, age, size))).encode()
    return hashlib.sha256(content).hexdigest()[:16]


@functools.lru_cache(maxsize=1024)
def _parse(path: Path, age: int, size: int) -> ast.Module:
    tree = ast.parse(path.read_bytes(), str(path))
    tree.body = [statement for statement in tree.body if not _is_plan(statement)]
    return tree


def parse(path: Path) -> ast.Module:
    """The syntax tree of a Python file, without the statement that defines its `workload`."""
    about = path.stat()
    return _parse(path, about.st_mtime_ns, about.st_size)


def _is_plan(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Assign)
        and isinstance(statement.value, ast.Call)
        and [target.id for target in statement.targets if isinstance(target, ast.Name)] == [PLANNED]
    )


def _tell(node: ast.AST) -> Iterator[str]:
    """The tree as text, the same from every version of Python: neither positions nor empty fields, which versions add."""
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        if name in ("kind", "type_comment", "ctx") or value is None or value == []:
            continue
        yield f"({name}="
        if isinstance(value, ast.AST):
            yield from _tell(value)
        elif isinstance(value, list):
            for item in _settle(node, name, value):
                yield from _tell(item) if isinstance(item, ast.AST) else repr(item)
                yield ","
        else:
            yield f"{type(value).__name__} {value!r}"
        yield ")"


def _settle(node: ast.AST, name: str, values: list[ast.AST]) -> list[ast.AST]:
    """A body without its docstring; the parts of an f-string with neighbouring texts joined."""
    has_docstring = isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    if name == "body" and has_docstring and values and _is_text(getattr(values[0], "value", None)):
        return values[1:] if isinstance(values[0], ast.Expr) else values
    if not isinstance(node, ast.JoinedStr):
        return values
    joined: list[ast.AST] = []
    for part in values:
        if _is_text(part) and joined and _is_text(joined[-1]):
            joined[-1] = ast.Constant(joined[-1].value + part.value)  # type: ignore[attr-defined]
        elif not (_is_text(part) and part.value == ""):  # type: ignore[attr-defined]
            joined.append(part)
    return joined


def _is_text(node: object) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def find_file(name: str) -> Path | None:
    """The file of that name in the first folder of `sys.path` that has it."""
    for folder in sys.path:
        path = Path(folder or ".", name).absolute()
        if path.is_file():
            return path
    return None


def hash_files(names: Iterable[str]) -> dict[str, str]:
    """Hash of each file by its name; "" for one that is not there."""
    found = {}
    for name in sorted(names):
        path = find_file(name)
        found[name] = "" if path is None else hash_file(path)
    return found


def name_module(module: ModuleType) -> str | None:
    """Name of a module's file if it counts: not the core's, the standard library's or an installed package's."""
    file, name = getattr(module, "__file__", None), getattr(module, "__name__", "")
    if not file or not file.endswith(".py") or name in ("", "__main__", "__mp_main__"):
        return None
    rest = name.replace(".", "/")
    called = f"{rest}/__init__.py" if hasattr(module, "__path__") else f"{rest}.py"
    counts = called.startswith((KIT, "phasewise_studies/")) or not (
        called.startswith(f"{CORE}/") or _is_installed(Path(file))
    )
    # a module under another name than its file's, such as one that was loaded by path, can't be found again
    return called if counts and called not in STARTUP and find_file(called) is not None else None


def _is_installed(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _installed()) or "site-packages" in path.parts


@functools.cache
def _installed() -> tuple[Path, ...]:
    return tuple({Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


def name_loaded(modules: Mapping[str, ModuleType]) -> list[str]:
    """Names of the files that count among `modules`, as of `sys.modules`, and of what they name in strings."""
    named = [name_module(module) for module in list(modules.values()) if isinstance(module, ModuleType)]
    return sorted(add_named_files({name for name in named if name is not None}))


def add_named_files(names: Iterable[str]) -> set[str]:
    """`names` with the files of data and native sources that these Python files name."""
    found = set(names)
    for name in names:
        path = find_file(name)
        if path is None or path.suffix != ".py":
            continue
        folder = PurePosixPath(name).parent
        found |= {str(folder / file) for file in _named_files(parse(path), path.parent)}
    return found


def _named_files(tree: ast.Module, folder: Path) -> set[str]:
    there = _list_files(folder)
    ends = {
        node.value.rpartition("/")[2].rpartition("*")[2]  # type: ignore[attr-defined]
        for node in ast.walk(tree)
        if _is_text(node) and node.value.endswith((*NATIVE, *DATA))  # type: ignore[attr-defined]
    }
    found = {name for name in there if name.endswith(tuple(ends))} if ends else set()
    native = {PurePosixPath(name).parent for name in found if name.endswith(NATIVE)}
    return found | {name for name in there if name.endswith(NATIVE) and PurePosixPath(name).parent in native}


@functools.cache
def _list_files(folder: Path) -> tuple[str, ...]:
    """Data and native sources in a folder and below, as paths relative to it; not what a project's graph and tests bring."""
    found: list[str] = []
    for place, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name not in NO_SOURCES and not name.startswith(".")]
        found += [Path(place, name).relative_to(folder).as_posix() for name in files if name.endswith((*NATIVE, *DATA))]
    return tuple(found)


def name_files(module: str) -> list[str]:
    """Names of the files of a dotted module that is there: one, none where it isn't."""
    rest = module.replace(".", "/")
    return [name for name in (f"{rest}.py", f"{rest}/__init__.py") if find_file(name) is not None]


def follow_imports(names: Iterable[str]) -> set[str]:
    """`names` and every file that counts which they import, at any place in them, and these in turn."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        path = find_file(name)
        if name in found or path is None:
            continue
        found.add(name)
        waiting += [other for other in _imports(parse(path), name) if other not in found]
    return found


def _imports(tree: ast.Module, name: str) -> Iterator[str]:
    package = PurePosixPath(name).parent
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files_of(PurePosixPath(*alias.name.split(".")))
        elif isinstance(node, ast.ImportFrom):
            base = PurePosixPath(*(node.module or "").split("."))
            if node.level:
                base = PurePosixPath(*package.parts[: len(package.parts) - node.level + 1]) / base
            yield from _files_of(base)
            for alias in node.names:
                yield from _files_of(base / alias.name)


def _files_of(module: PurePosixPath) -> Iterator[str]:
    """Files of a dotted name that count: the module's own and those of the packages around it."""
    if not module.parts:
        return
    for depth in range(1, len(module.parts) + 1):
        base = PurePosixPath(*module.parts[:depth])
        for name in (f"{base}.py", f"{base}/__init__.py"):
            path = find_file(name)
            if path is not None and (
                name.startswith((KIT, "phasewise_studies/"))
                or not (name.startswith((f"{CORE}/", f"{CORE}.")) or _is_installed(path.resolve()))
            ):
                yield name
