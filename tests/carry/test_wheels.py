"""A box gets the wheels that it lacks, at the versions of the lock file, and nothing else."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from phasewise.carry.wheels import ROOTS, USUALLY_THERE, Box, collect_wheels, read_versions
from phasewise.records.errors import UserError

# name-version -> tag and what it requires
SHELF: Mapping[str, tuple[str, Sequence[str]]] = {
    "top-1.0": (
        "py3-none-any",
        ["middle>=2", "torch", "windows-only; sys_platform == 'win32'", "fast; extra == 'speed'"],
    ),
    "middle-2.0": ("cp312-cp312-manylinux_2_17_x86_64", ["top", "old; python_version < '3.12'"]),
    "middle-3.0": ("cp312-cp312-manylinux_2_17_x86_64", []),
    "fast-1.0": ("py3-none-any", []),
    "elsewhere-1.0": ("cp313-cp313-manylinux_2_17_x86_64", []),
}


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The only place that pip looks at."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    for full, (tag, requires) in SHELF.items():
        name, version = full.split("-")
        lines = [
            "Metadata-Version: 2.1",
            f"Name: {name}",
            f"Version: {version}",
            *(f"Requires-Dist: {one}" for one in requires),
        ]
        with zipfile.ZipFile(folder / f"{full}-{tag}.whl", "w") as archive:
            archive.writestr(f"{full}.dist-info/METADATA", "\n".join(lines) + "\n")
            archive.writestr(f"{full}.dist-info/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
            archive.writestr(f"{full}.dist-info/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")


def collect(
    folder: Path, *wanted: str, there: str = USUALLY_THERE, locked: Mapping[str, str] | None = None
) -> set[str]:
    box = Box(python="3.12", there=read_versions(there), locked=locked or {})
    collect_wheels(wanted, box, folder)
    return {"-".join(path.name.split("-")[:2]) for path in folder.iterdir()}


def test_what_is_required_comes_along_and_what_is_there_does_not(tmp_path: Path) -> None:
    assert collect(tmp_path / "wheels", "top", locked={"middle": "2.0"}) == {"top-1.0", "middle-2.0"}


def test_without_a_lock_the_newest_comes(tmp_path: Path) -> None:
    assert collect(tmp_path / "wheels", "top[speed]") == {"top-1.0", "middle-3.0", "fast-1.0"}


def test_what_the_box_has_in_too_old_a_version_is_brought(tmp_path: Path) -> None:
    there = "torch==2.11\nmiddle==1.5\n"
    assert collect(tmp_path / "old", "top", there=there) == {"top-1.0", "middle-3.0"}
    assert collect(tmp_path / "new", "top", there="torch==2.11\nmiddle==2.5\n") == {"top-1.0"}
    assert collect(tmp_path / "some", "top", there="torch\nmiddle\n") == {"top-1.0"}


def test_no_wheel_for_the_box_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        UserError, match=r"^elsewhere: no wheel for Python 3\.12 is found.*--without elsewhere"
    ) as refused:
        collect(tmp_path / "wheels", "elsewhere")
    assert "\n" not in str(refused.value)


def test_versions_are_read_of_a_lock_and_of_a_listing() -> None:
    text = "# made by hand\nPyYAML==6.0\nruamel.yaml==0.19 ; python_version > '3'\nlocal @ file:///somewhere\n\nnumpy\n"
    assert read_versions(text) == {"pyyaml": "6.0", "ruamel-yaml": "0.19", "local": None, "numpy": None}


def test_what_a_box_runs_with_is_locked(repository: Path) -> None:
    """The roots name extras of this package, and a box needs nothing of them that has no version."""
    import tomllib

    project = tomllib.loads((repository / "pyproject.toml").read_text())["project"]
    extras = {extra for root in ROOTS for extra in Requirement(root).extras}
    assert extras <= project["optional-dependencies"].keys()
    locked = read_versions((repository / "requirements.lock").read_text())
    wanted = [*project["dependencies"], *(one for extra in extras for one in project["optional-dependencies"][extra])]
    assert all(read_versions(one).keys() <= locked.keys() for one in wanted)
    assert json.dumps(sorted(read_versions(USUALLY_THERE))) == '["numpy", "torch", "triton"]'
