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
from typing import Any

from phasewise.model.prune import prune
from phasewise.records.base import Scalar

# sources that are compiled at run time and named by a string
NATIVE = (".cu", ".cuh", ".cpp", ".h", ".hpp")
EFFECTS = "<effects>"

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
    # what `_read` has found, by definition and values of the switches that it mentions: variants share most of it
    readings: dict[Any, Reading] = field(default_factory=dict, compare=False)
    mentions: dict[str, frozenset[str]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Reading:
    """One definition under given switches: its text, and the names that it uses."""

    text: str
    names: frozenset[str]
    # `base.attribute`, where `base` may be a module
    attributes: frozenset[tuple[str, str]]
    imports: Mapping[str, Key]
    # native sources beside the module
    files: frozenset[str]


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
        reading = _read(module, name, reach.switches)
        reach.dumps[key] = reading.text
        _follow_names(reach, module, reading)


def _follow_effects(reach: Reach, module: Module) -> None:
    key = (module.name, EFFECTS)
    if key in reach.dumps:
        return
    if EFFECTS not in module.readings:
        readings = [_note(statement, module, ast.unparse(statement)) for statement in module.effects]
        module.readings[EFFECTS] = _join(readings)
    reach.dumps[key] = module.readings[EFFECTS].text
    _follow_names(reach, module, module.readings[EFFECTS])


def _follow_names(reach: Reach, module: Module, reading: Reading) -> None:
    local = dict(module.imports) | dict(reading.imports)
    names = set(reading.names)
    for base, attribute in reading.attributes:
        owner = _as_module(reach, local[base]) if base in local else ("", base)
        if owner[1] == "":
            # `owner.attribute` is a definition of that module, or a module of that package
            _follow(reach, owner[0], attribute)
            _follow(reach, f"{owner[0]}.{attribute}", "")
        else:
            names.add(base)
    for file in reading.files:
        _follow_file(reach, module.path.parent / file)
    for name in names:
        if name in local:
            _follow(reach, *_as_module(reach, local[name]))
        elif name in module.definitions:
            _follow(reach, module.name, name)


def _read(module: Module, name: str, switches: Mapping[str, Scalar]) -> Reading:
    node = module.definitions[name]
    if name not in module.mentions:
        module.mentions[name] = prune(node, {})[1]
    key = (name, *((switch, switches.get(switch)) for switch in sorted(module.mentions[name])))
    if key not in module.readings:
        pruned, reads = prune(node, switches)
        values = {switch: switches.get(switch) for switch in sorted(reads)}
        # unparsed, not dumped: what `ast.dump` prints differs between versions of Python
        text = f"{ast.unparse(ast.fix_missing_locations(pruned))} {values}"
        module.readings[key] = _note(pruned, module, text)
    return module.readings[key]


def _note(node: ast.stmt, module: Module, text: str) -> Reading:
    nodes = list(ast.walk(node))
    names, attributes, files, bases = set(), set(), set(), set()
    for child in nodes:
        if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
            attributes.add((child.value.id, child.attr))
            bases.add(id(child.value))
        elif isinstance(child, ast.Constant) and isinstance(child.value, str) and child.value.endswith(NATIVE):
            files.add(child.value)
    for child in nodes:
        if isinstance(child, ast.Name) and id(child) not in bases:
            names.add(child.id)
    imports = _imports(nodes, module.name, module.path)
    return Reading(text, frozenset(names), frozenset(attributes), imports, frozenset(files))


def _join(readings: Iterable[Reading]) -> Reading:
    all_of = tuple(readings)
    return Reading(
        text="\n".join(one.text for one in all_of),
        names=frozenset().union(*(one.names for one in all_of)),
        attributes=frozenset().union(*(one.attributes for one in all_of)),
        imports={name: key for one in all_of for name, key in one.imports.items()},
        files=frozenset().union(*(one.files for one in all_of)),
    )


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


@functools.lru_cache(maxsize=1024)
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
