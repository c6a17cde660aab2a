"""From a name or a path to a workload and to the modules that belong to it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from phasewise.model.workload import Workload
from phasewise.records.errors import PlanError

# of the file that holds one peer alone
PEER = "peer_"


def default_source(name: str) -> str:
    """Where a workload without a `source` is looked for: among the shipped ones."""
    return f"phasewise_studies.{name}.phases"


def load_module(source: str, root: Path) -> ModuleType:
    """Import `source`: a dotted name, a Python file, or a folder with a `phases.py`.

    Paths are relative to `root`; the folder that holds the file or folder goes onto `sys.path`, so that siblings import.
    """
    name = name_source(source, root)
    if _looks_like_path(source):
        make_importable(source, root)
        path = (root / source).resolve()
        _forget_namesake(
            name.partition(".")[0], *([path / "__init__.py", path / "phases.py"] if path.is_dir() else [path])
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise PlanError(
            f"workload source {source!r}: module {error.name!r} is not installed or does not exist; correct it"
        ) from error


def name_source(source: str, root: Path) -> str:
    """Dotted name of the module at `source`; nothing is imported.

    Raises:
        PlanError: there is no such file or folder.
    """
    if not _looks_like_path(source):
        return source
    try:
        path = (root / source).resolve()
        if path.is_dir() and not (path / "phases.py").is_file():
            raise PlanError(f"workload source {source!r}: the folder has no phases.py; add one or name the file itself")
        if not path.is_dir() and not path.is_file():
            raise PlanError(f"workload source {source!r}: no such file below {root.name or root}; correct `source`")
    except (OSError, RuntimeError) as error:
        # a name that is too long, links in a circle
        raise PlanError(f"workload source {source!r}: it can't be reached ({error}); correct it") from error
    return f"{path.name}.phases" if path.is_dir() else path.stem


def make_importable(source: str, root: Path) -> None:
    """Put the folder that a `source` path lies in onto `sys.path`, as loading it would; nothing is imported."""
    if _looks_like_path(source):
        _add_to_path((root / source).resolve().parent)


def load_workload(source: str, root: Path) -> Workload:
    """The object `workload` of the module at `source`.

    Raises:
        PlanError: the module can't be imported, or holds no `workload`.
    """
    module = load_module(source, root)
    found = getattr(module, "workload", None)
    if not isinstance(found, Workload):
        raise PlanError(
            f"workload source {source!r}: `workload` is {type(found).__name__}, a phasewise.Workload is needed; "
            "define `workload = Workload(...)` at the top level"
        )
    return found


def try_switches(payload: dict[str, Any]) -> None:
    """Make the switches of the workload at {source, root}, which may refuse a value."""
    workload = load_workload(payload["source"], Path(payload["root"]))
    for values in payload["switches"]:
        workload.switches(**values)


def program_name(workload: Workload, source: str, root: Path) -> str:
    """Dotted name of the module that holds `build`."""
    return workload.program or name_source(source, root)


def sibling_file(program: str, name: str) -> Path | None:
    """File of `name` (checks, peers) beside the program module, else the program's own file; nothing is imported."""
    package, _, _ = program.rpartition(".")
    beside = find_module_file(f"{package}.{name}") if package else None
    return beside or find_module_file(program)


def find_module_file(name: str) -> Path | None:
    """File of a module; None where there is none. The packages around it are imported."""
    spec = _find_spec(name)
    return Path(spec.origin) if spec is not None and spec.origin else None


def load_sibling(program: str, name: str) -> ModuleType:
    """Module `name` (checks, peers) beside the program module, or the program module itself."""
    package, _, _ = program.rpartition(".")
    if package and _find_spec(f"{package}.{name}") is not None:
        return importlib.import_module(f"{package}.{name}")
    return importlib.import_module(program)


def load_peers(program: str, peer: str) -> ModuleType:
    """The module that holds the function of `peer`: `peer_<name>.py` beside the program module, else `peers`, else that module."""
    package, _, _ = program.rpartition(".")
    own = f"{PEER}{peer.replace('-', '_')}"
    return load_sibling(program, own if package and _find_spec(f"{package}.{own}") is not None else "peers")


def _find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:
        return None


def _looks_like_path(source: str) -> bool:
    return source.endswith(".py") or "/" in source or "\\" in source or source in (".", "..")


def _add_to_path(folder: Path) -> None:
    if str(folder) in sys.path:
        sys.path.remove(str(folder))
    sys.path.insert(0, str(folder))


def _forget_namesake(name: str, *files: Path) -> None:
    """Unload another file's module of the same name, so that two workloads may share a file name."""
    loaded = [sys.modules.get(name), sys.modules.get(f"{name}.phases")]
    found = {Path(module.__file__).resolve() for module in loaded if module is not None and module.__file__}
    if found and not found & {file.resolve() for file in files}:
        for other in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
            del sys.modules[other]
        importlib.invalidate_caches()
