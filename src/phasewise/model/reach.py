"""Which definitions a variant can reach, and their digest: editing anything else re-measures nothing.

The sources are parsed, never imported. From the entry functions on, every name that a definition uses is followed into the
modules of the workload's own folder and of `phasewise.kit`. Branches that the variant's switches rule out are not followed:
in a function with a parameter called `switches` or `on`, or annotated `Switches`, `if switches.fused:` is decided by the
variant's value. Comments, docstrings and layout do not count. What can't be decided is followed. A new switch whose branch
the other variants do not take leaves their digests alone.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from phasewise.model.prune import prune
from phasewise.records.base import Scalar

# sources that are compiled at run time and named by a string
NATIVE = (".cu", ".cuh", ".cpp", ".h", ".hpp")

Key = tuple[str, str]


@dataclass(frozen=True)
class Module:
    """One parsed file: what its top-level names are bound to."""

    name: str
    path: Path
    definitions: Mapping[str, ast.stmt]
    # local name -> (module, name in it); name "" = the module itself
    imports: Mapping[str, Key]
    # top-level statements that are neither definitions nor imports
    effects: tuple[ast.stmt, ...]


@dataclass
class Reach:
    """The walk: what has been reached so far."""

    folders: Mapping[str, Path]
    switches: Mapping[str, Scalar]
    modules: dict[str, Module | None] = field(default_factory=dict)
    dumps: dict[Key, str] = field(default_factory=dict)


def digest_sources(entries: Iterable[Key], switches: Mapping[str, Scalar], folders: Mapping[str, Path]) -> str:
    """SHA-256 (16 digits) over all definitions reachable from `entries` under `switches`.

    `entries` are (module, function) pairs; `folders` maps the packages that count (a package, or "" for plain modules) to the
    folder their files lie in.
    """
    reach = Reach(folders=folders, switches=switches)
    for module, name in entries:
        _follow(reach, module, name)
    text = "\n".join(f"{module}:{name}={dump}" for (module, name), dump in sorted(reach.dumps.items()))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _follow(reach: Reach, module_name: str, name: str) -> None:
    module = _load(reach, module_name)
    key = (module_name, name)
    if module is None or key in reach.dumps:
        return
    _follow_effects(reach, module)
    if name == "":
        reach.dumps[key] = ""
        for every in (*module.definitions, *module.imports):
            _follow(reach, module_name, every)
        return
    if name in module.imports:
        _follow(reach, *module.imports[name])
    elif name in module.definitions:
        node, reads = prune(module.definitions[name], reach.switches)
        values = {switch: reach.switches.get(switch) for switch in sorted(reads)}
        # unparsed, not dumped: what `ast.dump` prints differs between versions of Python
        reach.dumps[key] = f"{ast.unparse(ast.fix_missing_locations(node))} {values}"
        _follow_names(reach, module, node)


def _follow_effects(reach: Reach, module: Module) -> None:
    key = (module.name, "<effects>")
    if key in reach.dumps:
        return
    reach.dumps[key] = "\n".join(ast.unparse(statement) for statement in module.effects)
    for statement in module.effects:
        _follow_names(reach, module, statement)


def _follow_names(reach: Reach, module: Module, node: ast.stmt) -> None:
    local = dict(module.imports) | _imports(ast.walk(node), module.name, module.path)
    owners = set()
    for child in ast.walk(node):
        if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name) and child.value.id in local:
            owner = _as_module(reach, local[child.value.id])
            if owner[1] == "":
                # `owner.attribute` is a definition of that module, or a module of that package
                owners.add(id(child.value))
                _follow(reach, owner[0], child.attr)
                _follow(reach, f"{owner[0]}.{child.attr}", "")
        elif isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value.endswith(NATIVE):
            _follow_file(reach, module.path.parent / child.value)
    for child in ast.walk(node):
        if not isinstance(child, ast.Name) or id(child) in owners:
            continue
        if child.id in local:
            _follow(reach, *_as_module(reach, local[child.id]))
        elif child.id in module.definitions:
            _follow(reach, module.name, child.id)


def _as_module(reach: Reach, target: Key) -> Key:
    """What an imported name stands for: `from . import kernels` binds a whole module."""
    module, name = target
    if name and _load(reach, f"{module}.{name}") is not None:
        return (f"{module}.{name}", "")
    return target


def _follow_file(reach: Reach, path: Path) -> None:
    if path.is_file():
        reach.dumps[("file", path.name)] = hashlib.sha256(path.read_bytes()).hexdigest()


def _load(reach: Reach, name: str) -> Module | None:
    if name not in reach.modules:
        path = _find(reach.folders, name)
        reach.modules[name] = None if path is None else _parse(name, path, path.read_text())
    return reach.modules[name]


def _find(folders: Mapping[str, Path], name: str) -> Path | None:
    for package, folder in folders.items():
        if package and name != package and not name.startswith(f"{package}."):
            continue
        rest = name[len(package) :].lstrip(".") if package else name
        base = folder.joinpath(*rest.split(".")) if rest else folder
        for candidate in (base.with_suffix(".py") if rest else base / "__init__.py", base / "__init__.py"):
            if candidate.is_file():
                return candidate
    return None


@functools.lru_cache(maxsize=256)
def _parse(name: str, path: Path, text: str) -> Module:
    tree = ast.parse(text, str(path))
    definitions: dict[str, ast.stmt] = {}
    effects: list[ast.stmt] = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            definitions[statement.name] = statement
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            for target in statement.targets if isinstance(statement, ast.Assign) else [statement.target]:
                for leaf in ast.walk(target):
                    if isinstance(leaf, ast.Name):
                        definitions[leaf.id] = statement
        elif not isinstance(statement, ast.Import | ast.ImportFrom) and not _is_docstring(statement):
            effects.append(statement)
    return Module(name, path, definitions, _imports(ast.walk(tree), name, path), tuple(effects))


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _imports(nodes: Iterable[ast.AST], name: str, path: Path) -> dict[str, Key]:
    found: dict[str, Key] = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name if alias.asname else alias.name.split(".")[0]
                found[alias.asname or top] = (top, "")
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(node, name, path)
            for alias in node.names:
                found[alias.asname or alias.name] = (base, "" if alias.name == "*" else alias.name)
    return found


def _absolute(node: ast.ImportFrom, name: str, path: Path) -> str:
    if not node.level:
        return node.module or ""
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for _ in range(node.level - 1):
        package = package.rpartition(".")[0]
    return ".".join(part for part in (package, node.module) if part)
