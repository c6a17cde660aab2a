"""Which studies' tests a change concerns.

A file concerns a study that it belongs to or that imports it, also by way of others; what is not known to concern some alone
concerns all of them. So a wrong guess costs time and hides nothing.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

CORE = "src/phasewise/"
KIT = "src/phasewise/kit/"
STUDIES = "src/phasewise_studies/"
# what lies there belongs to the study in whose name's folder or file it is
PER_STUDY = ("notebooks/", "examples/", "reports/", "profiles/records/")
# read by tests of the core alone, or by those of all studies, which are never left out
FOR_NO_STUDY = ("docs/", "CHANGELOG.md", f"{STUDIES}tests/")
# in any text: a module is also imported by its name, or run by another process
NAME = re.compile(r"\bphasewise(?:_studies)?(?:\.\w+)*")
# and of a package that is run
RUN = re.compile(r"-m (phasewise[\w.]*)")
COMMAND = "phasewise"

# file -> files that it imports, by paths below the repository
Imports = Mapping[str, set[str]]


def choose_left_out(root: Path, wished: str | None) -> tuple[list[str], str]:
    """Studies whose tests can be left out, and a sentence about it; `wished` names the commit to compare with, if any."""
    try:
        base = find_base(root, wished)
        changed = list_changes(root, base) if base else []
        # of a fresh clone of what it is compared with, nobody knows whether it was ever tested
        if not base or not changed:
            return [], f"studies: all tests, for {'nothing changed' if base else 'no commit to compare with is known'}"
        imports = read_imports(root)
    except (OSError, subprocess.CalledProcessError, SyntaxError) as error:
        return [], f"studies: all tests, for what changed is not known ({error})"
    studies = {path.parent.name for path in (root / STUDIES).glob("*/tests") if path.parent.is_dir()}
    left_out = sorted(studies - name_concerned(changed, imports, studies))
    if not left_out:
        return [], f"studies: all tests, for what changed since {base[:9]} concerns all"
    return (
        left_out,
        f"studies: tests of {', '.join(left_out)} left out, unchanged since {base[:9]}; `make test-all` runs them",
    )


def name_concerned(changed: Iterable[str], imports: Imports, studies: Iterable[str]) -> set[str]:
    """Those of `studies` whose tests may see a difference when files `changed`."""
    reached = {
        study: reach((path for path in imports if path.startswith(f"{STUDIES}{study}/")), imports) for study in studies
    }
    return set().union(*(_concerned_by(path, imports, reached) for path in changed))


def _concerned_by(path: str, imports: Imports, reached: Mapping[str, set[str]]) -> set[str]:
    for owner in reached:
        folder = f"{STUDIES}{owner}/"
        if path.startswith(folder):
            return {
                owner,
                *(study for study, files in reached.items() if any(file.startswith(folder) for file in files)),
            }
    if path.startswith(FOR_NO_STUDY):
        return set()
    if path.startswith(PER_STUDY):
        return {study for study in reached if study in Path(path).with_suffix("").parts} or set(reached)
    # a file that is gone may have been imported
    if path in imports and path.startswith((CORE, STUDIES, "tests/")) and not path.startswith(KIT):
        return {study for study, files in reached.items() if path in files}
    return set(reached)


def reach(start: Iterable[str], imports: Imports) -> set[str]:
    """The files of `start`, and all that they import."""
    found: set[str] = set()
    waiting = list(start)
    while waiting:
        path = waiting.pop()
        if path not in found:
            found.add(path)
            waiting += imports[path]
    return found


def read_imports(root: Path) -> dict[str, set[str]]:
    """What every Python file of the core, the studies and the core's tests imports or names."""
    modules = {}
    for top in ("src", "tests"):
        for path in (root / top).rglob("*.py"):
            parts = path.relative_to(root / top).with_suffix("").parts
            modules[".".join(parts)] = path.relative_to(root).as_posix()
    names = {name.removesuffix(".__init__"): path for name, path in modules.items()}
    found = {}
    for module, path in modules.items():
        named = {module, *_list_names((root / path).read_text(), module)}
        found[path] = {names[part] for name in named for part in _with_parents(name) if part in names} - {path}
    return found


def _list_names(source: str, module: str) -> Iterator[str]:
    """Dotted names of modules, and of what is imported from them."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            # the module's own name without as many parts as there are dots
            within = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*within, *([node.module] if node.module else [])])
            yield from (base, *(f"{base}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from NAME.findall(node.value)
            yield from (f"{name}.__main__" for name in RUN.findall(node.value))
            # in a test the bare word is the command, elsewhere the name of a folder or a distribution
            if node.value == COMMAND and ".tests." in module:
                yield f"{COMMAND}.__main__"
        elif isinstance(node, ast.List | ast.Tuple):
            words = [word.value if isinstance(word, ast.Constant) else None for word in node.elts]
            yield from (f"{name}.__main__" for flag, name in pairwise(words) if flag == "-m")


def _with_parents(name: str) -> Iterator[str]:
    while name:
        yield name
        name = name.rpartition(".")[0]


def find_base(root: Path, wished: str | None) -> str | None:
    """The commit to compare with: `wished`, or else where this branch left origin/main; None where there is neither."""
    if wished:
        return _git(root, "rev-parse", "--verify", f"{wished}^{{commit}}").strip()
    try:
        return _git(root, "merge-base", "HEAD", "origin/main").strip()
    except subprocess.CalledProcessError:
        return None


def list_changes(root: Path, base: str) -> list[str]:
    """Files that differ from `base`, committed or not, also those that are gone."""
    differing = _git(root, "diff", "--name-only", "--no-renames", "-z", base)
    new = _git(root, "ls-files", "--others", "--exclude-standard", "-z")
    return [name for name in (differing + new).split("\0") if name]


def _git(root: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=True).stdout
