"""The wheels that a box lacks: what the project needs, at the versions of the lock file, less what is there."""

from __future__ import annotations

import email
import importlib.metadata
import json
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from phasewise.records.errors import UserError

# minor versions of glibc 2 whose wheels are taken: a box with Python 3.12 has 2.28 or later
GLIBC = (28, 27, 24, 17, 12, 5)
# packages that a machine with a GPU usually has, built for its driver
USUALLY_THERE = "torch\ntriton\nnumpy\n"
# what the project is run with there; what keeps its records and draws its pages stays at home
ROOTS = ("phasewise[run,graph,export,tensorboard]",)
AT_HOME = frozenset({"dvc"})


@dataclass(frozen=True, kw_only=True)
class Box:
    """What wheels are chosen for."""

    # such as 3.12
    python: str
    # package -> version there; None where the version is not known
    there: Mapping[str, str | None]
    # package -> version that the lock file names
    locked: Mapping[str, str]

    def wants(self, requirement: Requirement, extras: Iterable[str]) -> bool:
        """Whether it has to be brought."""
        name = canonicalize_name(requirement.name)
        has = name in self.there and (
            self.there[name] is None or requirement.specifier.contains(self.there[name] or "", prereleases=True)
        )
        return name not in AT_HOME and not has and self._applies(requirement, extras)

    def pin(self, requirement: Requirement) -> str:
        """What pip is asked for."""
        version = self.locked.get(canonicalize_name(requirement.name))
        if version is not None and requirement.specifier.contains(version, prereleases=True):
            return f"{requirement.name}=={version}"
        return f"{requirement.name}{requirement.specifier}"

    def _applies(self, requirement: Requirement, extras: Iterable[str]) -> bool:
        if requirement.marker is None:
            return True
        surroundings = {
            "python_version": self.python,
            "python_full_version": f"{self.python}.0",
            "sys_platform": "linux",
        }
        return any(requirement.marker.evaluate({**surroundings, "extra": extra}) for extra in ("", *extras))


def read_versions(text: str) -> dict[str, str | None]:
    """Package -> version of a lock file or of what `pip list --format=freeze` prints."""
    lines = (line.partition("#")[0].strip() for line in text.splitlines())
    found = (re.match(r"([A-Za-z0-9._-]+)\s*(?:==\s*([^\s;]+))?", line) for line in lines)
    return {canonicalize_name(one[1]): one[2] for one in found if one}


def list_installed() -> dict[str, str | None]:
    """The versions of this environment, where a project has no lock file."""
    return {canonicalize_name(one.name): one.version for one in importlib.metadata.distributions()}


def collect_wheels(wanted: Iterable[str], box: Box, folder: Path) -> None:
    """Download into `folder` what `wanted` and all that it requires lack there.

    Raises:
        UserError: a package has no wheel for the box, and none can be built of its sources here.
    """
    folder.mkdir(parents=True, exist_ok=True)
    todo = [Requirement(one) for one in wanted]
    done: set[tuple[str, frozenset[str]]] = set()
    while todo:
        new = {(canonicalize_name(one.name), frozenset(one.extras)): one for one in todo}
        new = {key: one for key, one in new.items() if key not in done}
        done |= new.keys()
        own, others = (
            [one for one in new.values() if is_own(one.name)],
            [one for one in new.values() if not is_own(one.name)],
        )
        _download({canonicalize_name(one.name): box.pin(one) for one in others}, box, folder)
        needed = [(one, importlib.metadata.requires(one.name) or []) for one in own]
        needed += [(one, list(_read_requires(folder, one.name))) for one in others]
        todo = [found for one, texts in needed for text in texts if box.wants(found := Requirement(text), one.extras)]


def is_own(name: str) -> bool:
    """Whether a distribution is this one, or a folder on this machine: its sources travel, not a wheel."""
    if canonicalize_name(name) == "phasewise":
        return True
    try:
        told = importlib.metadata.distribution(name).read_text("direct_url.json")
    except importlib.metadata.PackageNotFoundError:
        return False
    return told is not None and "dir_info" in json.loads(told)


def _download(pins: Mapping[str, str], box: Box, folder: Path) -> None:
    """One call of pip for those that are not there yet; one by one where it finds some of them only as sources."""
    lacking = {name: pin for name, pin in pins.items() if _find_wheel(folder, name) is None}
    platforms = [f"manylinux_2_{minor}_{platform.machine()}" for minor in GLIBC] + [
        f"manylinux2014_{platform.machine()}"
    ]
    words = ["download", "--quiet", "--no-deps", "--only-binary=:all:", "--dest", str(folder)]
    words += ["--python-version", box.python, "--implementation", "cp", *(f"--platform={one}" for one in platforms)]
    if not lacking or _call_pip([*words, *lacking.values()]):
        return
    for name, pin in lacking.items():
        if not _call_pip([*words, pin]):
            _build(name, pin, box, folder)


def _build(name: str, pin: str, box: Box, folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        built = _call_pip(["wheel", "--quiet", "--no-deps", "--wheel-dir", scratch, pin])
        wheels = sorted(Path(scratch).glob("*-none-any.whl"))
        if not built or not wheels:
            raise UserError(
                f"{pin}: no wheel for Python {box.python} is found, and none that fits everywhere can be built here; "
                f"give --without {name}, or PIP_FIND_LINKS with a folder that holds its wheel"
            )
        shutil.copy(wheels[0], folder)


def _call_pip(words: list[str]) -> bool:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *words]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _find_wheel(folder: Path, name: str) -> Path | None:
    wanted = canonicalize_name(name)
    return next((one for one in folder.glob("*.whl") if canonicalize_name(one.name.partition("-")[0]) == wanted), None)


def _read_requires(folder: Path, name: str) -> Iterator[str]:
    wheel = _find_wheel(folder, name)
    if wheel is None:
        return
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = (one for one in archive.namelist() if re.fullmatch(r"[^/]+\.dist-info/METADATA", one))
        yield from email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist", [])
