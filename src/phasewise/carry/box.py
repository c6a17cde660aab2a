"""What runs on the box: set up what was packed, run the graph for a time, and pack what came of it.

It imports nothing but the standard library: it travels beside the archives, and nothing is installed yet when it starts.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from phasewise.carry.parcel import (
    MANIFEST,
    PIECE_BYTES,
    read_manifest,
    split_file,
    write_archive,
    write_manifest,
)
from phasewise.records.errors import UserError

USAGE = "usage: OUT=FOLDER sh run.sh SECONDS TARGET..."
# how many pieces may lie in OUT beside the manifest
PIECES = "PHASEWISE_PIECES"
# seconds between asking the run to stop and killing it
GRACE_S = 20
# room for the end of an archive
END_BYTES = 1000
# the exit status when time was up: EX_TEMPFAIL of sysexits.h, call again
AGAIN = 75
OUTCOMES = {0: "all made", AGAIN: "time was up, call again to go on"}
# archive -> folders of the project, what is wanted most first
RETURNED = {
    "records.tgz": ("profiles/records", "profiles/machines", ".snakemake/metadata", "logs"),
    "exports.tgz": ("exports",),
    "captures.tgz": ("profiles/captures",),
}


def start() -> None:
    """Entry point: the folder that was carried over, then the words of the caller."""
    sys.exit(main(Path(sys.argv[1]).resolve(), sys.argv[2:]))


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Ends with what `phasewise run` ended with, 75 if the time was up, 2 for what the caller can mend."""
    began = time.monotonic()
    try:
        if len(arguments) < 2 or not arguments[0].isdecimal() or not os.environ.get("OUT"):
            raise UserError(USAGE)
        if not os.environ.get(PIECES, "0").isdecimal():
            raise UserError(f"{PIECES}={os.environ[PIECES]}: no number; say how many pieces OUT may hold")
        out = Path(os.environ["OUT"]).resolve()
        told = read_manifest(folder)
        tree, environment = set_up(folder, told)
        entrance = write_entrance(tree, environment)
        tell(began, f"set up, `. {entrance}` enters it")
        code = run(tree, environment, arguments[1:], began + int(arguments[0]))
        tell(began, OUTCOMES.get(code, f"phasewise run ended with {code}"))
        pack_up(tree, out, {"commit": told["commit"], "targets": [*arguments[1:]], "ended": code})
        tell(began, f"packed into {out}")
    except UserError as error:
        print(f"run.sh: {error}", file=sys.stderr)
        return 2
    return code


def tell(began: float, what: str) -> None:
    """One line, with the seconds so far."""
    print(f"run.sh: {what}, {time.monotonic() - began:.0f} s", flush=True)


def set_up(folder: Path, told: dict[str, Any]) -> tuple[Path, dict[str, str]]:
    """The project's tree and the environment to run it in; what an earlier call has set up stays."""
    version = ".".join(map(str, sys.version_info[:2]))
    if version != told["python"]:
        raise UserError(
            f"this is Python {version}, packed was for {told['python']}; pack with --python {version}, or set PYTHON"
        )
    base = Path(tempfile.gettempdir()) / "phasewise-box"
    digest = hashlib.sha256((folder / MANIFEST).read_bytes()).hexdigest()
    # by that name Phasewise tells installed packages from sources
    site = make_once(base / told["wheels"][:16] / "site-packages", lambda part: install(folder, part))
    tree = make_once(base / f"tree-{digest[:16]}", lambda part: unpack(folder, told["archives"], part))
    path = [str(tree / "src"), str(tree / ".phasewise/src"), str(site), os.environ.get("PYTHONPATH", "")]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTHONUNBUFFERED": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, path)),
        "PATH": os.pathsep.join((str(site / "bin"), str(Path(sys.executable).parent), os.environ["PATH"])),
        "PHASEWISE_COMMIT": told["commit"],
    }
    if (folder / "lib").is_dir():
        environment["PHASEWISE_NSYS_LIBRARIES"] = str(folder / "lib")
    return tree, environment


