"""Hashes of sources: what changes them, and what does not; the same from every version of Python."""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from phasewise.model import sources
from phasewise.model.discover import load_peers
from phasewise.model.freshness import find_closure, hash_now, list_changed

TEXT = """
import torch
from . import kernels

SCALE: float = 2.0

def step(x, *, rows=64):
    return f"{x!r:>{rows}} and {', '.join(map(str, x))} {rows=}"

class Block(object):
    pass
"""
# of TEXT, by any Python
KNOWN = "5be0e45c1631c913"


def hashed(folder: Path, text: str) -> str:
    path = folder / f"f{abs(hash(text))}.py"
    path.write_text(text)
    return sources.hash_file(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("    pass", '    """A block."""\n    pass'),
        ("def step", "# a comment\n\n\ndef step"),
        ("rows=64", "rows = 64"),
        ("import torch", '"""Module."""\nimport torch'),
        ("SCALE: float", "workload = Workload(phases=(1, 2))\nSCALE: float"),
    ],
)
def test_what_changes_no_result_changes_no_hash(tmp_path, old, new):
    assert old in TEXT
    assert hashed(tmp_path, TEXT.replace(old, new)) == hashed(tmp_path, TEXT)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("2.0", "2.5"),
        ("2.0", "2"),
        ("rows=64", "rows=32"),
        ("import torch", "import torch.nn"),
        ("!r:>", "!s:>"),
        ("from . import", "from .. import"),
        ("(object)", "(dict)"),
        ("*, rows", "rows"),
        ("SCALE: float = 2.0", "SCALE = 2.0"),
        ("    pass", "    pass\n    workload = Workload(1)"),
    ],
)
def test_what_may_change_a_result_changes_the_hash(tmp_path, old, new):
    assert old in TEXT
    assert hashed(tmp_path, TEXT.replace(old, new)) != hashed(tmp_path, TEXT)


def test_the_hash_is_the_one_that_records_hold(tmp_path):
    assert hashed(tmp_path, TEXT) == KNOWN


@pytest.mark.parametrize("version", ["3.11", "3.12", "3.13"])
def test_every_python_gives_the_same_hash(tmp_path, version):
    python = find_python(version)
    if python is None:
        pytest.skip(f"no Python {version} here")
    path = tmp_path / "text.py"
    path.write_text(TEXT)
    code = (
        "import importlib.util, pathlib, sys\n"
        "spec = importlib.util.spec_from_file_location('sources', sys.argv[1])\n"
        "module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print(module.hash_file(pathlib.Path(sys.argv[2])))"
    )
    done = subprocess.run([python, "-c", code, sources.__file__, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == KNOWN


def find_python(version):
    if version == ".".join(map(str, sys.version_info[:2])):
        return sys.executable
    for path in (
        shutil.which(f"python{version}"),
        *sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")),
    ):
        if path and subprocess.run([path, "--version"], capture_output=True, check=False).returncode == 0:
            return path
    return None


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A workload in a folder that can be imported."""
    files = {
        "__init__.py": "",
        "phases.py": "from phasewise import Case, Shape, Workload\nfrom .switches import Switches\nfrom . import goals\n"
        "workload = Workload(summary='', switches=Switches, program='work.program', cases={'a': Case(tiny=Shape(n=1))}, phases=())",
        "goals.py": "MINIMUM = 1",
        "switches.py": "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Switches:\n    fast: bool = False",
        "program.py": "import phasewise.kit.graphs\nfrom .switches import Switches\n"
        "def build():\n    from .kernels import fast\n    return open('table.npz')",
        "checks.py": "from work import reference",
        "peers.py": "",
        "peer_solver.py": "from work import solver",
        "solver.py": "",
        "reference.py": "",
        "other.py": "",
        "kernels/__init__.py": "SOURCE = 'cuda/rows.cu'",
        "kernels/fast.py": "",
        "kernels/cuda/rows.cu": "1",
        "kernels/cuda/rows.cuh": "2",
        "data/table.npz": "0",
        "numbers/table.npz": "3",
        "tests/table.npz": "4",
    }
    for name, text in files.items():
        path = tmp_path / "work" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in [name for name in sys.modules if name.partition(".")[0] == "work"]:
        del sys.modules[name]
    monkeypatch.syspath_prepend(tmp_path)
    sources._list_files.cache_clear()
    return tmp_path / "work"


def test_a_closure_has_what_the_program_may_load_and_not_what_only_the_plan_is_made_from(work):
    closure = find_closure("./work", "work.program", work.parent)
    own = {name for name in closure.files if name.startswith("work/")}
    assert own == {
        "work/__init__.py", "work/program.py", "work/switches.py", "work/checks.py", "work/reference.py",
        "work/peers.py", "work/peer_solver.py", "work/solver.py",
        "work/kernels/__init__.py", "work/kernels/fast.py", "work/kernels/cuda/rows.cu", "work/kernels/cuda/rows.cuh",
        "work/numbers/table.npz",
    }  # fmt: skip
    assert closure.planned == {"work/phases.py", "work/goals.py"}
    others = closure.files.keys() - own
    assert "phasewise/kit/graphs.py" in others and all(name.startswith("phasewise/kit/") for name in others)


def test_a_peer_alone_in_its_file_is_found_there_and_others_among_the_peers(work):
    names = [load_peers("work.program", peer).__name__ for peer in ("solver", "another")]
    assert names == ["work.peer_solver", "work.peers"]
    (work / "peers.py").unlink()
    for name in ("work.peers", "work.program"):
        sys.modules.pop(name, None)
    importlib.invalidate_caches()
    assert load_peers("work.program", "another").__name__ == "work.program"


def test_what_was_loaded_is_stamped_as_it_was_before(work):
    closure = find_closure("./work", "work.program", work.parent)
    (work / "kernels/fast.py").write_text("x = 1")
    stamped = closure.stamp([["work/kernels/fast.py", "work/program.py", "work/phases.py", "work/other.py"]])
    assert stamped.keys() == {"work/kernels/fast.py", "work/program.py", "work/other.py"}
    assert list_changed(stamped, hash_now([stamped])) == ["work/kernels/fast.py"]


def test_of_a_process_that_died_before_it_told_all_files_count(work):
    closure = find_closure("./work", "work.program", work.parent)
    assert closure.stamp([["work/program.py"], []]) == dict(closure.files)
    assert closure.stamp([["work/program.py"]]).keys() == {"work/program.py"}


def test_a_file_that_is_gone_has_changed(work):
    stamped = find_closure("./work", "work.program", work.parent).stamp([["work/reference.py"]])
    (work / "reference.py").unlink()
    assert list_changed(stamped, hash_now([stamped])) == ["work/reference.py"]


def test_what_a_machine_starts_its_interpreters_with_is_no_source(work, monkeypatch):
    (work.parent / "sitecustomize.py").write_text("x = 1")
    module = ModuleType("sitecustomize")
    module.__file__ = str(work.parent / "sitecustomize.py")
    assert sources.name_loaded({"sitecustomize": module}) == []
    # a record that lists one, from another machine, is as fresh as the rest of it
    stamped = {"sitecustomize.py": "0", "usercustomize.py": "0", "work/gone.py": "0"}
    assert list_changed(stamped, hash_now([stamped])) == ["work/gone.py"]


def test_loaded_modules_are_named_without_the_core_and_installed_packages(work):
    import importlib

    import yaml

    import phasewise.kit.regions
    import phasewise.store

    found = sources.name_loaded(
        {
            "a": importlib.import_module("work.kernels"),
            "b": yaml,
            "c": phasewise.store,
            "d": phasewise.kit.regions,
            "e": pytest,
        }
    )
    assert found == [
        "phasewise/kit/regions.py", "work/kernels/__init__.py", "work/kernels/cuda/rows.cu", "work/kernels/cuda/rows.cuh",
    ]  # fmt: skip