def write_entrance(tree: Path, environment: dict[str, str]) -> Path:
    """A file for a shell that wants to run something else here, such as `dvc repro`."""
    entrance = tree.parent / "enter.sh"
    changed = {name: value for name, value in environment.items() if os.environ.get(name) != value}
    lines = [f"export {name}={shlex.quote(value)}" for name, value in changed.items()]
    entrance.write_text("\n".join([*lines, f"cd {shlex.quote(str(tree))}", ""]))
    return entrance


def make_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """What `make` puts there, whole or not at all."""
    if not folder.is_dir():
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        make(part)
        part.rename(folder)
    return folder


def install(folder: Path, site: Path) -> None:
    """The wheels beside what the box has."""
    wheels = sorted(map(str, folder.glob("wheels/*.whl")))
    words = ["install", "--quiet", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir", "--target", str(site)]
    words += ["--root-user-action", "ignore"]
    if wheels and subprocess.run([sys.executable, "-m", "pip", *words, *wheels], check=False).returncode:
        raise UserError(f"pip could not install the wheels with {sys.executable}; see its lines above")
    # Phasewise itself came as sources
    command = site / "bin" / "phasewise"
    command.parent.mkdir(exist_ok=True)
    command.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m phasewise "$@"\n')
    command.chmod(0o755)


def unpack(folder: Path, archives: Sequence[str], tree: Path) -> None:
    """Sources, then data, then the records to go on from, in the order in which they were named."""
    for name in archives:
        with tarfile.open(folder / name) as archive:
            archive.extractall(tree, filter="data")
    # records to go on from come without their captures and exports
    for listed in tree.glob("profiles/records/*/*/files.json"):
        listed.unlink()


def run(tree: Path, environment: dict[str, str], targets: Sequence[str], until: float) -> int:
    """`phasewise run` for the targets, until they are made or the time is up."""
    gpus = list_gpus()
    words = ["--gpus", ",".join(gpus)] if gpus else []
    words += ["--cores", str(len(os.sched_getaffinity(0))), "--keep-going", "--rerun-incomplete", "--nolock"]
    words += ["--scheduler", "greedy", "--quiet", "rules", "--", *targets]
    child = subprocess.Popen([sys.executable, "-m", "phasewise", "run", *words], cwd=tree, env=environment)
    # whoever ends this call still wants what has been made
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        return child.wait(max(1.0, until - time.monotonic()))
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        # it hands that on to all that it has started
        child.send_signal(signal.SIGINT)
    try:
        child.wait(GRACE_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    return AGAIN


def list_gpus() -> list[str]:
    """The GPUs that may be used: those that CUDA_VISIBLE_DEVICES leaves, else all."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [entry for entry in chosen.split(",") if entry not in ("", "-1")]
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    listed = subprocess.run([tool, "-L"], capture_output=True, text=True, check=False).stdout
    return [str(number) for number, line in enumerate(line for line in listed.splitlines() if line.startswith("GPU "))]


def pack_up(tree: Path, out: Path, facts: dict[str, Any]) -> None:
    """Archive what is there, in pieces. Files for which no piece is left stay on the box, and are told.

    OUT is whole after each archive, since the caller may end this at any time.
    """
    pieces = int(os.environ[PIECES]) if os.environ.get(PIECES) else None
    out.mkdir(parents=True, exist_ok=True)
    for old in (out / MANIFEST, *(path for name in RETURNED for path in out.glob(f"{name}*"))):
        old.unlink(missing_ok=True)
    left_out: list[str] = []
    written: list[Path] = []
    for name, folders in RETURNED.items():
        paths = [path for folder in folders for path in (tree / folder).rglob("*") if path.is_file()]
        # the smallest first, so that few are left out
        files = sorted(((path.relative_to(tree).as_posix(), path) for path in paths), key=_by_size)
        room = None if pieces is None else pieces * PIECE_BYTES - END_BYTES
        missed = write_archive(files, out / name, room=room)
        if len(missed) == len(files):
            (out / name).unlink()
        else:
            used = split_file(out / name)
            written += used
            pieces = None if pieces is None else pieces - len(used)
        left_out += missed
        write_manifest(out, written, {**facts, "left_out": left_out})
    for name in left_out:
        print(f"run.sh: left out: {name}, for which {PIECES}={os.environ[PIECES]} is too few", flush=True)


def _by_size(file: tuple[str, Path]) -> tuple[int, str]:
    name, path = file
    return path.stat().st_size, name
